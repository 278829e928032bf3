"""The transcript of a branch: one row for each message, tool call and event, for terminal, web and export.

Rows hold plain text without colours or markup. Renderers format them and must escape every string (law 13: stored text
is hostile).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from wakelog.decoding import convert
from wakelog.log.content import (
    AnyPart,
    Audio,
    BaseMessage,
    Image,
    Note,
    Prompt,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from wakelog.log.entry import (
    AnyAnnotation,
    Attention,
    AttentionResolved,
    Cancelled,
    Compaction,
    ContextEntry,
    Custom,
    Entry,
    Failed,
    Label,
    Message,
    ModelChange,
    Partial,
    Queued,
    SessionHeader,
    Setting,
    Spawned,
    ToolStarted,
)
from wakelog.log.provider_calls import provider_calls
from wakelog.log.tree import Branch
from wakelog.projections.branch_state import IMPORTED_SETTING, branch_state
from wakelog.projections.context_changes import describe_context


class TranscriptRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a transcript. `kind` determines which of the other fields are used."""

    kind: str
    """session, prompt, reply, thinking, call, result, cut, fold, change, ended, queued, note or unknown."""
    entry_id: str
    seq: int
    timestamp: str
    text: str = ""
    name: str = ""
    input: object = None
    status: str = ""
    duration_ms: int | None = None
    truncated: bool = False
    call_id: str = ""
    """The tool call id, for a tool call without a result."""
    labels: tuple[str, ...] = ()
    journal: str = ""
    """For text from a journal that is not in the log yet: `interrupted`, or `running` while it is being written."""


def transcript(
    branch: Branch,
    journal_partials: Sequence[Partial] = (),
    *,
    running: bool = False,
    waiting: Iterable[Queued] | None = None,
) -> tuple[TranscriptRow, ...]:
    """Return the rows of a branch. The row of a tool call includes its result, if any; queued messages come last.

    `journal_partials` is journal content that is not in the log (`decide/assembly.py`); `running`: a worker is writing
    it. `waiting` are the queued messages (at the head: `waiting_messages`); by default those queued on the branch.
    """
    nodes = {node.id for node in branch.nodes}
    known = TranscriptContext(
        results_in(branch.nodes), nodes.__contains__, journal_partials=journal_partials, running=running
    )
    rows = rows_of_part(branch, known)
    if waiting is None:
        waiting = branch_state(branch).queue if branch.annotations else ()
    return (*rows, *queue_rows(waiting))


class TranscriptContext(msgspec.Struct):
    """Information from outside a part of a branch that is needed to build the rows of that part."""

    results: dict[tuple[str, str], Entry]
    """The result of each tool call, by (reply, call id). It may come after the part."""
    is_on_branch: Callable[[str], bool]
    """Whether an id belongs to a node of the whole branch."""
    journal_partials: Sequence[Partial] = ()
    running: bool = False
    shown: set[str] = set()
    """Ids of the results that are already included in the row of a tool call."""
    context: ContextEntry | None = None
    """The `context` entry in force before the part."""
    imported: bool = False
    """Whether the header before the part, or in it, is that of an imported session."""


def rows_of_part(part: Branch, known: TranscriptContext) -> Iterator[TranscriptRow]:
    """Yield the rows of some nodes of a branch, in order. `annotations` must hold all annotations of these nodes."""
    labels, words, changes = _labels(part), _open_call_statuses(part), _context_descriptions(part, known)
    cuts, outputs = _interrupted_replies(part, known), _interrupted_outputs(part, known.journal_partials)
    state = {partial.id: "running" if known.running else "interrupted" for partial in known.journal_partials}
    for node in part.nodes:
        if isinstance(node.value, SessionHeader):
            known.imported = known.imported or IMPORTED_SETTING in node.value.settings
        for row in _rows(node, known.results, known.shown, labels.get(node.id, ())):
            if row.kind == "call" and row.status == "open":
                output = outputs.get((node.id, row.call_id))
                yield msgspec.structs.replace(
                    row,
                    status=words.get((node.id, row.call_id), "unknown" if _is_foreign(node, known) else "open"),
                    text=BaseMessage(content=output.content).text if output is not None else "",
                    journal=state.get(output.id, "") if output is not None else "",
                )
            else:
                yield msgspec.structs.replace(row, text=changes[node.id]) if node.id in changes else row
        for cut in cuts.get(node.id, ()):
            row = _annotation_row(cut, "cut", text=BaseMessage(content=cut.content).text)
            yield msgspec.structs.replace(row, journal=state.get(cut.id, ""))


def _is_foreign(node: Entry, known: TranscriptContext) -> bool:
    """Return whether a reply was imported: its calls may have run in the program that it comes from."""
    reply = node.value.message if isinstance(node.value, Message) else None
    return known.imported and isinstance(reply, Reply) and reply.call_id is None


def count_messages(branch: Branch) -> int:
    """Return the number of messages of a branch, inherited ones included, for the header of a transcript."""
    return sum(isinstance(node.value, Message) for node in branch.nodes)


def journal_rows(journal_partials: Sequence[Partial], *, running: bool) -> list[TranscriptRow]:
    """Return rows for journal content alone: replies, and the output of tools."""
    state = "running" if running else "interrupted"
    return [
        TranscriptRow(
            kind="cut" if partial.tool_call_id is None else "result",
            entry_id=partial.id,
            seq=partial.seq or 0,
            timestamp=partial.timestamp,
            name=partial.tool_call_id or "",
            text=BaseMessage(content=partial.content).text,
            journal=state,
        )
        for partial in journal_partials
    ]


def _context_descriptions(part: Branch, known: TranscriptContext) -> dict[str, str]:
    """Return the description of each `context` entry: what it changes of the one before it."""
    records = [node.value for node in part.nodes if isinstance(node.value, ContextEntry)]
    before = [known.context, *records]
    known.context = before[-1]
    return {record.id: describe_context(record, last) for record, last in zip(records, before, strict=False)}


def queue_rows(waiting: Iterable[Queued]) -> Iterator[TranscriptRow]:
    """Yield rows for queued messages; requests to cancel or compact are skipped."""
    for queued in waiting:
        if queued.message is not None and queued.mode in ("steer", "followUp"):
            yield _annotation_row(queued, "queued", text=queued.message.text, status=queued.mode)


def _open_call_statuses(branch: Branch) -> dict[tuple[str, str], str]:
    """Return the status of tool calls by (reply, call id): begun, waiting for a person, or decided. Others are open."""
    words: dict[tuple[str, str], str] = {}
    questions: dict[str, tuple[str, str]] = {}
    for annotation in branch.annotations:
        match annotation.value:
            case ToolStarted(reply_id=reply, tool_call_id=call) | Spawned(reply_id=reply, tool_call_id=call):
                words[reply, call] = "begun"
            case Attention(reply_id=str() as reply, tool_call_id=str() as call):
                words[reply, call] = "waiting"
                questions[annotation.id] = (reply, call)
            case AttentionResolved(attention_id=answered) if answered in questions:
                words[questions[answered]] = "decided"
    return words


def _interrupted_replies(part: Branch, known: TranscriptContext) -> dict[str, list[Partial]]:
    """Return the text of interrupted replies, by the node they were to follow."""
    last = {
        partial.reply_id: partial
        for partial in _partials(part, known.journal_partials)
        if partial.tool_call_id is None and partial.error is None
    }
    cuts: dict[str, list[Partial]] = {}
    for reply_id, partial in last.items():
        if not known.is_on_branch(reply_id):
            cuts.setdefault(partial.parent_id or "", []).append(partial)
    return cuts


def _interrupted_outputs(branch: Branch, journal_partials: Sequence[Partial]) -> dict[tuple[str, str], Partial]:
    """Return the output of interrupted tools, by (reply, call id)."""
    return {
        (partial.reply_id, partial.tool_call_id): partial
        for partial in _partials(branch, journal_partials)
        if partial.tool_call_id is not None
    }


def _partials(branch: Branch, journal_partials: Sequence[Partial]) -> list[Partial]:
    """Return all `partial` values in log order, then those from journals, which are newer."""
    return [
        *(annotation.value for annotation in branch.annotations if isinstance(annotation.value, Partial)),
        *journal_partials,
    ]


def results_in(nodes: Iterable[Entry]) -> dict[tuple[str, str], Entry]:
    """Return the first result of each tool call, by (reply, call id)."""
    found: dict[tuple[str, str], Entry] = {}
    for key, node in results_with_calls(nodes):
        found.setdefault(key, node)
    return found


def results_with_calls(nodes: Iterable[Entry]) -> Iterator[tuple[tuple[str, str], Entry]]:
    """Yield the results among nodes, each with the (reply, call id) that it answers.

    A result that does not name its reply answers the last reply with an open tool call of that id.
    """
    open_ids: dict[str, str] = {}
    for node in nodes:
        match node.value:
            case Message(message=Reply() as reply):
                open_ids.update((call.id, node.id) for call in reply.tool_calls)
            case Message(message=ToolResult(tool_call_id=call_id, reply_id=named)):
                reply_id = named or open_ids.get(call_id, "")
                if open_ids.get(call_id) == reply_id:
                    del open_ids[call_id]
                yield (reply_id, call_id), node


def _labels(branch: Branch) -> dict[str, tuple[str, ...]]:
    named: dict[str, str] = {}
    for annotation in (*branch.inherited_annotations, *branch.annotations):
        if isinstance(annotation.value, Label):
            named[annotation.value.target_id] = annotation.value.label
    return {target: (label,) for target, label in named.items() if label}


def _rows(
    node: Entry, results: dict[tuple[str, str], Entry], shown: set[str], labels: tuple[str, ...]
) -> Iterator[TranscriptRow]:
    for row in _rows_of(node, results, shown):
        yield msgspec.structs.replace(row, labels=labels)
        labels = ()


def _rows_of(node: Entry, results: dict[tuple[str, str], Entry], shown: set[str]) -> Iterator[TranscriptRow]:
    match node.value:
        case Message(message=Reply() as reply):
            yield from _reply_rows(node, reply, results, shown)
        case Message(message=ToolResult() as result):
            if node.id not in shown:
                yield _result_row(node, result)
        case Message(message=Prompt() as message):
            yield _row(node, "prompt", text=parts_text(message.parts))
        case Message(message=Note() as message):
            yield _row(node, "note", text=parts_text(message.parts), name=message.custom_type)
        case _:
            yield _plain_row(node)


def _plain_row(node: Entry) -> TranscriptRow:
    """Return the row of a node that is not a message."""
    match node.value:
        case SessionHeader(title=title, agent=agent):
            return _row(node, "session", text=title or "", name=agent)
        case Compaction(summary=summary):
            return _row(node, "fold", text=summary)
        case ModelChange(model=model):
            return _row(node, "change", name="model", text=model)
        case Setting(key=key, value=value):
            return _row(node, "change", name=key, input=value)
        case ContextEntry():
            return _row(node, "change", name="context")
        case Cancelled(reason=reason):
            return _row(node, "ended", status="cancelled", text=reason)
        case Failed(reason=reason, error=error):
            detail = error.message if error else ""
            return _row(node, "ended", status="failed", text=": ".join(filter(None, (reason, detail))))
        case Custom() as custom:
            return _row(
                node, "note", name=custom.custom_type, text=parts_text(_custom_parts(custom)), input=custom.data
            )
    return _row(node, "unknown", name=node.type)


def _reply_rows(
    node: Entry, reply: Reply, results: dict[tuple[str, str], Entry], shown: set[str]
) -> Iterator[TranscriptRow]:
    parts = reply.parts
    by_provider = provider_calls(parts)
    for at, part in enumerate(parts):
        if at in by_provider:
            if (made := by_provider[at]) is not None:
                yield _row(node, "call", name=made.name, input=made.input, status=made.status, text=made.result)
        elif isinstance(part, Thinking):
            yield _row(node, "thinking", text=part.thinking)
        elif isinstance(part, ToolCall):
            yield _tool_call_row(node, part, results.get((node.id, part.id)), shown)
        else:
            yield _row(node, "reply", text=parts_text((part,)), name=reply.model or "")


def _tool_call_row(node: Entry, call: ToolCall, answer: Entry | None, shown: set[str]) -> TranscriptRow:
    result = answer.value.message if answer is not None and isinstance(answer.value, Message) else None
    if answer is None or not isinstance(result, ToolResult):
        return _row(node, "call", name=call.name, input=call.input, status="open", call_id=call.id)
    shown.add(answer.id)
    return msgspec.structs.replace(
        _result_row(answer, result), kind="call", entry_id=node.id, name=call.name, input=call.input
    )


def _result_row(node: Entry, result: ToolResult) -> TranscriptRow:
    return _row(
        node,
        "result",
        name=result.tool_name,
        text=parts_text(result.parts),
        status=result.effective_status,
        duration_ms=result.duration_ms,
        truncated=result.truncated,
    )


def _annotation_row(annotation: AnyAnnotation, kind: str, *, text: str, status: str = "") -> TranscriptRow:
    return TranscriptRow(
        kind=kind,
        entry_id=annotation.id,
        seq=annotation.seq or 0,
        timestamp=annotation.timestamp,
        text=text,
        status=status,
    )


def _row(node: Entry, kind: str, **fields: object) -> TranscriptRow:
    place = {"entry_id": node.id, "seq": node.seq, "timestamp": node.value.timestamp}
    return convert({"kind": kind, **place, **fields}, TranscriptRow)


def _custom_parts(custom: Custom) -> tuple[AnyPart, ...]:
    return (Text(text=custom.content),) if isinstance(custom.content, str) else custom.content


def parts_text(parts: tuple[AnyPart, ...]) -> str:
    """Return parts as plain text; parts that are not text are named in brackets."""
    return "".join(_part_text(part) for part in parts)


def _part_text(part: AnyPart) -> str:
    match part:
        case Text():
            return part.text
        case Thinking():
            return part.thinking
        case Image():
            return f"[image {part.mime_type}]"
        case Audio():
            return f"[audio {part.mime_type}]"
        case ToolCall():
            return f"[call {part.name}]"
    return "[unknown part]"
