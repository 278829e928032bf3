"""ST-9: what is written for Claude Code is read back as the same session, and a session of the tool survives both ways.

A tree is compared by its branches: the messages from the first to each leaf, and to the head. A branch that begins in
the middle of a turn has the beginning of the turn once more, so the nodes may be more, but no branch differs.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.claude_code_files import SESSION_WITH_A_HOOK, check_sessions, source
from tests.exchange.generated_sessions import sessions_to_write
from tests.exchange.samples import EXPECTED, MemoryFile, entries_of, needs_samples, sample
from tests.exchange.test_claude_code_properties import CONVERSATION, mutated_records, strange_records
from wakelog.exchange.claude_code.reader import read_sessions
from wakelog.exchange.claude_code.writer import write_session
from wakelog.exchange.exporting import session_to_write
from wakelog.exchange.importing import import_session
from wakelog.exchange.sessions import ForeignSession
from wakelog.exchange.writing import SessionToWrite, WrittenSession
from wakelog.log.content import AnyPart, Image, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, Usage
from wakelog.log.entry import AnyNode, Cancelled, Compaction, Custom, Failed, FaultReport, Message, Node
from wakelog.stores.memory import MemoryStore

# ── sessions as branches of plain values ─────────────────────────────────────────────────────────

Branch = tuple[Any, ...]


def file_of(written: WrittenSession) -> MemoryFile:
    transcript = written.files[0]
    return MemoryFile(transcript.content, transcript.path)


def read_back(written: WrittenSession) -> tuple[ForeignSession, list[Any]]:
    check_sessions(file_of(written))
    (foreign,) = read_sessions(file_of(written))
    return foreign, entries_of(foreign)


def as_session(foreign: ForeignSession, entries: list[Any]) -> SessionToWrite:
    """Return an imported session as a writer gets it."""
    identity = foreign.origin.id
    nodes = [
        msgspec.structs.replace(entry, parent_id=entry.parent_id or identity)
        for entry in entries
        if isinstance(entry, Node)
    ]
    return SessionToWrite(
        session=identity,
        agent=foreign.agent,
        started_ms=foreign.started_ms,
        cwd=foreign.cwd,
        title=foreign.title,
        model=foreign.model,
        nodes=tuple(nodes),  # type: ignore[arg-type]
        head=nodes[-1].id if nodes else "",
    )


class Plain:
    """The nodes of a session as plain values: what the format holds of each."""

    def __init__(self, nodes: list[AnyNode], head: str, *, is_read: bool) -> None:
        self._is_read = is_read
        self._by_id = {node.id: node for node in nodes}
        self.values = {node.id: self._values(node) for node in nodes}
        self._parents: dict[str, str] = {}
        for node in nodes:
            parent = node.parent_id or ""
            self._parents[node.id] = parent if self.values.get(parent) else self._parents.get(parent, "")
        written = [node.id for node in nodes if self.values[node.id]]
        inner = {self._parents[node] for node in written}
        self.head = self.branch(head)
        self.branches = [self.head, *(self.branch(node) for node in written if node not in inner)]
        """The branch of the head, and those of all leaves."""

    @property
    def usages(self) -> list[Usage]:
        """The usage of each reply that is written."""
        replies = [node.message for node in self._by_id.values() if isinstance(node, Message) and self.values[node.id]]
        return [
            msgspec.structs.replace(reply.usage, cost_micros=None)
            for reply in replies
            if isinstance(reply, Reply) and reply.usage is not None
        ]

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(map(len, self.values.values()))

    def branch(self, end: str) -> Branch:
        path = [end]
        while path[-1]:
            path.append(self._parents.get(path[-1], ""))
        path.reverse()
        return tuple(value for node in path for value in self._with_kept(node, path))

    def _with_kept(self, node_id: str, path: list[str]) -> list[Any]:
        """Return the values of a node; a compaction with what it keeps of a branch."""
        node, values = self._by_id.get(node_id), self.values.get(node_id, [])
        if not isinstance(node, Compaction):
            return values
        first = node.first_kept_entry_id
        while first and first not in path:
            first = next((each for each in path if self._is_above(first, each)), None)
        kept = path[path.index(first) : path.index(node_id)] if first and first in path else []
        return [*values, [value for each in kept if not self._is_compaction(each) for value in self.values[each]]]

    def _is_above(self, first: str, node_id: str) -> bool:
        """Return whether a node that is not written is between a written one and the one before that."""
        at = self._by_id.get(node_id)
        while at is not None and at.parent_id != self._parents[node_id]:
            at = self._by_id.get(at.parent_id or "")
            if at is not None and at.id == first:
                return True
        return False

    def _is_compaction(self, node_id: str) -> bool:
        return isinstance(self._by_id.get(node_id), Compaction)

    def _values(self, node: AnyNode) -> list[Any]:
        match node:
            case Message(message=Prompt() as prompt):
                return _with_parts("prompt", prompt.parts)
            case Message(message=Note() as note):
                return _with_parts("note", note.parts)
            case Custom(in_context=True, content=content):
                return _with_parts("note", Note(content=content).parts)
            case Message(message=Reply() as reply):
                return self._reply(reply)
            case Message(message=ToolResult() as result):
                return [("result", self._call_number(result), _parts(result.parts), result.effective_status != "ok")]
            case Compaction():
                return [("compaction", node.summary, node.tokens_before, node.tokens_after, node.trigger)]
            case Cancelled(content=content):
                shown = _parts(Reply(content=content).parts)
                return [*([("reply", shown, None, None, None)] if shown else []), "cancelled"]
            case Failed(error=FaultReport() as error):
                return [("failed", error.kind, error.message)]
        return []

    def _reply(self, reply: Reply) -> list[Any]:
        is_own = reply.provider == "anthropic" or self._is_read
        shown = _parts(part for part in reply.parts if not isinstance(part, Thinking) or (is_own and _is_signed(part)))
        return [("reply", shown, reply.model, reply.stop_reason, reply.request_id)] if shown else []

    def _call_number(self, result: ToolResult) -> int:
        """Return which call of its reply a result belongs to."""
        reply = self._by_id[result.reply_id or ""]
        assert isinstance(reply, Message)
        assert isinstance(reply.message, Reply)
        return [call.id for call in reply.message.tool_calls].index(result.tool_call_id)


def _parts(parts: Any) -> list[Any]:
    return [_part(part) for part in parts if not isinstance(part, Text) or part.text.strip() or part.bound]


def _is_signed(part: Thinking) -> bool:
    return bool(part.signature or part.bound)


def _part(part: AnyPart) -> Any:
    match part:
        case ToolCall(name=name, input=given):
            return "call", name, given
        case Image(mime_type=kind) if not kind.startswith("image/"):
            return Text(text=f"(an image that cannot be shown here: {kind})")
    return part


def _with_parts(kind: str, parts: Any) -> list[Any]:
    found = _parts(parts)
    return [(kind, found)] if found else []


def plain(session: SessionToWrite, *, is_read: bool = False) -> Plain:
    return Plain(list(session.nodes), session.head, is_read=is_read)


def plain_read(entries: list[Any]) -> Plain:
    nodes: list[Any] = [entry for entry in entries if isinstance(entry, Node)]
    return Plain(nodes, nodes[-1].id if nodes else "", is_read=True)


def check_round_trip(session: SessionToWrite, *, is_imported: bool = False) -> tuple[Plain, Plain]:
    """Write a session, read it, and compare all that the format holds."""
    written = write_session(session)
    assert written == write_session(session)
    foreign, entries = read_back(written)
    before, after = plain(session, is_read=is_imported), plain_read(entries)
    assert after.head == before.head
    assert [branch for branch in after.branches if branch not in before.branches] == []
    if not any("before the first prompt" in loss.reason for loss in written.losses):
        assert [branch for branch in before.branches if branch not in after.branches] == []
        assert sum(after.usages, Usage()) == sum(before.usages, Usage())
    assert (foreign.title, foreign.cwd) == (session.title, session.cwd)
    return before, after


# ── sessions of wakelog ──────────────────────────────────────────────────────────────────────────


@given(sessions_to_write(turns_max=3))
def test_a_session_is_read_as_it_was_written(session):
    before, after = check_round_trip(session)
    assert after.count == before.count


@given(sessions_to_write(branches=True, repeated_call_ids=True))
def test_a_tree_is_read_as_it_was_written(session):
    check_round_trip(session)


@st.composite
def _with_branches_anywhere(draw):
    """Draw a session in which any node may have further children, and any node may be the head.

    Compactions among these children keep from any node before them on, but from no result without its call.
    """
    session = draw(sessions_to_write(branches=True, turns_max=2))
    nodes = list(session.nodes)
    for number in range(draw(st.integers(1, 4))):
        parent = draw(st.sampled_from(nodes))
        before = _at(session, nodes, parent.id).branch
        kept = [node.id for node in before if not (isinstance(node, Message) and isinstance(node.message, ToolResult))]
        text = f"added {number}"
        messages = [Prompt(content=text), Reply(content=text), Note(content=text), *_second_results(before)]
        added = [
            Compaction(summary=text, first_kept_entry_id=draw(st.sampled_from(kept))),
            *(Message(message=message) for message in messages),
        ]
        chosen = draw(st.sampled_from(added))
        nodes.append(
            msgspec.structs.replace(chosen, id=f"added{number}", parent_id=parent.id, timestamp=parent.timestamp)
        )
    first = next(node.id for node in nodes if isinstance(node, Message))
    heads = [node.id for node in nodes if first in [each.id for each in _at(session, nodes, node.id).branch]]
    return _at(session, nodes, draw(st.sampled_from(heads)))


def _at(session, nodes, head):
    return msgspec.structs.replace(session, nodes=tuple(nodes), head=head)


def _second_results(branch):
    """Return results for those calls of the last reply of a branch that have none there: it is open, or run again."""
    answered: set[str] = set()
    for node in reversed(branch):
        match node:
            case Message(message=ToolResult(tool_call_id=call_id)):
                answered.add(call_id)
            case Message(message=Reply() as reply):
                calls = [call for call in reply.tool_calls if call.id not in answered]
                again = ToolResult(content="again", status="ok", tool_call_id="", reply_id=node.id)
                return [msgspec.structs.replace(again, tool_call_id=call.id, tool_name=call.name) for call in calls]
    return []


@given(_with_branches_anywhere())
def test_branches_may_begin_anywhere(session):
    check_round_trip(session)


# ── sessions of Claude Code ──────────────────────────────────────────────────────────────────────


def _check_import(file):
    """Import the sessions of a file, write them, and import them again."""
    for foreign in read_sessions(file):
        session = as_session(foreign, entries_of(foreign))
        if plain(session).branches[0]:
            before, after = check_round_trip(session, is_imported=True)
            assert after.count == before.count, foreign.origin


def test_a_session_of_the_tool_survives():
    _check_import(source(*CONVERSATION))


def test_a_session_of_the_tool_survives_in_a_store():
    """The same with what an import adds, and with the session as it is read from a store."""
    store = MemoryStore()
    for records in (CONVERSATION, SESSION_WITH_A_HOOK):
        (foreign,) = read_sessions(source(*records))
        session = session_to_write(store, import_session(store, foreign).session)
        written = check_round_trip(session, is_imported=True)
        assert written[0].head == plain_read(entries_of(next(read_sessions(source(*records))))).head


@needs_samples
@pytest.mark.parametrize("name", sorted(name for name in EXPECTED if "claude-code" in name))
def test_real_sessions_survive(name):
    _check_import(sample(name))


@given(st.lists(strange_records | st.sampled_from(CONVERSATION) | mutated_records(), max_size=12))
def test_strange_sessions_are_written_and_read(records):
    """Whatever a file of the tool holds, what was read of it is written without an error, and every record is read."""
    for foreign in read_sessions(source(*records)):
        session = as_session(foreign, entries_of(foreign))
        check_sessions(file_of(write_session(session)))
