"""Kill a real agent while its tool runs, and in the middle of a streamed reply; resume it; record what its model sees.

wakelog is killed in the same way, with the same model server and the same command. With `--write-comparison`
(`make test-tools`) the records are written into `docs/crash-comparison.md`; tools that were not run keep theirs.
"""

import datetime as dt
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tests.loopback import ModelServer, Pause, Row, Say
from tests.real_tools.installing import ROOT
from tests.real_tools.pinned import FAKE_KEY, PINNED, PinnedTool
from tests.real_tools.running import HeldCommand, RealTool
from tests.real_tools.sessions import spoken_rows
from wakelog.version import VERSION

DOCUMENT = ROOT / "docs" / "crash-comparison.md"
GRACE_S = 3.0
"""How long a tool may take to write what it has received, before it is killed; and a command to end with its agent."""
PROMPT, TEXT, NEXT = "Do the thing 7301", "I begin 7302.", "What happened?"
STREAMED, LAST_WORD = "Once upon a time there was a zebra-7304", "zebra-7304"
_TEXT_CHARS = 300
_UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_NOT_SESSIONS = re.compile(r"(^|/)(logs?|cache|debug|node_modules)(/|$)|\.log$|logs_\d+\.sqlite")


class Wakelog(PinnedTool):
    """wakelog itself, run by the same rig."""

    name, title, version = "wakelog", "wakelog", VERSION
    module = "wakelog"
    data_folder = ".local/share/wakelog"
    wire = "anthropic"

    def environment(self, url: str) -> Mapping[str, str]:
        return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": FAKE_KEY, "PYTHONPATH": str(ROOT / "src")}

    def arguments(self, prompt: str, session: str | None) -> list[str]:
        chosen = ["-s", session] if session else ["--model", "anthropic:claude-sonnet-4-5"]
        return ["run", "--yes", *chosen, prompt]

    def find_session(self, home: Path) -> str | None:
        return "@latest"


COMPARED: Mapping[str, PinnedTool] = {"wakelog": Wakelog(), **PINNED}


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """One kill, and what came of it."""

    tool: str
    place: Literal["tool", "stream"]
    on_disk: tuple[str, ...]
    """Which of the prompt, the text and the tool call the agent had stored when it was killed."""
    has_session: bool
    told: tuple[tuple[str, str], ...] = ()
    """The conversation in the last request after the resume: kinds and texts."""
    child: str = ""
    """What became of the process that the tool had started."""
    ran_again: bool = False

    @property
    def call_is_told(self) -> bool:
        """Whether the model learns that the tool was started."""
        return any(kind == "call" for kind, _ in self.told)

    @property
    def outcome(self) -> str:
        """What the model is told as the result of the call."""
        return " ".join(text for kind, text in self.told if kind == "result")

    @property
    def text_is_kept(self) -> bool:
        """Whether the streamed text was stored."""
        return "text" in self.on_disk

    @property
    def text_is_told(self) -> bool:
        """Whether the model is shown the streamed text again."""
        return any(LAST_WORD in text for kind, text in self.told if kind == "assistant")


# ── the kills ────────────────────────────────────────────────────────────────────────────────────


def crash_in_tool(tool: RealTool, server: ModelServer, command: HeldCommand) -> Crash:
    """Kill an agent while the shell command that it started runs; let the command end; resume."""
    marks = {"prompt": PROMPT, "text": TEXT, "call": command.mark}
    server.play(*tool.pinned.run_command(TEXT, command.text))
    run = tool.start(PROMPT)
    command.wait_until_begun()
    _wait(lambda: len(stored(tool, marks)) == len(marks))
    run.kill()
    on_disk = stored(tool, marks)
    _wait(lambda: not command.is_running)
    child = "goes on to its end" if command.is_running else "ends with the agent"
    if command.is_running:
        command.finish()
    has_session, rows = _resume(tool, server)
    told = _from_prompt(rows, command.folder, {command.text: "COMMAND"})
    ran_again = command.effects.count("begun") > 1
    return Crash(
        tool=tool.pinned.name,
        place="tool",
        on_disk=on_disk,
        has_session=has_session,
        told=told,
        child=child,
        ran_again=ran_again,
    )


def crash_in_stream(tool: RealTool, server: ModelServer) -> Crash:
    """Kill an agent in the middle of a reply, of which it has received some words; resume."""
    marks = {"prompt": PROMPT, "text": LAST_WORD}
    pause = Pause()
    server.play([Say(STREAMED), pause, Say(" that was never seen.")])
    run = tool.start(PROMPT)
    _wait(pause.reached.is_set, limit_s=600)
    _wait(lambda: len(stored(tool, marks)) == len(marks))
    run.kill()
    pause.release()
    on_disk = stored(tool, marks)
    has_session, rows = _resume(tool, server)
    told = _from_prompt(rows, tool.home.parent, {})
    return Crash(tool=tool.pinned.name, place="stream", on_disk=on_disk, has_session=has_session, told=told)


def _resume(tool: RealTool, server: ModelServer) -> tuple[bool, Sequence[Row]]:
    """Continue the session with a prompt; return whether there is one, and the last request."""
    session, before = tool.session, len(server.turns)
    if session is None:
        return False, ()
    server.forget_script()
    server.play([Say("I go on.")], [Say("I go on.")])
    tool.run(NEXT, session)
    assert len(server.turns) > before, f"{tool.pinned.title} was resumed and sent nothing"
    return True, spoken_rows(server.turns[-1])


def stored(tool: RealTool, marks: Mapping[str, str]) -> tuple[str, ...]:
    """Return which texts are in the files of an agent: its sessions and databases, not its logs."""
    folders = [tool.home, tool.project]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    kept = [path for path in files if not _NOT_SESSIONS.search(str(path.relative_to(tool.home.parent)))]
    content = b"\n".join(_bytes_of(path) for path in kept)
    return tuple(name for name, text in marks.items() if text.encode() in content)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _wait(condition: Callable[[], bool], limit_s: float = GRACE_S) -> None:
    """Wait until something holds, or until the time is over: an agent tells no one when it has written a file."""
    end = time.monotonic() + limit_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.2)


def _from_prompt(rows: Sequence[Row], folder: Path, replaced: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return rows for the document, from the first prompt on: what is before it are instructions of the agent."""
    first = next((number for number, row in enumerate(rows) if PROMPT in row.text), 0)
    return tuple((row.kind, _shown(row.text, {**replaced, str(folder): "FOLDER"})) for row in rows[first:])


def _shown(text: str, replaced: Mapping[str, str]) -> str:
    """Return a text for the document: one line, short, and without what is different in each run."""
    for old, new in replaced.items():
        text = text.replace(json.dumps(old)[1:-1], new)
    line = _UUID.sub("ID", " ".join(text.split()))
    return line if len(line) <= _TEXT_CHARS else f"{line[:_TEXT_CHARS]}…"


# ── the document ─────────────────────────────────────────────────────────────────────────────────

_HEAD = """# Crash comparison

What an agent and its model know after `kill -9`. Each agent was installed as a package, pointed at the same scripted
model server on this machine, killed, and resumed with the prompt "What happened?": once while a shell command that it
had started was running, and once in the middle of a streamed reply. wakelog was run by the same rig; it first settles
what was interrupted, then answers the prompt.

The kill came as soon as everything was stored, at the latest 3 seconds after the command had begun or the words were
sent. It ended the process groups of the agent, and with them a command in one of them. "Stored" means that the text is
in a file or database of the agent, logs left aside. A command that was still there was then let go on to its end, so
its effect is complete when the agent is resumed. The command is COMMAND below.

`make test-tools` runs the comparison and writes this page (`tests/real_tools/crash_comparison.py`); an agent that was
not run keeps its row and the day of its last run. Aider has no tools. In efferent only sub-agents run commands: the
command is that of a sub-agent which the main agent waits for, and the conversation is that of the main agent.

"""
_TABLE = (
    "| agent | version | tool was running: what the model is told | run again by itself | the command |"
    " mid-stream: text stored | text told to the model | prompt kept | day |\n" + "|---" * 9 + "|\n"
)
_ROW = re.compile(r"^\| ([^|]+?) \| [^|]+ \|.*\| \d{4}-\d\d-\d\d \|$", re.MULTILINE)
_SECTION = re.compile(r"^## (.+?) \S+\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def write(crashes: Iterable[Crash], day: dt.date, path: Path = DOCUMENT) -> None:
    """Write the rows and sections of agents into the document; those of other agents stay."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    rows = {found[1]: found[0] for found in _ROW.finditer(text)}
    sections = {found[1]: found[0].rstrip("\n") for found in _SECTION.finditer(text)}
    by_tool: dict[str, dict[str, Crash]] = {}
    for crash in crashes:
        by_tool.setdefault(crash.tool, {})[crash.place] = crash
    for name, found in by_tool.items():
        title = COMPARED[name].title
        rows[title] = _row(COMPARED[name], found, day)
        sections[title] = _section(COMPARED[name], found)
    order = [tool.title for tool in COMPARED.values() if tool.title in rows]
    table = "".join(f"{rows[title]}\n" for title in order)
    whole = "\n\n".join(sections[title] for title in order if title in sections)
    path.write_text(f"{_HEAD}{_TABLE}{table}\n{whole}\n", encoding="utf-8")


def _row(tool: PinnedTool, found: Mapping[str, Crash], day: dt.date) -> str:
    cells = [tool.title, tool.version, *_tool_cells(found.get("tool")), *_stream_cells(found.get("stream"))]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} | {day.isoformat()} |"


def _tool_cells(crash: Crash | None) -> list[str]:
    if crash is None:
        return ["–"] * 3
    if not crash.has_session:
        told = "nothing: there is no session"
    elif not crash.call_is_told:
        told = "nothing: the call is not in the conversation"
    else:
        told = f"the call, with the result “{crash.outcome}”"
    return [told, "**yes**" if crash.ran_again else "no", crash.child]


def _stream_cells(crash: Crash | None) -> list[str]:
    if crash is None:
        return ["–"] * 3
    prompt = any(kind == "user" and PROMPT in text for kind, text in crash.told)
    answers = (crash.text_is_kept, crash.text_is_told, prompt)
    return ["yes" if answer else "no" for answer in answers]


def _section(tool: PinnedTool, found: Mapping[str, Crash]) -> str:
    parts = [f"## {tool.title} {tool.version}"]
    titles = {"tool": "Killed while the command ran.", "stream": "Killed in mid-stream."}
    for place, title in titles.items():
        if (crash := found.get(place)) is None:
            continue
        disk = ", ".join(crash.on_disk) or "nothing"
        child = f" The command {crash.child}." if crash.child else ""
        parts.append(f"**{title}** Stored: {disk}.{child} {_told(crash)}")
    return "\n\n".join(parts)


def _told(crash: Crash) -> str:
    if not crash.has_session:
        return "There is no session to resume."
    lines = "\n".join(f"{kind:<10}{text}" for kind, text in crash.told)
    return f"The model is told:\n\n```text\n{lines}\n```"
