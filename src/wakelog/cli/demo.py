"""Command `demo`: kill an agent during a reply and during a tool run, and wake it again.

Everything is real: the processes, the kill -9, the tools, the log. Only the model is scripted, so that no key and no
network are needed. The tool that must not run twice writes to a ledger file outside the log; the demo counts its lines.
"""

import json
import os
import signal
import subprocess
import tempfile
import time

import click

from wakelog.cli.draw import look
from wakelog.cli.options import Asked, command
from wakelog.cli.output import put
from wakelog.cli.six_answers import six_answers
from wakelog.cli.stage import Stage
from wakelog.cli.tour import tour
from wakelog.errors import WakelogError

_SESSION = "demo_you_1"
_LEDGER = "ledger.txt"
_PATIENCE_S = 20
_STORY = (
    "The notes are complete: three fixes, one new command, nothing that breaks. "
    "I will publish the release now. Publishing cannot be taken back, so it must happen exactly once, "
    "whatever becomes of me on the way."
)
_SCRIPT: tuple[dict[str, object], ...] = (
    {"text": "I read the notes first.", "toolCalls": [{"name": "read", "input": {"path": "NOTES.txt"}}]},
    {
        "text": _STORY,
        "deltaChars": 6,
        "delayMs": 25,
        "toolCalls": [{"name": "shell", "input": {"command": f"echo published >> {_LEDGER}; sleep 60"}}],
    },
    {
        "text": "The publishing was cut off, and I cannot know whether it happened. I look before I repeat anything.",
        "toolCalls": [{"name": "read", "input": {"path": _LEDGER}}],
    },
    {"text": "The ledger shows that the release is published, once. Nothing is left to do."},
)


@command(
    "demo",
    examples="""
    wakelog demo              kill an agent twice and see it wake
    wakelog demo --tour       see what can be done with a log
    """,
    json=False,
)
@click.option(
    "--tour", "touring", is_flag=True, help="Write, branch, fold, damage, recover and find a session instead."
)
def demo(asked: Asked, *, touring: bool) -> None:
    """Kill an agent in mid-sentence and in mid-tool, and see it wake. Nothing of yours is touched."""
    with tempfile.TemporaryDirectory(prefix="wakelog-demo-") as folder:
        stage = Stage(look(asked.color), folder)
        if touring:
            tour(stage)
            return
        _prepare(stage)
        for part in (_killed_in_a_sentence, _killed_in_a_tool, _wakes, _looks_back, _proves):
            part(stage)
        six_answers(stage, _SESSION)


def _prepare(stage: Stage) -> None:
    with open(stage.path("script.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in _SCRIPT)
    with open(stage.path("NOTES.txt"), "w", encoding="utf-8") as file:
        file.writelines(
            f"{number}. A note that is kept whole in a blob and clipped in the log.\n" for number in range(400)
        )


def _killed_in_a_sentence(stage: Stage) -> None:
    stage.chapter("An agent is killed in the middle of a sentence", "It reads some notes, and begins to answer.")
    model = f"scripted:{stage.path('script.jsonl')}"
    asked = ("run", "Publish the release.", "--agent", "demo", "--sender", "you", "--yes", "--model", model)
    process = stage.start(*asked, seen=False)
    heard = _hear(process, "exactly once")
    _kill(process)
    put(heard)
    stage.remark("(kill -9)")


def _killed_in_a_tool(stage: Stage) -> None:
    stage.chapter(
        "It wakes, and is killed in the middle of a tool that must not run twice",
        "`wake` needs the session's name and nothing else. The interrupted reply is kept as an annotation and begun "
        "again; then the release is published. The ledger has its line, the tool has not ended, and the process dies.",
    )
    process = stage.start("wake", _SESSION, seen=False)
    _wait_for(stage.path(_LEDGER), process)
    _kill(process)
    stage.remark(f"(kill -9, as soon as {_LEDGER} has a line)")


def _wakes(stage: Stage) -> None:
    stage.chapter(
        "It wakes again",
        "The log says that the tool was begun and not that it ended. It may not run twice, so it is not run: the model "
        "is told that the outcome is unknown, and looks for itself.",
    )
    stage.run("wake", _SESSION)
    with open(stage.path(_LEDGER), encoding="utf-8") as file:
        lines = file.read().splitlines()
    if lines != ["published"]:
        raise WakelogError(f"the tool ran {len(lines)} times")
    stage.say(f"Counted outside of the log: {_LEDGER} has {len(lines)} line.")


def _looks_back(stage: Stage) -> None:
    stage.chapter("What happened, and what was recovered", "All of it is in the log, the two deaths included.")
    stage.run("show", _SESSION, "--folded")


def _proves(stage: Stage) -> None:
    stage.chapter(
        "Nothing is hidden",
        "The chain of seals proves that nobody touched the log; replay drives the same steps again from the log alone.",
    )
    stage.run("verify", _SESSION)
    stage.run("replay", _SESSION, "--verify")


# ── kill -9 ──────────────────────────────────────────────────────────────────────────────────────


def _hear(process: "subprocess.Popen[bytes]", words: str) -> str:
    """Read the output of a process until it contains `words`; return the output."""
    assert process.stdout is not None
    heard = b""
    while words.encode() not in heard:
        piece = os.read(process.stdout.fileno(), 4096)
        if not piece:
            raise WakelogError("the demo's agent ended before it could be killed")
        heard += piece
    return heard.decode(errors="replace").strip()


def _wait_for(path: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a file is not empty. `WakelogError` if the process ends first or after `_PATIENCE_S` seconds."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (os.path.exists(path) and os.path.getsize(path)):
        if process.poll() is not None or time.monotonic() > deadline:
            raise WakelogError("the demo's tool never began")
        time.sleep(0.01)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
