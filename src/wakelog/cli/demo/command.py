"""Command `demo`: kill an agent during a reply and during a tool run, wake it again, and answer six questions.

Everything is real: the processes, the kill -9, the tools, the log. Only the model is scripted, so that no key and no
network are needed. The tool that must not run twice writes to a ledger file outside the log; the demo counts its lines.
The six questions about the run are answered from its log alone.
"""

import inspect
import json
import os
import signal
import subprocess
import tempfile
import time
from collections import Counter

import click

from wakelog.cli.demo.tour import DemoShell, tour
from wakelog.cli.ui.options import SharedOptions, command
from wakelog.cli.ui.output import put
from wakelog.cli.ui.quantities import plural, size_text
from wakelog.cli.ui.safe_text import first_line, visible
from wakelog.cli.ui.terminal import fit_start, style_of
from wakelog.errors import WakelogError
from wakelog.log.content import BlobRef, ToolResult
from wakelog.log.entry import Activity, ContextEntry, Entry, Message, ModelCall, ToolStarted
from wakelog.projections.context import build_context
from wakelog.reading import Log, read_log
from wakelog.stores import open_store

_SESSION = "demo_you_1"
_LEDGER = "ledger.txt"
_PATIENCE_S = 20
_STORY = (
    "The notes are complete: three fixes, one new command, nothing that breaks. "
    "I will publish the release now. Publishing cannot be undone, so it must happen exactly once, "
    "even if this process is killed on the way."
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
        "text": "The publishing was interrupted, and its outcome is unknown. I check before I repeat anything.",
        "toolCalls": [{"name": "read", "input": {"path": _LEDGER}}],
    },
    {"text": "The ledger shows that the release is published, once. Nothing is left to do."},
)


@command(
    "demo",
    examples="""
    wakelog demo              kill an agent twice and watch it recover
    wakelog demo --tour       see what can be done with a session
    """,
    json=False,
)
@click.option(
    "--tour", "touring", is_flag=True, help="Write, branch, compact, damage, recover and find a session instead."
)
def demo(shared: SharedOptions, *, touring: bool) -> None:
    """Run a demonstration in a temporary store: kill an agent in a reply and in a tool run, and watch it recover."""
    with tempfile.TemporaryDirectory(prefix="wakelog-demo-") as folder:
        stage = DemoShell(style_of(shared.color), folder)
        if touring:
            tour(stage)
            return
        _prepare(stage)
        for part in (_killed_in_a_sentence, _killed_in_a_tool, _wakes, _shows_history, _verifies):
            part(stage)
        answer_questions(stage, _SESSION)


def _prepare(stage: DemoShell) -> None:
    with open(stage.path("script.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in _SCRIPT)
    with open(stage.path("NOTES.txt"), "w", encoding="utf-8") as file:
        file.writelines(
            f"{number}. A note that is kept whole in a blob and clipped in the log.\n" for number in range(400)
        )


def _killed_in_a_sentence(stage: DemoShell) -> None:
    stage.chapter("An agent is killed during a reply", "It reads some notes and begins to answer.")
    model = f"scripted:{stage.path('script.jsonl')}"
    command_line = ("run", "Publish the release.", "--agent", "demo", "--sender", "you", "--yes", "--model", model)
    process = stage.start(*command_line, shown=False)
    output = _read_until(process, "exactly once")
    _kill(process)
    put(output)
    stage.remark("(kill -9)")


def _killed_in_a_tool(stage: DemoShell) -> None:
    stage.chapter(
        "It is woken, and killed during a tool that must not run twice",
        "`wake` needs only the session's name. The interrupted reply is kept as an annotation and requested again; "
        "then the release is published. The ledger has its line and the tool still runs when the process is killed.",
    )
    process = stage.start("wake", _SESSION, shown=False)
    _wait_for(stage.path(_LEDGER), process)
    _kill(process)
    stage.remark(f"(kill -9, as soon as {_LEDGER} has a line)")


def _wakes(stage: DemoShell) -> None:
    stage.chapter(
        "It is woken again",
        "The log has an entry that the tool was started, and none that it ended. It must not run twice, so it is not "
        "run: the model is told that the outcome is unknown, and checks the ledger.",
    )
    stage.run("wake", _SESSION)
    with open(stage.path(_LEDGER), encoding="utf-8") as file:
        lines = file.read().splitlines()
    if lines != ["published"]:
        raise WakelogError(f"the demo's tool ran {len(lines)} times, not once")
    stage.say(f"Counted outside the log: {_LEDGER} has {len(lines)} line.")


def _shows_history(stage: DemoShell) -> None:
    stage.chapter("What happened, and what was recovered", "All of it is in the log, both kills included.")
    stage.run("show", _SESSION, "--folded")


def _verifies(stage: DemoShell) -> None:
    stage.chapter(
        "The log is checked",
        "The chain of seals proves that the log is unchanged; replay runs the same steps again from the log alone.",
    )
    stage.run("verify", _SESSION)
    stage.run("replay", _SESSION, "--verify")


# ── kill -9 ──────────────────────────────────────────────────────────────────────────────────────


def _read_until(process: "subprocess.Popen[bytes]", text: str) -> str:
    """Read the output of a process until it contains `text`; return the output."""
    assert process.stdout is not None
    output = b""
    while text.encode() not in output:
        piece = os.read(process.stdout.fileno(), 4096)
        if not piece:
            raise WakelogError("the demo's agent ended before it was killed")
        output += piece
    return output.decode(errors="replace").strip()


def _wait_for(path: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a file is not empty. `WakelogError` if the process ends first or after `_PATIENCE_S` seconds."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (os.path.exists(path) and os.path.getsize(path)):
        if process.poll() is not None or time.monotonic() > deadline:
            raise WakelogError("the demo's tool was not started")
        time.sleep(0.01)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def answer_questions(stage: DemoShell, session: str) -> None:
    """Print the questions and their answers."""
    stage.chapter(
        "Six questions, answered from that log", "What an operator should be able to find out about an agent."
    )
    log = read_log(open_store(stage.sessions), session)
    _question(1, "Which types of entries did the runtime write?")
    _types(log)
    _question(2, "What is in the log, and what is in blobs?")
    _blobs(log)
    _question(3, "How was the context built?")
    _context(log)
    _question(4, "What does a new session do to the log?")
    stage.run("run", "Hello", "--model", "demo", "--agent", "demo", "--sender", "you", "--quiet")
    stage.run("ls")
    put("  Nothing is deleted: the new session has its own log.")
    _question(5, "Which tools may run twice, and did any?")
    _tools(log)
    _question(6, "Where did it crash, and how did it recover?")
    _crash(log)


def _question(number: int, text: str) -> None:
    put(f"\n{number}. {text}")


def _types(log: Log) -> None:
    counts = Counter(entry.type for entry in log.entries)
    put("  " + ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))


def _blobs(log: Log) -> None:
    inline = sum(len(entry.raw) for entry in log.entries)
    put(f"  In the log: {plural(len(log.entries), 'entry', 'entries')}, {size_text(inline)}.")
    for entry in log.entries:
        for what, blob in _blobs_named(entry):
            put(f"  In a blob:  {what}, {size_text(blob.bytes)}, {blob.digest[:19]}…")


def _blobs_named(entry: Entry) -> list[tuple[str, BlobRef]]:
    value = entry.value
    if isinstance(value, ContextEntry):
        blobs = [("the instructions", value.system), ("the tool declarations", value.tools)]
        return [(what, blob) for what, blob in blobs if blob is not None]
    if isinstance(value, Message) and isinstance(value.message, ToolResult) and value.message.blob is not None:
        return [(f"the whole output of {visible(value.message.tool_name)}", value.message.blob)]
    return []


def _context(log: Log) -> None:
    calls = [entry.value for entry in log.entries if isinstance(entry.value, ModelCall)]
    strategies = sorted({call.strategy for call in calls})
    put(f"  {plural(len(calls), 'model call')}, strategy {', '.join(strategies)}. The function:\n")
    for line in inspect.getsource(build_context).rstrip().splitlines():
        put(f"    {line}")


def _tools(log: Log) -> None:
    for entry in log.entries:
        if not isinstance(entry.value, ToolStarted):
            continue
        started = entry.value
        how = {"safe": "may run again", "receipt": "is asked what it did", "never": "never runs twice"}[started.replay]
        put(f"  {visible(started.name)}: {how}; attempt {started.attempt}; {_result(log, started)}")


def _result(log: Log, started: ToolStarted) -> str:
    for entry in log.entries:
        match entry.value:
            case Message(message=ToolResult(reply_id=started.reply_id, tool_call_id=started.tool_call_id) as result):
                return f"result: {result.effective_status}"
    return "no result"


def _crash(log: Log) -> None:
    """Print the entries around the crashes: model calls, interrupted and completed replies, tool starts and results."""
    holder = ""
    for entry in log.entries:
        value = entry.value
        if isinstance(value, Activity):
            was_killed = value.event == "attached" and holder
            holder = value.holder if value.event == "attached" else ""
            if was_killed:
                put("  " + " " * 12 + "  (the worker was killed here)")
        if entry.type in ("activity", "call", "partial", "resumed", "tool_started", "sent") or isinstance(
            value, Message
        ):
            put(f"  {value.timestamp[11:23]}  {_entry_summary(entry)}")


def _entry_summary(entry: Entry) -> str:
    value = entry.value
    if isinstance(value, Activity):
        return f"{value.event}: {visible(value.holder)}"
    if isinstance(value, Message):
        message = value.message
        status = f" {message.effective_status}" if isinstance(message, ToolResult) else ""
        return f"{message.__struct_config__.tag}{status}: {fit_start(first_line(message.text), 60)}"
    return entry.type
