"""What sessions hold, feature by feature, as short texts that can be compared: the facts of the tables in the docs."""

import json
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from tests.exchange.pi_records import tree_of
from wakelog.exchange.sessions import ForeignSession, ImportedEntry, session_id
from wakelog.exchange.writing import SessionToWrite
from wakelog.log.content import Image, Prompt, Reply, Thinking, ToolCall, ToolResult
from wakelog.log.entry import Compaction, Head, KnownBody, Message, ModelChange, Node, Spawned
from wakelog.projections.context import build_context

FEATURES = (
    *("messages", "calls", "results", "thinking", "images", "usage", "model", "title"),
    *("compaction", "branches", "sub-agents", "cwd/git"),
)
"""The columns of the tables."""
Facts = Mapping[str, frozenset[str]]
Fact = tuple[str, str]


class ReadSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session, however it was made: from the records of another agent, or in a test for a writer."""

    tool: str
    id: str
    is_subagent: bool
    cwd: str
    title: str | None
    model: str | None
    bodies: tuple[KnownBody, ...]
    """The entries, in the order in which they are appended."""


def read_session(session: ForeignSession) -> ReadSession:
    """Read all entries of a session of another agent."""
    bodies = tuple(item.body for item in session.items if isinstance(item, ImportedEntry))
    origin = session.origin
    return ReadSession(
        tool=origin.tool,
        id=origin.id,
        is_subagent=origin.is_subagent,
        cwd=session.cwd,
        title=session.title,
        model=session.model,
        bodies=bodies,
    )


def session_to_compare(session: SessionToWrite) -> ReadSession:
    """Return a session as a writer gets it, so that its facts can be compared with those of what was read back."""
    first = msgspec.structs.replace(session.nodes[0], parent_id=None)
    head = Head(id="head", parent_id=session.head, timestamp=first.timestamp, target_id=session.head)
    return ReadSession(
        tool="wakelog",
        id=session.session,
        is_subagent=False,
        cwd=session.cwd,
        title=session.title,
        model=session.model,
        bodies=(first, *session.nodes[1:], head),
    )


def facts_of(sessions: Iterable[ReadSession]) -> Facts:
    """Return the facts of a session and its sub-agents, by feature."""
    found: dict[str, set[str]] = {feature: set() for feature in FEATURES}
    known = list(sessions)
    for feature, fact in (*_facts_of_all(known), *(fact for each in known for fact in _facts(each))):
        found[feature].add(fact)
    return {feature: frozenset(facts) for feature, facts in found.items()}


def aspect(fact: str) -> str:
    """Return what a fact is about: the words before its colon."""
    return fact.partition(":")[0]


def _facts_of_all(sessions: list[ReadSession]) -> Iterator[Fact]:
    """Yield which sessions are sub-agents, and which calls started them."""
    ids = {session_id(each.tool, each.id) for each in sessions if each.is_subagent}
    for session in sessions:
        if session.is_subagent:
            texts = [body.message.text for body in session.bodies if isinstance(body, Message)]
            yield "sub-agents", f"asked: {texts[0]}"
        calls = _calls(session.bodies)
        for body in session.bodies:
            if isinstance(body, Spawned) and body.child_session in ids:
                yield "sub-agents", f"started by {calls[body.reply_id, body.tool_call_id].name}"


def _facts(session: ReadSession) -> Iterator[Fact]:
    yield from (("title", session.title),) if session.title else ()
    yield from (("cwd/git", session.cwd),) if session.cwd else ()
    yield from (("model", session.model),) if session.model else ()
    calls = _calls(session.bodies)
    for body in session.bodies:
        match body:
            case ModelChange():
                yield "model", body.model
            case Message(message=Prompt() as prompt):
                yield from _said("asked", prompt)
            case Message(message=Reply() as reply):
                yield from _said("answered", reply)
                yield from _reply_facts(reply)
            case Message(message=ToolResult() as result):
                call = calls.get((result.reply_id or "", result.tool_call_id))
                yield "results", f"{call.name if call else '?'} {result.effective_status}: {result.text}"
                yield from _images("of a tool", result)
    if not session.is_subagent:
        yield from _branch_facts(session.bodies)
        yield from _compaction_facts(session.bodies)


def _calls(bodies: Iterable[KnownBody]) -> dict[tuple[str, str], ToolCall]:
    return {
        (body.id, call.id): call
        for body in bodies
        if isinstance(body, Message) and isinstance(body.message, Reply)
        for call in body.message.tool_calls
    }


def _said(verb: str, message: Prompt | Reply) -> Iterator[Fact]:
    if message.text.strip():
        yield "messages", f"{verb}: {message.text.strip()}"
    yield from _images("of a person", message)


def _images(whose: str, message: Prompt | Reply | ToolResult) -> Iterator[Fact]:
    for part in message.parts:
        if isinstance(part, Image):
            yield "images", f"{whose}: {part.mime_type} {part.data}"


def _reply_facts(reply: Reply) -> Iterator[Fact]:
    yield from (("model", reply.model),) if reply.model else ()
    for part in reply.parts:
        if isinstance(part, ToolCall):
            yield "calls", f"{part.name} {json.dumps(part.input, sort_keys=True)}"
        elif isinstance(part, Thinking):
            yield from (("thinking", f"text: {part.thinking}"),) if part.thinking else ()
            yield from (("thinking", f"signature: {part.signature}"),) if part.signature else ()
    if reply.usage is not None:
        counts = msgspec.structs.asdict(reply.usage)
        yield from (("usage", f"{name}: {count}") for name, count in counts.items() if count)


def _branch_facts(bodies: tuple[KnownBody, ...]) -> Iterator[Fact]:
    """Yield how each branch ends, and with which the session continues; nothing for a session without branches."""
    parents = {body.id: body.parent_id for body in bodies if isinstance(body, Node)}
    spoken = {body.id: body.message for body in bodies if isinstance(body, Message)}

    def message_at(at: str | None) -> str | None:
        while at is not None and at not in spoken:
            at = parents.get(at)
        return at

    inner = {message_at(parents[each]) for each in spoken}
    ends = [each for each in spoken if each not in inner]
    moved = [(number, body) for number, body in enumerate(bodies) if isinstance(body, Head)]
    last = max(number for number, body in enumerate(bodies) if isinstance(body, Node))
    head = moved[-1][1].target_id if moved and moved[-1][0] > last else bodies[last].id
    if len(ends) > 1 or message_at(head) not in ends:
        yield from (("branches", f"ends with: {spoken[each].text.strip()}") for each in ends)
        continued = message_at(head)
        yield "branches", f"continues at: {spoken[continued].text.strip() if continued else 'the beginning'}"


def _compaction_facts(bodies: tuple[KnownBody, ...]) -> Iterator[Fact]:
    """Yield summaries, and what the model sees and does not see at the head, if there is a compaction."""
    summaries = [body.summary for body in bodies if isinstance(body, Compaction)]
    if not summaries:
        return
    branch = tree_of(list(bodies)).branch()
    seen = {message.text.strip() for message in build_context(branch).messages}
    told = [node.value.message for node in branch.nodes if isinstance(node.value, Message)]
    yield from (("compaction", f"summary: {summary.strip()}") for summary in summaries if summary)
    for message in told:
        if isinstance(message, Prompt | Reply) and message.text.strip():
            text = message.text.strip()
            yield "compaction", f"{'seen' if text in seen else 'not seen'}: {text}"
