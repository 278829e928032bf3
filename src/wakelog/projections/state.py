"""The state of a branch and of a session: a fold over entries in the order of the log.

A compaction carries that state (`FoldState`), and the fold begins at the last one that does: so a
reader who stops there knows what one knows who read on, and where older lines were damaged since,
what the log said when it was whole still holds. Adding a value means adding it in three places that
stand together: the field in `FoldState`, its step here, and the test that compares both ways.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from wakelog.log.content import AnyMessage, JsonObject, Note, Prompt, Reply, ToolResult, Usage
from wakelog.log.entry import (
    RULES,
    Activity,
    Attention,
    AttentionResolved,
    Body,
    Call,
    Cancelled,
    CarriedState,
    Compaction,
    ContextEntry,
    Entry,
    Failed,
    Head,
    Message,
    ModelChange,
    Origin,
    Owed,
    Partial,
    Queued,
    SendFailed,
    Sent,
    Session,
    SessionArchived,
    SessionRenamed,
    Setting,
    Terminated,
)
from wakelog.log.tree import Branch, Tree
from wakelog.projections.queue import knows_queue, queue_at_head, taken_up
from wakelog.projections.uptime import Uptime, uptime, uptime_of_rules_1

# ── branch ───────────────────────────────────────────────────────────────────────────────────────


class BranchState(msgspec.Struct):
    """What holds at the end of a branch."""

    said_model: str | None = None
    said_provider: str | None = None
    answered_model: str | None = None
    answered_provider: str | None = None
    ends_in: str | None = None
    """What the talk ends in: prompt, reply, result, cancelled, faulted (to be tried again) or failed.

    Settings, notes and folds are looked past.
    """
    answers: int = 0
    """How many calls have come to an end: in a reply, a fault or a compaction. A cut one has not."""
    steps: int = 0
    """How many replies the turn has taken so far."""
    settings: JsonObject = {}
    context: ContextEntry | None = None
    queue: tuple[Queued, ...] = ()
    attention: tuple[Attention, ...] = ()
    owed: tuple[Owed, ...] = ()
    send_failed: tuple[SendFailed, ...] = ()
    """Of each owed reply, the last failed attempt to send it since the worker took the session up."""

    @property
    def model(self) -> str | None:
        """The model in force; a log that never says it still says which one answered last."""
        return self.said_model or self.answered_model

    @property
    def provider(self) -> str | None:
        """The provider in force, by the same rule."""
        return self.said_provider or self.answered_provider


def branch_state(branch: Branch) -> BranchState:
    """Folds a branch: settings from all its nodes, what is open from this session's own entries."""
    state, start, since = BranchState(), 0, -1
    for at in range(len(branch.nodes) - 1, -1, -1):
        value = branch.nodes[at].value
        if isinstance(value, Compaction) and value.state is not None:
            own = at >= branch.inherited
            state, start = carried_branch(value.state, own=own), at + 1
            # What it carries is from before it; the call for its summary has ended in it.
            state.answers += _is_answer(branch.nodes[at])
            since = branch.nodes[at].seq if own else -1
            break
    for node in branch.nodes[start:]:
        step_node(state, node)
    state.answers += _failed_compactions(branch, start, since)
    own_nodes = branch.nodes[max(branch.inherited, start) :]
    annotations = (annotation for annotation in branch.annotations if annotation.seq > since)
    _fold_open(state, sorted((*own_nodes, *annotations), key=lambda entry: entry.seq))
    return state


def step_node(state: BranchState, node: Entry) -> None:
    """What one more node changes. What is open is folded apart, see `OpenWork`."""
    if type(node.value) is Message:
        _step_message(state, node.value.message)
    else:
        _step_settings(state, node)
        state.ends_in = _ending(node) or state.ends_in
        state.answers += _is_answer(node)


def carried_branch(fold: CarriedState, *, own: bool) -> BranchState:
    """Where a fold begins. What a parent session still owed is not its fork's to settle."""
    return BranchState(
        said_model=fold.model,
        said_provider=fold.provider,
        answered_model=fold.answered_model,
        answered_provider=fold.answered_provider,
        ends_in=fold.ends_in,
        answers=fold.answers,
        steps=fold.steps,
        settings=fold.settings,
        context=fold.context,
        queue=fold.queue if own else (),
        attention=fold.attention if own else (),
        owed=fold.owed if own else (),
        send_failed=fold.send_failed if own else (),
    )


def _step_message(state: BranchState, said: AnyMessage) -> None:
    """Nearly every node there is."""
    if isinstance(said, Reply):
        state.ends_in, state.steps = "reply", state.steps + 1
        state.answers += said.call_id is not None
        if said.model is not None:
            state.answered_model, state.answered_provider = said.model, said.provider
    elif isinstance(said, ToolResult):
        # A cancelled turn stays cancelled while its open calls are settled behind it.
        state.ends_in = "cancelled" if state.ends_in == "cancelled" else "result"
    elif isinstance(said, Prompt | Note):
        state.ends_in, state.steps = "prompt", 0


def _ending(node: Entry) -> str | None:
    match node.value:
        case Cancelled():
            return "cancelled"
        case Failed(error=error):
            return "faulted" if error is not None and error.retryable else "failed"
    return None


def _is_answer(node: Entry) -> bool:
    match node.value:
        case Failed(call_id=str()) | Compaction(call_id=str()):
            return True
    return False


def _failed_compactions(branch: Branch, start: int, since: int) -> int:
    """Calls for a summary that came to nothing leave no node; an annotation says so."""
    here = {node.id for node in branch.nodes[max(0, start - 1) : branch.inherited]}
    inherited = [annotation for annotation in branch.inherited_annotations if annotation.value.parent_id in here]
    annotations = (*inherited, *(annotation for annotation in branch.annotations if annotation.seq > since))
    return sum(type(annotation.value) is Partial and annotation.value.error is not None for annotation in annotations)


def _step_settings(state: BranchState, node: Entry) -> None:
    match node.value:
        case Session(model=model, provider=provider, settings=settings):
            # A fork starts from what was in force where it left its parent.
            state.said_model = model or state.said_model
            state.said_provider = provider or state.said_provider
            state.settings = {**state.settings, **settings}
        case ModelChange(model=model, provider=provider):
            state.said_model, state.said_provider = model, provider or state.said_provider
        case Setting(key=key, value=value):
            state.settings = {**state.settings, key: value}
        case ContextEntry() as record:
            state.context = record


def _fold_open(state: BranchState, entries: Iterable[Entry]) -> None:
    opened = OpenWork(state)
    for entry in entries:
        step = _STEPS.get(type(entry.value))
        if step is not None:
            step(opened, entry.value)
    opened.write_into(state)


class OpenWork:
    """What is open at one place of a branch. Every step of a session goes over every entry of its tail here."""

    def __init__(self, state: BranchState) -> None:
        self.calls: dict[str, Call] = {}
        self.queue = {entry.id: entry for entry in state.queue}
        self.attention = {entry.id: entry for entry in state.attention}
        self.owed = dict.fromkeys((debt.reply_id, debt.channel) for debt in state.owed)
        self.send_failed = {(failed.reply_id, failed.channel): failed for failed in state.send_failed}

    def step(self, value: Body) -> None:
        """What one more entry opens or closes. Entries come in the order of their seq."""
        step = _STEPS.get(type(value))
        if step is not None:
            step(self, value)

    def write_into(self, state: BranchState) -> None:
        """Makes what is open part of a state."""
        state.queue = tuple(self.queue.values())
        state.attention = tuple(self.attention.values())
        state.owed = tuple(Owed(reply_id=reply_id, channel=channel) for reply_id, channel in self.owed)
        state.send_failed = tuple(failed for debt, failed in self.send_failed.items() if debt in self.owed)

    def call(self, call: Call) -> None:
        """A request names the queued entry that it takes up, and the channels that its reply is owed to."""
        self.calls[call.reply_id] = call
        self.queue.pop(call.queued_id or "", None)

    def sent(self, sent: Sent) -> None:
        """A reply that was delivered is not owed any more."""
        self.owed.pop((sent.reply_id, sent.channel), None)

    def failed_to_send(self, failed: SendFailed) -> None:
        """The last attempt counts."""
        self.send_failed[failed.reply_id, failed.channel] = failed

    def activity(self, activity: Activity) -> None:
        """A new worker counts its attempts to send from the beginning."""
        if activity.event == "attached":
            self.send_failed.clear()

    def message(self, message: Message) -> None:
        """A reply is owed, a prompt takes up what it names, a result answers questions about its call."""
        said = message.message
        if isinstance(said, Reply):
            # It is owed to the channels of the call that made it, which stands on the same node.
            call = self.calls.pop(message.id, None)
            if call is not None and call.parent_id == message.parent_id:
                self.owed.update(dict.fromkeys((message.id, channel) for channel in call.channels))
        elif isinstance(said, Prompt):
            self.queue.pop(said.queued_id or "", None)
            self.forget_cancels()
        elif isinstance(said, ToolResult) and self.attention:
            self._forget_questions(said)

    def queued(self, queued: Queued) -> None:
        """It waits until an entry names it."""
        self.queue[queued.id] = queued

    def forget_cancels(self, _: Cancelled | None = None) -> None:
        """A cancel is meant for the turn in which it was said: it has no hold on the next one."""
        if self.queue:
            self.queue = {key: queued for key, queued in self.queue.items() if queued.mode != "cancel"}

    def asked(self, attention: Attention) -> None:
        """A question is open until it is resolved."""
        self.attention[attention.id] = attention

    def resolved(self, resolved: AttentionResolved) -> None:
        """A person has decided."""
        self.attention.pop(resolved.attention_id, None)

    def _forget_questions(self, result: ToolResult) -> None:
        """Nobody has to decide about a call with a result: its turn was cancelled, or it was settled elsewhere."""
        call = (result.reply_id, result.tool_call_id)
        for asked in [*self.attention.values()]:
            if (asked.reply_id, asked.tool_call_id) == call:
                del self.attention[asked.id]


_STEPS: dict[type[Body], Callable[[OpenWork, Any], None]] = {
    Call: OpenWork.call,
    Sent: OpenWork.sent,
    SendFailed: OpenWork.failed_to_send,
    Activity: OpenWork.activity,
    Message: OpenWork.message,
    Queued: OpenWork.queued,
    Cancelled: OpenWork.forget_cancels,
    Attention: OpenWork.asked,
    AttentionResolved: OpenWork.resolved,
}


def queued_on(entries: Iterable[Entry]) -> tuple[Queued, ...]:
    """What waits at the end of a branch, from its session's own entries in the order of the log, one at a time.

    `branch_state` says the same of a branch that is held as a whole.
    """
    opened = OpenWork(BranchState())
    for entry in entries:
        if isinstance(entry.value, Compaction) and entry.value.state is not None:
            opened = OpenWork(carried_branch(entry.value.state, own=True))
        else:
            opened.step(entry.value)
    return tuple(opened.queue.values())


# ── session ──────────────────────────────────────────────────────────────────────────────────────


class SessionState(msgspec.Struct):
    """What holds for the whole session, whatever the branch."""

    title: str | None = None
    archived: bool = False
    terminated: bool = False
    dormant: bool = False
    """Whether the session was forked, or its head moved, and nobody has asked it to run since."""
    attached: bool = False
    calls: int = 0
    usage: Usage = Usage(cost_micros=0)
    messages: int = 0
    uptime: Uptime | None = None
    """None where only a tail was read, and its compactions are from before rules 2, which carry a wrong sum."""

    @property
    def uptime_ms(self) -> int | None:
        """For how long workers have run the session, where that is known."""
        return self.uptime.total_ms if self.uptime is not None else None


def session_state(tree: Tree) -> SessionState:
    """Folds every entry of the session's own, on all branches, from the last compaction with state on."""
    entries = tree.own()
    state, start = SessionState(), 0
    for at in range(len(entries) - 1, -1, -1):
        value = entries[at].value
        if isinstance(value, Compaction) and value.state is not None:
            state, start = carried_session(value.state), at
            break
    for entry in entries[start:]:
        step_session(state, entry)
    state.uptime = uptime(entries, whole=not tree.partial or len(entries) == tree.last_seq + 1)
    return state


def is_terminated(tree: Tree) -> bool:
    """Whether a session is over for good; the one session-wide value that every step and every append must know."""
    return bool(tree.own_of(Terminated)) or any(map(_is_end_carried, tree.own_of(Compaction)))


def _is_end_carried(fold: Entry) -> bool:
    """Whether a compaction says that the session was ended before it."""
    return isinstance(fold.value, Compaction) and fold.value.state is not None and fold.value.state.terminated


def is_dormant(tree: Tree) -> bool:
    """Whether a session is to be left alone by everything that wakes sessions by itself, such as a timer."""
    return session_state(tree).dormant


def carried_session(fold: CarriedState) -> SessionState:
    """Where the fold over a session begins behind a compaction."""
    return SessionState(
        title=fold.title,
        archived=fold.archived,
        terminated=fold.terminated,
        dormant=fold.dormant,
        attached=fold.attached_at is not None,
        calls=fold.calls,
        usage=fold.usage,
        messages=fold.messages,
    )


def step_session(state: SessionState, entry: Entry) -> None:
    """What one more entry of the session's own changes; entries come in the order of their seq."""
    match entry.value:
        case Session(title=str() as title):
            state.title = title
        case SessionRenamed(title=title):
            state.title = title or None
        case SessionArchived(archived=archived):
            state.archived = archived
        case Terminated():
            state.terminated = True
        case Activity(event=event):
            state.attached = event == "attached"
        case (
            Message(message=Reply(usage=Usage() as usage))
            | Compaction(usage=Usage() as usage)
            | Partial(usage=Usage() as usage)
        ):
            state.calls += 1
            state.usage = state.usage + usage
    state.messages += isinstance(entry.value, Message)
    state.dormant = _is_dormant_after(state.dormant, entry.value)


def _is_dormant_after(dormant: bool, value: Body) -> bool:  # noqa: FBT001 - the value of a fold
    """A fork or a move of the head is not a request to run; a person who speaks, or a worker that comes, ends that."""
    match value:
        case Session(parent=Origin(kind="fork")):
            return True
        case Head(reason=reason):
            return reason is None
        case Message(message=Prompt()) | Queued(mode="steer" | "followUp") | Activity(event="attached"):
            return False
    return dormant


def carried_state(tree: Tree, at: str, rules: int = RULES) -> CarriedState:
    """What a compaction appended under `at` has to carry."""
    branch, session = branch_state(tree.branch(at)), session_state(tree)
    assert tree.head is not None
    if rules < 2:
        return _of_rules_1(_values(tree.head, branch, session), tree, branch)
    return carried_at(tree.head, branch, session, queue_at_head(tree, branch.queue))


def _values(head: str, branch: BranchState, session: SessionState) -> CarriedState:
    """What is carried under any rules."""
    return CarriedState(
        head=head,
        title=session.title,
        archived=session.archived,
        terminated=session.terminated,
        calls=session.calls,
        usage=session.usage,
        messages=session.messages,
        model=branch.said_model,
        provider=branch.said_provider,
        answered_model=branch.answered_model,
        answered_provider=branch.answered_provider,
        ends_in=branch.ends_in,
        answers=branch.answers,
        steps=branch.steps,
        settings=branch.settings,
        context=branch.context,
        attention=branch.attention,
        owed=branch.owed,
        send_failed=branch.send_failed,
    )


def _of_rules_1(state: CarriedState, tree: Tree, branch: BranchState) -> CarriedState:
    uptime_ms, attached_at = uptime_of_rules_1(tree.own())
    said = tuple(queued.id for queued in branch.queue if queued.id in taken_up(tree))
    return msgspec.structs.replace(state, queue=branch.queue, said=said, uptime_ms=uptime_ms, attached_at=attached_at)


def carried_at(head: str, branch: BranchState, session: SessionState, queue: tuple[Queued, ...]) -> CarriedState:
    """What a compaction under rules 2 has to carry, from what was found out about the head's branch and the session."""
    assert session.uptime is not None, "a tail that begins at a compaction of rules 1 cannot be carried on"
    return msgspec.structs.replace(
        _values(head, branch, session),
        rules=2,
        queue=queue,
        dormant=session.dormant,
        uptime_ms=session.uptime.ended_ms,
        attached_at=session.uptime.attached_at,
        worked_at=session.uptime.worked_at,
    )


def can_be_carried(tree: Tree) -> bool:
    """Whether a tree holds all that a compaction under rules 2 has to carry."""
    return knows_queue(tree) and session_state(tree).uptime is not None
