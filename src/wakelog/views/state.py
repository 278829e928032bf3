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
    Activity,
    Attention,
    AttentionResolved,
    Body,
    Call,
    Cancelled,
    Compaction,
    ContextRecord,
    Entry,
    Failed,
    FoldState,
    Message,
    ModelChange,
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
from wakelog.log.times import elapsed_ms
from wakelog.log.tree import Branch, Tree

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
    context: ContextRecord | None = None
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
    """Folds a branch: settings from all its links, what is open from this session's own entries."""
    state, start, since = BranchState(), 0, -1
    for at in range(len(branch.links) - 1, -1, -1):
        value = branch.links[at].value
        if isinstance(value, Compaction) and value.state is not None:
            own = at >= branch.inherited
            state, start = _carried(value.state, own=own), at + 1
            # What it carries is from before it; the call for its summary has ended in it.
            state.answers += _is_answer(branch.links[at])
            since = branch.links[at].seq if own else -1
            break
    for link in branch.links[start:]:
        if type(link.value) is Message:
            _step_message(state, link.value.message)
        else:
            _step_settings(state, link)
            state.ends_in = _ending(link) or state.ends_in
            state.answers += _is_answer(link)
    state.answers += _failed_folds(branch, start, since)
    own_links = branch.links[max(branch.inherited, start) :]
    facts = (fact for fact in branch.facts if fact.seq > since)
    _fold_open(state, sorted((*own_links, *facts), key=lambda entry: entry.seq))
    return state


def _carried(fold: FoldState, *, own: bool) -> BranchState:
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
    """Nearly every link there is."""
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


def _ending(link: Entry) -> str | None:
    match link.value:
        case Cancelled():
            return "cancelled"
        case Failed(error=error):
            return "faulted" if error is not None and error.retryable else "failed"
    return None


def _is_answer(link: Entry) -> bool:
    match link.value:
        case Failed(call_id=str()) | Compaction(call_id=str()):
            return True
    return False


def _failed_folds(branch: Branch, start: int, since: int) -> int:
    """Calls for a summary that came to nothing leave no link; a fact says so."""
    here = {link.id for link in branch.links[max(0, start - 1) : branch.inherited]}
    inherited = [fact for fact in branch.inherited_facts if fact.value.parent_id in here]
    facts = (*inherited, *(fact for fact in branch.facts if fact.seq > since))
    return sum(type(fact.value) is Partial and fact.value.error is not None for fact in facts)


def _step_settings(state: BranchState, link: Entry) -> None:
    match link.value:
        case Session(model=model, provider=provider, settings=settings):
            # A fork starts from what was in force where it left its parent.
            state.said_model = model or state.said_model
            state.said_provider = provider or state.said_provider
            state.settings = {**state.settings, **settings}
        case ModelChange(model=model, provider=provider):
            state.said_model, state.said_provider = model, provider or state.said_provider
        case Setting(key=key, value=value):
            state.settings = {**state.settings, key: value}
        case ContextRecord() as record:
            state.context = record


def _fold_open(state: BranchState, entries: Iterable[Entry]) -> None:
    opened = _Open(state)
    for entry in entries:
        step = _STEPS.get(type(entry.value))
        if step is not None:
            step(opened, entry.value)
    state.queue = tuple(opened.queue.values())
    state.attention = tuple(opened.attention.values())
    state.owed = tuple(Owed(reply_id=reply_id, channel=channel) for reply_id, channel in opened.owed)
    state.send_failed = tuple(failed for debt, failed in opened.send_failed.items() if debt in opened.owed)


class _Open:
    """What is open at one place of a branch. Every step of a session goes over every entry of its tail here."""

    def __init__(self, state: BranchState) -> None:
        self.calls: dict[str, Call] = {}
        self.queue = {entry.id: entry for entry in state.queue}
        self.attention = {entry.id: entry for entry in state.attention}
        self.owed = dict.fromkeys((debt.reply_id, debt.channel) for debt in state.owed)
        self.send_failed = {(failed.reply_id, failed.channel): failed for failed in state.send_failed}

    def call(self, call: Call) -> None:
        self.calls[call.reply_id] = call
        self.queue.pop(call.queued_id or "", None)

    def sent(self, sent: Sent) -> None:
        self.owed.pop((sent.reply_id, sent.channel), None)

    def failed_to_send(self, failed: SendFailed) -> None:
        self.send_failed[failed.reply_id, failed.channel] = failed

    def activity(self, activity: Activity) -> None:
        """A new worker counts its attempts to send from the beginning."""
        if activity.event == "attached":
            self.send_failed.clear()

    def message(self, message: Message) -> None:
        said = message.message
        if isinstance(said, Reply):
            # It is owed to the channels of the call that made it, which stands on the same link.
            call = self.calls.get(message.id)
            if call is not None and call.parent_id == message.parent_id:
                self.owed.update(dict.fromkeys((message.id, channel) for channel in call.channels))
        elif isinstance(said, Prompt):
            self.queue.pop(said.queued_id or "", None)
            self.forget_cancels()
        elif isinstance(said, ToolResult) and self.attention:
            self._forget_questions(said)

    def queued(self, queued: Queued) -> None:
        self.queue[queued.id] = queued

    def forget_cancels(self, _: Cancelled | None = None) -> None:
        """A cancel is meant for the turn in which it was said: it has no hold on the next one."""
        if self.queue:
            self.queue = {key: queued for key, queued in self.queue.items() if queued.mode != "cancel"}

    def asked(self, attention: Attention) -> None:
        self.attention[attention.id] = attention

    def resolved(self, resolved: AttentionResolved) -> None:
        self.attention.pop(resolved.attention_id, None)

    def _forget_questions(self, result: ToolResult) -> None:
        """Nobody has to decide about a call with a result: its turn was cancelled, or it was settled elsewhere."""
        call = (result.reply_id, result.tool_call_id)
        for asked in [*self.attention.values()]:
            if (asked.reply_id, asked.tool_call_id) == call:
                del self.attention[asked.id]


_STEPS: dict[type[Body], Callable[[_Open, Any], None]] = {
    Call: _Open.call,
    Sent: _Open.sent,
    SendFailed: _Open.failed_to_send,
    Activity: _Open.activity,
    Message: _Open.message,
    Queued: _Open.queued,
    Cancelled: _Open.forget_cancels,
    Attention: _Open.asked,
    AttentionResolved: _Open.resolved,
}


# ── session ──────────────────────────────────────────────────────────────────────────────────────


class SessionState(msgspec.Struct):
    """What holds for the whole session, whatever the branch."""

    title: str | None = None
    archived: bool = False
    terminated: bool = False
    uptime_ms: int = 0
    attached_at: str | None = None
    calls: int = 0
    usage: Usage = Usage(cost_micros=0)
    messages: int = 0


def session_state(tree: Tree) -> SessionState:
    """Folds every entry of the session's own, on all branches, from the last compaction with state on."""
    entries = tree.own()
    state, start = SessionState(), 0
    for at in range(len(entries) - 1, -1, -1):
        value = entries[at].value
        if isinstance(value, Compaction) and value.state is not None:
            state, start = _carried_session(value.state), at
            break
    for entry in entries[start:]:
        _step_session(state, entry)
    return state


def is_terminated(tree: Tree) -> bool:
    """Whether a session is over for good; the one session-wide value that every step must know."""
    links = list(tree.own_links())
    for link in links[:1]:
        if any(type(fact.value) is Terminated for fact in tree.facts(link.id)):
            return True
    folds = (link.value for link in reversed(links) if isinstance(link.value, Compaction))
    return any(fold.state is not None and fold.state.terminated for fold in folds)


def _carried_session(fold: FoldState) -> SessionState:
    return SessionState(
        fold.title,
        fold.archived,
        fold.terminated,
        fold.uptime_ms,
        fold.attached_at,
        fold.calls,
        fold.usage,
        fold.messages,
    )


def _step_session(state: SessionState, entry: Entry) -> None:
    match entry.value:
        case Session(title=str() as title):
            state.title = title
        case SessionRenamed(title=title):
            state.title = title or None
        case SessionArchived(archived=archived):
            state.archived = archived
        case Terminated():
            state.terminated = True
        case Activity() as activity:
            _step_uptime(state, activity)
        case (
            Message(message=Reply(usage=Usage() as usage))
            | Compaction(usage=Usage() as usage)
            | Partial(usage=Usage() as usage)
        ):
            state.calls += 1
            state.usage = state.usage + usage
    state.messages += isinstance(entry.value, Message)


def _step_uptime(state: SessionState, activity: Activity) -> None:
    if state.attached_at is not None:
        state.uptime_ms += elapsed_ms(state.attached_at, activity.timestamp)
    state.attached_at = activity.timestamp if activity.event == "attached" else None


def fold_state(tree: Tree, at: str) -> FoldState:
    """What a compaction appended under `at` has to carry."""
    branch, session = branch_state(tree.branch(at)), session_state(tree)
    assert tree.head is not None
    return FoldState(
        head=tree.head,
        title=session.title,
        archived=session.archived,
        terminated=session.terminated,
        uptime_ms=session.uptime_ms,
        attached_at=session.attached_at,
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
        queue=branch.queue,
        said=tuple(queued.id for queued in branch.queue if queued.id in taken_up(tree)),
        attention=branch.attention,
        owed=branch.owed,
        send_failed=branch.send_failed,
    )


def taken_up(tree: Tree) -> set[str]:
    """What was queued and has been said, on whatever branch; a fold says what was before the tail that was read."""
    said: set[str] = set()
    for link in tree.own_links():
        match link.value:
            case Message(message=Prompt(queued_id=str() as queued_id)):
                said.add(queued_id)
            case Compaction(state=FoldState(said=before)):
                said.update(before)
    return said
