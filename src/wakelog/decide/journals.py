"""Conversion of journals to `partial` entries: replies and tool output that were displayed and are not in the log yet.

A journal belongs to the last `call` for its reply, or to the `tool_started` entry whose id it has. The runtime writes
these entries when it continues a session (`runtime/journal_recovery.py`); readers show them before that (VIEW-10).
"""

from collections.abc import Iterable, Mapping

from wakelog.decide.assemble import from_journal, output_in
from wakelog.log.content import Prompt, Text, ToolResult
from wakelog.log.entry import Call, Entry, Message, Partial, Resumed, ToolStarted
from wakelog.log.tree import Tree

Journals = Mapping[str, Iterable[bytes]]
"""The lines of each journal, by journal id: the id of the reply, or of the `tool_started` entry."""


def unsealed(tree: Tree, journals: Journals) -> tuple[Partial, ...]:
    """Return the content of journals that is not in the log; `id` is the journal's, `timestamp` that of its subject."""
    found = ((journal, partial_of(tree, journal, pieces)) for journal, pieces in journals.items())
    return tuple(_placed(tree, journal, partial) for journal, partial in found if partial is not None)


def partial_of(tree: Tree, journal: str, pieces: Iterable[bytes]) -> Partial | None:
    """Return the entry that a journal becomes, with its parent; None if it is empty or the log has its content."""
    subject = subject_of(tree, journal)
    if journal in tree.nodes or (subject is not None and _is_told(tree, subject)):
        return None
    parent = subject.value.parent_id if subject is not None else None
    if subject is not None and isinstance(subject.value, ToolStarted):
        partial = partial_output(subject.value, pieces)
    else:
        content = from_journal(pieces, prior=_prior(tree, journal))
        partial = Partial(reply_id=journal, content=content, parent_id=parent)
    return partial if partial.content else None


def partial_output(started: ToolStarted, pieces: Iterable[bytes]) -> Partial:
    """Return the entry that the journal of a tool's output becomes; without content if there was no output."""
    text = output_in(pieces)
    content = (Text(text=text),) if text else ()
    reply_id, call_id = started.reply_id, started.tool_call_id
    return Partial(reply_id=reply_id, tool_call_id=call_id, content=content, parent_id=started.parent_id)


def subject_of(tree: Tree, journal: str) -> Entry | None:
    """Return the entry a journal belongs to: the last `call` for its reply, or its `tool_started` entry."""
    for entry in reversed(tree.own()):
        match entry.value:
            case Call(reply_id=named) if named == journal:
                return entry
            case ToolStarted() if entry.id == journal:
                return entry
    return None


def _placed(tree: Tree, journal: str, partial: Partial) -> Partial:
    subject = subject_of(tree, journal)
    stamp, seq = (subject.value.timestamp, subject.seq) if subject is not None else ("", None)
    return Partial(
        id=journal,
        parent_id=partial.parent_id or tree.head,
        timestamp=stamp,
        seq=seq,
        reply_id=partial.reply_id,
        tool_call_id=partial.tool_call_id,
        content=partial.content,
    )


def _is_told(tree: Tree, subject: Entry) -> bool:
    """Whether the log has the content of the journal: a later `partial` entry, or the result of the tool."""
    since = [entry.value for entry in tree.own() if entry.seq > subject.seq]
    match subject.value:
        case Call(reply_id=reply_id):
            return any(isinstance(it, Partial) and (it.reply_id, it.tool_call_id) == (reply_id, None) for it in since)
        case ToolStarted(reply_id=reply_id, tool_call_id=call_id):
            said = [value.message if isinstance(value, Message) else value for value in since]
            told = [it for it in said if isinstance(it, Partial | ToolResult)]
            return any((it.reply_id, it.tool_call_id) == (reply_id, call_id) for it in told)
    return False


def _prior(tree: Tree, reply_id: str) -> str:
    """Return the earlier text of a reply that was being resumed; its journal holds only the continuation."""
    annotations = [entry.value for entry in tree.own() if isinstance(entry.value, Partial | Resumed)]
    about = [annotation for annotation in annotations if annotation.reply_id == reply_id]
    resumes = bool(about) and isinstance(about[-1], Resumed) and about[-1].strategy == "resume"
    partials = [
        annotation for annotation in about if isinstance(annotation, Partial) and annotation.tool_call_id is None
    ]
    return Prompt(content=partials[-1].content).text if resumes and partials else ""
