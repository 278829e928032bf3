"""Export the active branch of a session as a Markdown document for people.

Rule 1: headings are made here; stored text is always quoted. Messages are block quotes, and tool input and output are
in fences longer than any fence inside them, so that stored text cannot imitate the document's structure.
Rule 2: HTML tags are escaped, so that a viewer shows them as text.
Rule 3: `visible` makes control characters harmless; the caller passes it in, because it depends on the display.
Rule 4: a document begins with the conversation. What precedes the first message, such as the instructions of an
imported session, follows the last row; records of other agents that have no text are only counted.
"""

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from wakelog.log.codec import canonical_json
from wakelog.projections.transcript import TranscriptRow

_TICKS = re.compile(r"`+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")
_CONVERSATION = frozenset({"prompt", "reply", "thinking", "call", "result", "cut", "queued", "fold"})
Visible = Callable[[str], str]


class DocumentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The values in the header of a document."""

    name: str
    id: str
    title: str | None = None
    created: str = ""
    cwd: str = ""
    model: str | None = None
    messages: int = 0
    damage: int = 0


def markdown_document(about: DocumentHeader, rows: Iterable[TranscriptRow], visible: Visible) -> Iterator[str]:
    """Yield the document of one branch, in pieces; `rows` are the rows of its transcript."""
    blank = 0
    for line in _lines_of(about, rows, visible):
        if line:
            yield "\n" * blank + line
            blank = 0
        blank += 1
    yield "\n"


def _lines_of(about: DocumentHeader, rows: Iterable[TranscriptRow], visible: Visible) -> Iterator[str]:
    yield from (*_header_lines(about, visible), "")
    before: list[TranscriptRow] = []
    without_text = 0
    has_begun, last = False, ""
    for row in rows:
        has_begun = has_begun or row.kind in _CONVERSATION
        if row.kind == "note" and not row.text:
            without_text += 1
        elif row.kind in ("note", "change") and not has_begun:
            before.append(row)
        elif row.kind != "session" and (row.text or row.kind != "thinking"):
            yield from _row_lines(row, last, about.name, visible)
            last = row.entry_id
    if before:
        yield from ("---", "", "*Before the conversation:*", "")
        for row in before:
            yield from _row_lines(row, "", about.name, visible)
    if without_text:
        count = "1 record without text is" if without_text == 1 else f"{without_text:,} records without text are"
        yield from ("---", "", f"*{count} left out: `wakelog show --full {about.name}`*", "")


def _row_lines(row: TranscriptRow, last: str, name: str, visible: Visible) -> Iterator[str]:
    """Yield a row, under a heading unless it is of the same entry as the one before it."""
    if row.entry_id != last:
        yield from (_heading(row, visible), "")
    yield from _body(row, visible)
    if row.journal:
        yield from (f"*{row.journal}: {_journal_note(row, name)}*", "")


def _journal_note(row: TranscriptRow, name: str) -> str:
    """Return what happens next to a text that is in a journal and not in the log yet."""
    return "being written" if row.journal == "running" else f"`wakelog wake {name}` continues it"


def _header_lines(about: DocumentHeader, visible: Visible) -> Iterator[str]:
    yield f"# {_inline(about.title or about.name, visible)}"
    yield ""
    facts = (
        ("session", f"`{about.name}`"),
        ("id", f"`{about.id}`"),
        ("begun", _inline(about.created, visible)),
        ("folder", _code(about.cwd, visible)),
        ("model", _code(about.model or "", visible)),
        ("messages", str(about.messages)),
        ("damage", f"{about.damage} places could not be read" if about.damage else ""),
    )
    for name, value in facts:
        if value:
            yield f"- {name}: {value}"


def _heading(row: TranscriptRow, visible: Visible) -> str:
    when = _inline(row.timestamp.replace("T", " ")[:19], visible)
    labels = "".join(f" ({_inline(label, visible)})" for label in row.labels)
    return f"## {_speaker(row, visible)}{labels}" + (f" · {when}" if when else "")


def _speaker(row: TranscriptRow, visible: Visible) -> str:
    match row.kind:
        case "prompt":
            return "User"
        case "reply" | "thinking" | "call":
            return f"Assistant ({_inline(row.name, visible)})" if row.kind == "reply" and row.name else "Assistant"
        case "cut":
            return {"interrupted": "Assistant, interrupted", "running": "Assistant, being written"}.get(
                row.journal, "Assistant, cut short"
            )
        case "queued":
            return "User, waiting in the queue"
        case "result":
            return "Tool"
        case "fold":
            return "Compaction"
        case "ended":
            return _inline(row.status.capitalize(), visible)
    return _inline(row.name or row.kind, visible)


def _body(row: TranscriptRow, visible: Visible) -> Iterator[str]:
    match row.kind:
        case "call" | "result":
            yield from _tool(row, visible)
        case "thinking":
            yield "*thinking*"
            yield ""
            yield from _quote(row.text, visible)
        case "change":
            value = row.text or canonical_json(row.input).decode()
            yield f"{_inline(row.name, visible)}: {_code(value, visible)}"
        case "unknown":
            yield "*an entry of a type that this version does not know*"
        case _:
            yield from _quote(row.text, visible)
    yield ""


def _tool(row: TranscriptRow, visible: Visible) -> Iterator[str]:
    yield f"**{_inline(row.name or 'tool', visible)}** — {_inline(row.status, visible)}"
    yield ""
    if row.kind == "call" and row.input not in (None, {}):
        command = row.input.get("command") if isinstance(row.input, dict) and len(row.input) == 1 else None
        yield from _fence(command if isinstance(command, str) else canonical_json(row.input).decode(), visible)
        yield ""
    if row.text:
        yield from _fence(row.text, visible)


# ── escaping ─────────────────────────────────────────────────────────────────────────────────────


def _lines(text: str, visible: Visible) -> list[str]:
    return [visible(line) for line in text.replace("\r\n", "\n").rstrip("\n").split("\n")]


def _quote(text: str, visible: Visible) -> Iterator[str]:
    """Yield text as a block quote. A fence that is open at its end is closed by the end of the quote."""
    fence = ""
    for line in _lines(text, visible):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not line.strip(mark[1][0] + " "):
            fence = ""
        yield f"> {line if fence else _without_tags(line)}".rstrip()


def _without_tags(line: str) -> str:
    """Return a line outside fences with HTML tags escaped; code spans stay unchanged."""
    pieces = _split_code(line)
    return "".join(piece if code else _TAG.sub("&lt;", piece) for code, piece in pieces)


def _split_code(line: str) -> Iterator[tuple[bool, str]]:
    """Yield the pieces of a line and whether each is a code span: backticks up to equally many backticks."""
    at = 0
    while (opening := _TICKS.search(line, at)) is not None:
        closing = next((tick for tick in _TICKS.finditer(line, opening.end()) if tick[0] == opening[0]), None)
        yield False, line[at : opening.start()]
        if closing is None:
            yield False, line[opening.start() :]
            return
        yield True, line[opening.start() : closing.end()]
        at = closing.end()
    yield False, line[at:]


def _fence(text: str, visible: Visible) -> Iterator[str]:
    """Yield text in a fence that is longer than any run of backticks in it."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    mark = "`" * max(3, longest + 1)
    yield mark
    yield from _lines(text, visible)
    yield mark


def _code(text: str, visible: Visible) -> str:
    """Return text as a code span on one line."""
    if not text:
        return ""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    mark = "`" * (longest + 1)
    shown = visible(text.replace("\n", " "))
    return f"{mark} {shown} {mark}" if longest or shown != shown.strip() else f"{mark}{shown}{mark}"


def _inline(text: str, visible: Visible) -> str:
    """Return text on one line with all Markdown characters escaped."""
    return _SPECIAL.sub(r"\\\1", visible(" ".join(text.split("\n")))).strip()
