"""The state at the end of a branch: settings in force, how it ends, and open work. A fold over entries in log order.

A compaction carries that state (`CarriedState`), and the fold starts at the last one that does. So reading only the
tail gives the same state as reading the whole log, and later damage to older lines does not change it. A new value
needs three changes: a field in `CarriedState`, its step here, and the test that compares both ways of reading.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from wakelog.log.content import AnyMessage, JsonObject, Note, Prompt, Reply, ToolResult
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Body,
    Cancelled,
    CarriedState,
    Compaction,
    ContextEntry,
    Entry,
    Failed,
    Message,
    ModelCall,
    ModelChange,
    Partial,
    Queued,
    SessionHeader,
    Setting,
)
from wakelog.log.tree import Branch

_seq = attrgetter("seq")

IMPORTED_SETTING = "imported"
"""The key in the settings of a session header that names the tool which a session was imported from."""

# ── branch ───────────────────────────────────────────────────────────────────────────────────────


class BranchState(msgspec.Struct):
    """The state at the end of a branch.

    `set_*` are the values of settings, `answered_*` those of the last reply.
    """

    set_model: str | None = None
    set_provider: str | None = None
    answered_model: str | None = None
    answered_provider: str | None = None
    ends_in: str | None = None
    """What the conversation ends in: prompt, reply, result, cancelled, faulted (to be retried) or failed.

    Settings, custom entries and compactions do not count.
    """
    answers: int = 0
    """Number of model calls that have ended, in a reply, a fault or a compaction; interrupted ones do not count."""
    steps: int = 0
    """Number of replies in the current turn."""
    settings: JsonObject = {}
    context: ContextEntry | None = None
    queue: tuple[Queued, ...] = ()
    attention: tuple[Attention, ...] = ()

    @property
    def model(self) -> str | None:
        """The model in force; without a setting, the model of the last reply."""
        return self.set_model or self.answered_model

    @property
    def provider(self) -> str | None:
        """The provider in force; without a setting, the provider of the last reply."""
        return self.set_provider or self.answered_provider


def branch_state(branch: Branch) -> BranchState:
    """Return the state of a branch: settings from all its nodes, open work from this session's own entries."""
    state, start, since = BranchState(), 0, -1
    for at in range(len(branch.nodes) - 1, -1, -1):
        value = branch.nodes[at].value
        if type(value) is Compaction and value.state is not None:
            own = at >= branch.inherited
            state, start = initial_branch_state(value.state, own=own), at + 1
            # The carried state does not include the model call for the summary, which ends in this compaction.
            state.answers += _ends_model_call(branch.nodes[at])
            since = branch.nodes[at].seq if own else -1
            break
    for node in branch.nodes[start:]:
        apply_node(state, node)
    own_nodes = branch.nodes[max(branch.inherited, start) :]
    annotations = [annotation for annotation in branch.annotations if annotation.seq > since]
    state.answers += _failed_compactions((*_inherited_annotations(branch, start), *annotations))
    _apply_open_work(state, sorted((*own_nodes, *annotations), key=_seq))
    return state


def apply_node(state: BranchState, node: Entry) -> None:
    """Update the state by one more node. Open work is computed separately, see `OpenWork`."""
    if type(node.value) is Message:
        _apply_message(state, node.value.message)
    else:
        _apply_settings(state, node)
        state.ends_in = _ending(node) or state.ends_in
        state.answers += _ends_model_call(node)


def initial_branch_state(carried: CarriedState, *, own: bool) -> BranchState:
    """Return the initial state of a fold after a compaction. A fork does not inherit the open work of its parent."""
    return BranchState(
        set_model=carried.model,
        set_provider=carried.provider,
        answered_model=carried.answered_model,
        answered_provider=carried.answered_provider,
        ends_in=carried.ends_in,
        answers=carried.answers,
        steps=carried.steps,
        settings=carried.settings,
        context=carried.context,
        queue=carried.queue if own else (),
        attention=carried.attention if own else (),
    )


def _apply_message(state: BranchState, message: AnyMessage) -> None:
    """Update the state by one message."""
    # Exact types, here and below: a failed `isinstance` of a struct is slow, and every decision makes hundreds.
    if type(message) is Reply:
        state.ends_in, state.steps = "reply", state.steps + 1
        state.answers += message.call_id is not None
        if message.model is not None:
            state.answered_model, state.answered_provider = message.model, message.provider
    elif type(message) is ToolResult:
        # A cancelled turn stays cancelled while its open tool calls get their results.
        state.ends_in = "cancelled" if state.ends_in == "cancelled" else "result"
    elif type(message) is Prompt or (type(message) is Note and not _is_record_of_import(state, message)):
        state.ends_in, state.steps = "prompt", 0


def _is_record_of_import(state: BranchState, note: Note) -> bool:
    """Whether a note is what another tool recorded beside the conversation, such as a command: nothing answers it."""
    tool = state.settings.get(IMPORTED_SETTING)
    return tool is not None and note.custom_type.startswith(f"{tool}:")


def _ending(node: Entry) -> str | None:
    match node.value:
        case Cancelled():
            return "cancelled"
        case Failed(error=error):
            return "faulted" if error is not None and error.retryable else "failed"
    return None


def _ends_model_call(node: Entry) -> bool:
    match node.value:
        case Failed(call_id=str()) | Compaction(call_id=str()):
            return True
    return False


def _inherited_annotations(branch: Branch, start: int) -> list[Entry]:
    """Return the inherited annotations of the nodes since the last compaction."""
    here = {node.id for node in branch.nodes[max(0, start - 1) : branch.inherited]}
    return [annotation for annotation in branch.inherited_annotations if annotation.value.parent_id in here]


def _failed_compactions(annotations: Sequence[Entry]) -> int:
    """Return the number of failed model calls for a summary: they leave a `partial` annotation instead of a node."""
    partials = [annotation.value for annotation in annotations if type(annotation.value) is Partial]
    return sum(partial.error is not None for partial in partials)


def _apply_settings(state: BranchState, node: Entry) -> None:
    match node.value:
        case SessionHeader(model=model, provider=provider, settings=settings):
            # A fork starts with the settings in force at its fork point.
            state.set_model = model or state.set_model
            state.set_provider = provider or state.set_provider
            state.settings = {**state.settings, **settings}
        case ModelChange(model=model, provider=provider):
            state.set_model, state.set_provider = model, provider or state.set_provider
        case Setting(key=key, value=value):
            state.settings = {**state.settings, key: value}
        case ContextEntry() as entry:
            state.context = entry


def _apply_open_work(state: BranchState, entries: Iterable[Entry]) -> None:
    opened, find_step = OpenWork(state), _APPLY_BY_TYPE.get
    for entry in entries:
        value = entry.value
        step = find_step(type(value))
        if step is not None:
            step(opened, value)
    opened.write_into(state)


class OpenWork:
    """Open work at one point of a branch. On the hot path: every step processes every entry of the tail here."""

    def __init__(self, state: BranchState) -> None:
        self.queue = {entry.id: entry for entry in state.queue}
        self.attention = {entry.id: entry for entry in state.attention}

    def apply(self, value: Body) -> None:
        """Update by one more entry. Entries must come in seq order."""
        step = _APPLY_BY_TYPE.get(type(value))
        if step is not None:
            step(self, value)

    def write_into(self, state: BranchState) -> None:
        """Write the open work into a state."""
        state.queue = tuple(self.queue.values())
        state.attention = tuple(self.attention.values())

    def add_model_call(self, call: ModelCall) -> None:
        """A model call takes up the queued entry that it names."""
        self.queue.pop(call.queued_id or "", None)

    def add_message(self, message: Message) -> None:
        """A prompt takes up a queued entry, a result closes questions about its call."""
        body = message.message
        if type(body) is Prompt:
            self.queue.pop(body.queued_id or "", None)
            self.drop_cancels()
        elif type(body) is ToolResult and self.attention:
            self._close_questions_about(body)

    def add_queued(self, queued: Queued) -> None:
        """Add an entry to the queue; it stays there until another entry names it."""
        self.queue[queued.id] = queued

    def drop_cancels(self, _: Cancelled | None = None) -> None:
        """Drop queued cancel requests: a cancel applies only to the turn in which it was made."""
        if self.queue:
            self.queue = {key: queued for key, queued in self.queue.items() if queued.mode != "cancel"}

    def add_question(self, attention: Attention) -> None:
        """Open a question."""
        self.attention[attention.id] = attention

    def close_question(self, resolved: AttentionResolved) -> None:
        """Close a question that a person has answered."""
        self.attention.pop(resolved.attention_id, None)

    def _close_questions_about(self, result: ToolResult) -> None:
        """Close questions about a tool call that has a result: its turn was cancelled, or it was settled otherwise."""
        call = (result.reply_id, result.tool_call_id)
        for question in [*self.attention.values()]:
            if (question.reply_id, question.tool_call_id) == call:
                del self.attention[question.id]


_APPLY_BY_TYPE: dict[type[Body], Callable[[OpenWork, Any], None]] = {
    ModelCall: OpenWork.add_model_call,
    Message: OpenWork.add_message,
    Queued: OpenWork.add_queued,
    Cancelled: OpenWork.drop_cancels,
    Attention: OpenWork.add_question,
    AttentionResolved: OpenWork.close_question,
}


def queue_of_branch(entries: Iterable[Entry]) -> tuple[Queued, ...]:
    """Return the queue at the end of a branch, from a stream of its session's own entries in log order.

    `branch_state` returns the same for a branch in memory.
    """
    opened = OpenWork(BranchState())
    for entry in entries:
        if isinstance(entry.value, Compaction) and entry.value.state is not None:
            opened = OpenWork(initial_branch_state(entry.value.state, own=True))
        else:
            opened.apply(entry.value)
    return tuple(opened.queue.values())
