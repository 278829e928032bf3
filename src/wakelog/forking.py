"""Forking into a session of its own: the new log names an entry of the old one and copies nothing.

Rule 1: a fork writes one line, whatever the size of its parent, and reads no further back than the
turn it leaves.
Rule 2: a new session never runs its parent's calls. Those of the last reply that are still open are
settled at once: with the parent's own result where it has one by now, as interrupted where the parent had begun them,
as skipped where its log proves that it had not, else as unknown (law 6).
"""

from collections.abc import Iterable, Sequence

import msgspec

from wakelog.errors import Damaged
from wakelog.log.content import Prompt, Reply, Text, ToolResult
from wakelog.log.entry import Call, Entry, Message, Origin, Spawned, ToolStarted
from wakelog.log.seal import seal_of
from wakelog.log.tree import Branch, Tree
from wakelog.reading import read_log
from wakelog.session import Session
from wakelog.turn import words
from wakelog.turn.calls import settled
from wakelog.turn.clearing import cleared
from wakelog.turn.policy import Redact, policy_in_force
from wakelog.views.pending import OpenCall, open_calls
from wakelog.views.state import branch_state

_SKIPPED = "Not run: the session was forked before this tool was begun."
_BEGUN = "Interrupted: this tool was begun in the session this one was forked from, and its outcome is not known here."


def fork(session: Session, at: str | None = None) -> Session:
    """A new session that goes on from an entry (default: the head) of another."""
    tree = session.tree_of(at)
    target = tree.find(at) if at is not None else tree.head
    if target is None:
        raise Damaged(f"{session.name} has no entry that can be read", hint="see `wakelog doctor`")
    card = tree.card
    owner, link = _owner(session, tree, target)
    child = Session.create(
        session.store,
        agent=card.agent or "agent",
        sender=card.sender or "user",
        cwd=card.cwd,
        parent=Origin(session=owner, entry=target, h=seal_of(link.raw)),
        clock=session.clock,
        redact=_redact(tree, target),
    )
    calls = open_calls(Branch(_turn_before(tree, target)))
    results = _results_of(calls, session.read().entries if calls else ())
    for call in calls:
        child.append(Message(message=results.get((call.reply_id, call.call.id)) or _settled(call, tree)))
    return child


def _redact(tree: Tree, target: str) -> Redact:
    """Which secrets are taken out of the new first line. What was agreed is looked up only where there is one."""
    card = tree.card
    if cleared(card) is card:
        return "assignments"
    return policy_in_force(branch_state(tree.branch(target)).context).redact


def _owner(session: Session, tree: Tree, link_id: str) -> tuple[str, Entry]:
    """The session that holds a link: this one, or, for what it inherited, the one it came from."""
    owner = session.id
    while tree.is_inherited(link_id):
        parent = tree.card.parent
        assert parent is not None
        owner = parent.session
        tree = read_log(session.store, owner).tree
    return owner, tree.links[link_id]


def _turn_before(tree: Tree, target: str) -> tuple[Entry, ...]:
    """The links from the last reply or prompt up to the target: all that can hold an open call of ours."""
    links: list[Entry] = []
    at: str | None = target
    while at is not None:
        links.append(tree.links[at])
        value = tree.links[at].value
        if isinstance(value, Message) and isinstance(value.message, Reply | Prompt):
            break
        at = tree.parent(at)
    return tuple(reversed(links))


def _was_begun(tree: Tree, call: OpenCall) -> bool:
    """Whether the parent began the tool, or gave the call a child: it may have had its effect."""
    for fact in tree.facts(call.reply_id):
        match fact.value:
            case ToolStarted(tool_call_id=call.call.id) | Spawned(tool_call_id=call.call.id):
                return True
    return False


def _is_proven_unstarted(tree: Tree, call: OpenCall) -> bool:
    """Whether the parent's log would show a start: one of its model calls made the reply, and nothing is lost since."""
    before = tree.parent(call.reply_id)
    made = [fact.value for fact in tree.facts(before)] if before is not None else []
    by_a_call = any(isinstance(it, Call) and it.reply_id == call.reply_id for it in made)
    return by_a_call and tree.links[call.reply_id].offset >= tree.scar


def _results_of(calls: Sequence[OpenCall], entries: Iterable[Entry]) -> dict[tuple[str, str], ToolResult]:
    """The results that the parent has, behind the fork or on another branch, for calls that were open at the fork."""
    wanted = {(call.reply_id, call.call.id) for call in calls}
    found: dict[tuple[str, str], ToolResult] = {}
    for entry in entries:
        match entry.value:
            case Message(message=ToolResult(reply_id=str() as reply_id, tool_call_id=call_id) as result):
                if (reply_id, call_id) in wanted:
                    found.setdefault((reply_id, call_id), msgspec.structs.replace(result, copied_from=entry.id))
    return found


def _settled(call: OpenCall, tree: Tree) -> ToolResult:
    """The result of a call that was open where a fork begins, and has none in the parent."""
    if _was_begun(tree, call):
        return settled(call, "interrupted", (Text(text=_BEGUN),))
    if _is_proven_unstarted(tree, call):
        return settled(call, "skipped", (Text(text=_SKIPPED),))
    return settled(call, "unknown", (Text(text=words.UNKNOWN_RECORDED),))
