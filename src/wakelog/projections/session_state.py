"""The state of a whole session across its branches, and the state that a compaction carries.

Like the state of a branch, it is computed entry by entry, from the values in the last compaction that has `state` on.
"""

import msgspec

from wakelog.log.content import Prompt, Reply, Usage
from wakelog.log.entry import (
    RULES_VERSION,
    Activity,
    AttentionResolved,
    Body,
    CarriedState,
    Compaction,
    Custom,
    DamageNote,
    Entry,
    Head,
    KnownBody,
    Label,
    Message,
    Origin,
    Partial,
    Queued,
    SessionArchived,
    SessionHeader,
    SessionRenamed,
    Terminated,
    UnknownOutcome,
)
from wakelog.log.tree import Tree
from wakelog.projections.branch_state import IMPORTED_SETTING, BranchState, branch_state
from wakelog.projections.deliveries import Deliveries
from wakelog.projections.queue import has_whole_queue, queue_at_head
from wakelog.projections.unknown_outcomes import add_unknown_result, apply_answer, remove_told_answers
from wakelog.projections.usage import Uptime, uptime

IMPORT_TYPE = "wakelog:import"
"""The `custom` entry that says where a session comes from and how many of its records were mapped."""

# ── session ──────────────────────────────────────────────────────────────────────────────────────


class SessionState(msgspec.Struct):
    """The state of the whole session, across branches."""

    title: str | None = None
    archived: bool = False
    terminated: bool = False
    dormant: bool = False
    """Whether the session was forked or its head moved, and no prompt, queued message or worker followed."""
    recorded: bool = False
    """Whether the last worker was a program that records its own agent loop: that program continues the session."""
    attached: bool = False
    calls: int = 0
    usage: Usage = Usage(cost_micros=0)
    messages: int = 0
    unknown_outcomes: tuple[UnknownOutcome, ...] = ()
    """The tool calls whose outcome is unknown: those no person has answered, and answers the model was not told yet."""
    deliveries: Deliveries = msgspec.field(default_factory=Deliveries)
    uptime: Uptime | None = None
    """None if only a tail was read and its compactions are of rules 1, which carry a wrong sum."""

    @property
    def uptime_ms(self) -> int | None:
        """For how long workers have run the session; None if unknown."""
        return self.uptime.total_ms if self.uptime is not None else None


def session_state(tree: Tree) -> SessionState:
    """Return the session state: a fold over its own entries on all branches, from the last compaction with state on."""
    entries = tree.own_entries()
    state, start = SessionState(), 0
    for at in range(len(entries) - 1, -1, -1):
        value = entries[at].value
        if isinstance(value, Compaction) and value.state is not None:
            state, start = initial_session_state(value.state), at
            break
    for entry in entries[start:]:
        apply_to_session(state, entry)
    state.uptime = uptime(entries, whole=not tree.partial or len(entries) == tree.last_seq + 1)
    return state


def is_terminated(tree: Tree) -> bool:
    """Whether a session is terminated; the only session-wide value that every step and every append needs."""
    return bool(tree.own_entries_of(Terminated)) or any(map(_carries_termination, tree.own_entries_of(Compaction)))


def _carries_termination(compaction: Entry) -> bool:
    """Whether a compaction carries that the session was terminated before it."""
    carried = _carried_by(compaction)
    return carried is not None and carried.terminated


def is_dormant(tree: Tree) -> bool:
    """Whether automatic wakers, such as a timer, must skip the session."""
    return session_state(tree).dormant


def is_allowed_after_end(value: KnownBody | None) -> bool:
    """Return whether a terminated session accepts this entry.

    Accepted are: worker left, damage note, label, title, archiving, and a person's decision about an unknown outcome.
    """
    is_leaving = isinstance(value, Activity) and value.event == "left"
    return is_leaving or isinstance(value, AttentionResolved | DamageNote | Label | SessionRenamed | SessionArchived)


def is_imported(tree: Tree) -> bool:
    """Whether the session was imported from another agent: nothing that it names is started automatically."""
    return IMPORTED_SETTING in tree.header.settings


def is_recorded(tree: Tree) -> bool:
    """Whether automatic wakers must leave the session to the program that records it.

    The same value as in `session_state`, from the few entries that decide it: every recorded prompt asks for it.
    """
    carrying = (entry for entry in reversed(tree.own_entries_of(Compaction)) if _carried_by(entry) is not None)
    last = next(carrying, None)
    for entry in reversed(tree.own_entries_of(Activity)):
        if last is not None and entry.seq < last.seq:
            break
        if isinstance(entry.value, Activity) and entry.value.event == "attached":
            return entry.value.recording
    carried = _carried_by(last) if last is not None else None
    return carried is not None and carried.recorded


def _carried_by(entry: Entry) -> CarriedState | None:
    return entry.value.state if isinstance(entry.value, Compaction) else None


def initial_session_state(carried: CarriedState) -> SessionState:
    """Return the initial state of a fold over a session after a compaction."""
    return SessionState(
        title=carried.title,
        archived=carried.archived,
        terminated=carried.terminated,
        dormant=carried.dormant,
        recorded=carried.recorded,
        attached=carried.attached_at is not None,
        calls=carried.calls,
        usage=carried.usage,
        messages=carried.messages,
        unknown_outcomes=carried.unknown_outcomes,
    )


def apply_to_session(state: SessionState, entry: Entry) -> None:
    """Update the state by the session's next own entry, in seq order."""
    match entry.value:
        case SessionHeader(title=str() as title):
            state.title = title
        case SessionRenamed(title=title):
            state.title = title or None
        case SessionArchived(archived=archived):
            state.archived = archived
        case Terminated():
            state.terminated = True
        case Activity(event=event, recording=recording):
            state.attached = event == "attached"
            state.recorded = recording if state.attached else state.recorded
        case (
            Message(message=Reply(usage=Usage() as usage))
            | Compaction(usage=Usage() as usage)
            | Partial(usage=Usage() as usage)
        ):
            state.calls += 1
            state.usage = state.usage + usage
        # Only workers and forks write results here; those of an import come before any worker.
        case Message() as message if state.attached or state.dormant:
            state.unknown_outcomes = add_unknown_result(state.unknown_outcomes, message)
        case AttentionResolved() as answer:
            state.unknown_outcomes = apply_answer(state.unknown_outcomes, answer)
        case Custom() as custom:
            state.unknown_outcomes = remove_told_answers(state.unknown_outcomes, custom)
    state.messages += isinstance(entry.value, Message)
    state.deliveries.apply(entry.value)
    state.dormant = _is_dormant_after(state.dormant, entry.value)


def _is_dormant_after(dormant: bool, value: Body) -> bool:  # noqa: FBT001 - the value of a fold
    """Return whether the session is dormant after an entry.

    A fork, or a move of the head without a reason, makes it dormant; a prompt, a queued message or a worker ends that.
    """
    match value:
        case SessionHeader(parent=Origin(kind="fork")):
            return True
        case Head(reason=reason):
            return reason is None
        case Message(message=Prompt()) | Queued(mode="steer" | "followUp") | Activity(event="attached"):
            return False
    return dormant


def build_carried_state(tree: Tree, at: str) -> CarriedState:
    """Return the state that a compaction appended under `at` must carry."""
    branch, session = branch_state(tree.branch(at)), session_state(tree)
    assert tree.head is not None
    return carried_state_of(tree.head, branch, session, queue_at_head(tree, branch.queue))


def carried_state_of(head: str, branch: BranchState, session: SessionState, queue: tuple[Queued, ...]) -> CarriedState:
    """Return the state that a compaction must carry, from the states of head branch and session."""
    open_deliveries = session.deliveries.pending(None)
    assert session.uptime is not None, "a tail that begins at a compaction of rules 1 cannot be carried on"
    return CarriedState(
        head=head,
        rules=RULES_VERSION,
        title=session.title,
        archived=session.archived,
        terminated=session.terminated,
        calls=session.calls,
        usage=session.usage,
        messages=session.messages,
        unknown_outcomes=session.unknown_outcomes,
        model=branch.set_model,
        provider=branch.set_provider,
        answered_model=branch.answered_model,
        answered_provider=branch.answered_provider,
        ends_in=branch.ends_in,
        answers=branch.answers,
        steps=branch.steps,
        settings=branch.settings,
        context=branch.context,
        attention=branch.attention,
        owed=open_deliveries.undelivered,
        send_failed=open_deliveries.send_failed,
        queue=queue,
        dormant=session.dormant,
        recorded=session.recorded,
        uptime_ms=session.uptime.ended_ms,
        attached_at=session.uptime.attached_at,
        worked_at=session.uptime.worked_at,
    )


def can_build_carried_state(tree: Tree) -> bool:
    """Whether a tree holds everything that a new compaction must carry."""
    return has_whole_queue(tree) and session_state(tree).uptime is not None
