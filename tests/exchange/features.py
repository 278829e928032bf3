"""The tables of `docs/exchange.md`: what each format keeps when it is read and written, and which tools resumed it.

Every cell is measured. For reading, the facts of a session made of records in that format (`feature_fixtures.py`) are
compared with what its records hold. For writing, a session with every feature is written, read back and compared. The
versions of the third table are those of the tests with real tools.

    python -m tests.exchange.features      writes the tables into the document
"""

import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.exchange.feature_facts import FEATURES, Facts, aspect, facts_of, read_session, session_to_compare
from tests.exchange.feature_fixtures import PIXEL
from tests.exchange.feature_formats import FORMATS, TOLD, Format
from tests.exchange.generated_sessions import STARTED_MS
from tests.real_tools.pinned import PINNED
from wakelog.exchange.detection import detect
from wakelog.exchange.exporting import WRITERS, write_session
from wakelog.exchange.writing import SessionToWrite
from wakelog.log.content import (
    AnyPart,
    Image,
    Prompt,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolStatus,
    Usage,
)
from wakelog.log.entry import AnyNode, Compaction, Message
from wakelog.log.ids import RANDOM_BYTES, new_id
from wakelog.log.timestamps import iso_timestamp

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = ROOT / "docs" / "exchange.md"
BEGIN, END = "<!-- tables: written by `python -m tests.exchange.features` -->", "<!-- end of the tables -->"
KEPT, PARTLY, NOT_WRITTEN, ABSENT = "kept", "partly", "no", "–"
RESUME_TESTS = ROOT / "tests" / "real_tools"


class Target(msgspec.Struct, frozen=True):
    """A format that is written: the name of its reader, and the provider and model of the session written to it."""

    reader: str
    provider: str = "anthropic"
    model: str = "claude-x"
    notes: Mapping[str, str] = {}
    """Features that are not wholly written: what becomes of them."""


class Measured(msgspec.Struct, frozen=True):
    """The state of one feature in one format, and the facts that are missing."""

    state: str
    missing: frozenset[str] = frozenset()


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def measure_reading(form: Format) -> dict[str, Measured]:
    """Return what becomes of each feature of a format when it is read."""
    found = facts_of(read_session(session) for session in form.sessions())
    return {feature: _measured(feature, form, frozenset(form.holds.get(feature, ())), found) for feature in FEATURES}


def _measured(feature: str, form: Format, wanted: frozenset[str], found: Facts) -> Measured:
    if feature in form.lacks:
        return Measured(ABSENT, wanted)
    missing = wanted - found[feature]
    return Measured(KEPT if not missing else PARTLY if missing < wanted or feature in form.partly else "lost", missing)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


class _Builder:
    """Nodes of a session, each under the one before it."""

    def __init__(self) -> None:
        self.session = new_id(STARTED_MS, bytes(RANDOM_BYTES))
        self.nodes: list[AnyNode] = []
        self.head = self.session

    def add(self, node: AnyNode) -> str:
        number = len(self.nodes) + 1
        time = STARTED_MS + 1_000 * number
        node_id = new_id(time, number.to_bytes(RANDOM_BYTES, "big"))
        self.nodes.append(msgspec.structs.replace(node, id=node_id, parent_id=self.head, timestamp=iso_timestamp(time)))
        self.head = node_id
        return node_id


def full_session(provider: str, model: str) -> SessionToWrite:
    """Return a session with everything that a writer may get."""
    usage = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2, cost_micros=17_400)
    image, made = Image(mime_type="image/png", data=PIXEL), _Builder()

    def reply(*content: AnyPart, **more: Any) -> str:
        return made.add(Message(message=Reply(content=content, provider=provider, model=model, **more)))

    def result(call: str, *content: AnyPart, is_error: bool = False) -> None:
        told = ToolResult(content=content, tool_call_id=call, tool_name="bash", reply_id=asked, is_error=is_error)
        status: ToolStatus = "error" if is_error else "ok"
        made.add(Message(message=msgspec.structs.replace(told, status=status)))

    made.add(Message(message=Prompt(content="Begin")))
    begun = reply(Text(text="I begin"), stop_reason="stop")
    made.add(Message(message=Prompt(content="Wrong")))
    reply(Text(text="Nonsense"), stop_reason="stop")
    made.head = begun
    kept = made.add(Message(message=Prompt(content=(Text(text="Look"), image))))
    bound = {"id": "rs_1", "summary": [2]} if provider == "openai" else None
    asked = reply(
        Thinking(thinking="Hm", signature="c2ln", bound=bound),
        Text(text="I look"),
        ToolCall(id="call_1", name="bash", input={"command": "ls"}),
        ToolCall(id="call_2", name="bash", input={"command": "x"}),
        stop_reason="tools",
        usage=usage,
    )
    result("call_1", Text(text="a.txt"), image)
    result("call_2", Text(text="no such file"), is_error=True)
    made.add(Compaction(summary="So far", first_kept_entry_id=kept, tokens_before=900, trigger="auto"))
    made.add(Message(message=Prompt(content="Go on")))
    reply(Text(text="Done"), stop_reason="stop")
    return SessionToWrite(
        session=made.session,
        agent="crab",
        started_ms=STARTED_MS,
        cwd="/repo",
        title="A title",
        provider=provider,
        model=model,
        nodes=tuple(made.nodes),
        head=made.head,
        version="0.2.0",
    )


def measure_writing(name: str, target: Target) -> dict[str, Measured]:
    """Write the session with every feature, read it back, and return what became of each."""
    session = full_session(target.provider, target.model)
    written = write_session(session, name)
    with tempfile.TemporaryDirectory() as folder:
        for file in written.files:
            path = Path(folder) / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
        with detect(str(Path(folder) / written.files[0].path)) as source:
            found = facts_of(read_session(each) for each in source.sessions())
    form = FORMATS[target.reader]
    wanted = _wanted(session, form)
    return {feature: _compared(feature, form, wanted[feature], found) for feature in FEATURES}


def _wanted(session: SessionToWrite, form: Format) -> Facts:
    """Return the facts of a session that a format has a place for.

    Messages are those that the model sees; others belong to the compaction and to branches.
    """
    facts = dict(facts_of([session_to_compare(session)]))
    facts["messages"] = frozenset(TOLD)
    facts["sub-agents"] = frozenset(("asked: Search",))
    for feature in ("thinking", "images", "usage"):
        known = {aspect(fact) for fact in form.holds.get(feature, ())}
        facts[feature] = frozenset(fact for fact in facts[feature] if aspect(fact) in known) or facts[feature]
    return facts


def _compared(feature: str, form: Format, wanted: frozenset[str], found: Facts) -> Measured:
    missing = wanted - found[feature]
    is_there = missing < wanted
    if feature == "compaction" and not is_there:
        is_there = any("So far" in fact for fact in found["messages"])
    if not missing:
        return Measured(KEPT)
    return Measured(PARTLY if is_there else ABSENT if feature in form.lacks else NOT_WRITTEN, missing)


TARGETS: Mapping[str, Target] = {
    "claude-code": Target("claude_code"),
    "codex": Target(
        "codex",
        "openai",
        "gpt-x",
        notes={
            "results": "whether a result is an error is known only as far as its text says so",
            "thinking": "displayed and not sent to the model, unless it came from Codex",
            "model": "not written, unless it came from Codex: Codex would resume with it",
            "title": "Codex keeps titles in one file for all sessions",
            "branches": "a file has one branch",
        },
    ),
    "pi": Target("pi"),
    "opencode": Target("opencode", notes={"branches": "one branch is written"}),
    "gemini": Target(
        "gemini",
        "google",
        "gemini-x",
        notes={
            "usage": "tokens written to a cache are counted as other input",
            "branches": "one branch is written",
            "cwd/git": "Gemini CLI adds the folder itself when it resumes",
        },
    ),
    "goose": Target("goose", notes={"usage": "added to the sums of the session"}),
    "aider": Target(
        "aider",
        notes={
            "messages": "tool calls and results are text in the messages, and images are only named there",
            "compaction": "the summary is a prompt, and nothing before it is written",
        },
    ),
    "openai": Target(
        "message_list",
        "openai-chat",
        "gpt-x",
        notes={
            "results": "an error is not marked",
            "thinking": "without the signature",
            "images": "those of tools are in a message after the result",
            "usage": "not in a request",
            "model": "not in a request",
            "compaction": "the summary is a message of the user",
        },
    ),
    "anthropic": Target(
        "message_list",
        notes={
            "messages": "messages of one role in a row are joined",
            "usage": "not in a request",
            "model": "not in a request",
            "compaction": "the summary is a message of the user",
        },
    ),
}
"""The formats of `exporting.WRITERS`."""


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def tables() -> str:
    """Return the tables of the document."""
    reading = {form.title: measure_reading(form) for form in FORMATS.values()}
    writing = {f"`{name}`": measure_writing(name, target) for name, target in TARGETS.items()}
    read_notes = {form.title: form.partly for form in FORMATS.values()}
    write_notes = {f"`{name}`": target.notes for name, target in TARGETS.items()}
    parts = ["Read:", _table("format", reading), _notes(read_notes)]
    parts += ["Written by `export --to` and `handoff`, and read back:", _table("to", writing), _notes(write_notes)]
    return "\n\n".join([*parts, "Resumed by the real tool:", _resumed()])


def _table(first: str, measured: Mapping[str, Mapping[str, Measured]]) -> str:
    rows = [[name, *(each[feature].state for feature in FEATURES)] for name, each in measured.items()]
    return _rows([first, *FEATURES], rows)


def _rows(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace("| --- ", "|---").replace("--- |", "---|")


def _notes(notes: Mapping[str, Mapping[str, str]]) -> str:
    """Return a list with the notes on each format that has any."""
    lines = [
        f"- {name}: " + "; ".join(f"{feature}: {note}" for feature, note in each.items()) + "."
        for name, each in notes.items()
        if each
    ]
    return "\n".join(lines)


class RealToolTests(msgspec.Struct, frozen=True):
    """The tests with one real tool: those in which it resumes a written session, and those in which it is killed."""

    resumed: tuple[str, ...]
    killed: tuple[str, ...]


def real_tool_tests(name: str) -> RealToolTests:
    """Find the tests of a tool by their names."""
    text = (RESUME_TESTS / f"test_{name.replace('-', '_')}.py").read_text()
    names = re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)
    resumed = re.compile(r"continues_a_written_session|resumes_a_\w*session")
    return RealToolTests(
        tuple(name for name in names if resumed.search(name)),
        tuple(name for name in names if re.match(r"test_a_session_\w*killed_", name)),
    )


def _resumed() -> str:
    head = ["tool", "version", "it resumes a written session", "killed there, continued here"]
    rows = []
    for name, tool in PINNED.items():
        found = real_tool_tests(name)
        cells = ["tested" if tests else "not tested" for tests in (found.resumed, found.killed)]
        if name not in WRITERS:
            cells[0] = "–"
        rows.append([tool.title, tool.version, *cells])
    return _rows(head, rows)


def replace_tables(text: str, new: str) -> str:
    """Return a document with other tables between its two markers."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{new}\n\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(replace_tables(DOCUMENT.read_text(), tables()))
