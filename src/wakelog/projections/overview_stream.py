"""The overview of a session computed from a stream of entries, for logs that are too long to be held as a tree.

`overview` reads a tree; these classes compute the same values and keep in memory only open work, the queue, and the
settings in force. They need the outline of the log, because the nodes of the head branch are known only after all lines
have been read.
"""

from wakelog.log.content import Reply, ToolResult
from wakelog.log.entry import Body, Compaction, Entry, Message, ModelCall, Queued, SessionHeader
from wakelog.log.ids import NO_NUMBER, id_hash
from wakelog.log.outline import Outline
from wakelog.log.tail import MESSAGE_MODES
from wakelog.projections.branch_state import BranchState, OpenWork, apply_node, initial_branch_state
from wakelog.projections.queue import QueueBuilder
from wakelog.projections.session_state import SessionState, apply_to_session, initial_session_state
from wakelog.projections.usage import Uptime, UptimeCounter


class SessionStateBuilder:
    """Streaming `session_state` of a whole log; input: the session's own entries in seq order."""

    def __init__(self) -> None:
        self._state = SessionState()
        self._uptime = UptimeCounter(Uptime())

    def add(self, entry: Entry) -> None:
        """Add the next entry."""
        value = entry.value
        if isinstance(value, Compaction) and value.state is not None:
            self._state = initial_session_state(value.state)
        apply_to_session(self._state, entry)
        self._uptime.add(value)

    def result(self) -> SessionState:
        """Return the state after the last entry."""
        self._state.uptime = self._uptime.uptime
        return self._state


class FirstPass:
    """The first pass, in log order, while the outline is built: queue and session state."""

    def __init__(self) -> None:
        self.queue = QueueBuilder()
        self.session = SessionStateBuilder()
        self.is_ordered = True
        """Whether each entry has a larger seq than the one before. If not, `session` must be computed again."""
        self._last_seq = -1

    def add(self, entry: Entry, *, is_placed: bool) -> None:
        """Add the next own, non-repeated entry of the session. `is_placed`: it is a node or an annotation of one."""
        self.is_ordered = self.is_ordered and entry.seq > self._last_seq
        self._last_seq = entry.seq
        self.queue.add(entry)
        if is_placed:
            self.session.add(entry)


class ConversationBuilder:
    """Fold over the nodes of the head branch, in order: settings, how the branch ends, and open tool calls."""

    def __init__(self, outline: Outline, path: bytearray) -> None:
        self.state = BranchState()
        self.carried = BranchState()
        """The state from which the fold over open work starts."""
        self.start = self.start_seq = -1
        """The number and the seq of the session's own last compaction with state."""
        self.head: str | None = None
        self.ends_in_session = False
        self._outline = outline
        self._path = path
        self._first_kept = 0
        # By tool call id: the number of the reply and the hash of its id. Only the last compaction determines how far
        # back tool calls count, so older ones are kept too.
        self._unanswered: dict[str, list[tuple[int, int]]] = {}
        self._last_reply = NO_NUMBER

    def add(self, node: Entry, number: int) -> None:
        """Add the next node."""
        value = node.value
        if isinstance(value, Compaction):
            self._first_kept = self._kept_by(value, number)
        if isinstance(value, Compaction) and value.state is not None:
            self._start_at(node, value, number)
        else:
            apply_node(self.state, node)
        if isinstance(value, Message):
            self._track_tool_calls(value, number)
        self.head, self.ends_in_session = node.id, isinstance(value, SessionHeader)

    def _start_at(self, node: Entry, compaction: Compaction, number: int) -> None:
        own = number >= self._outline.inherited
        assert compaction.state is not None
        self.state = initial_branch_state(compaction.state, own=own)
        self.state.answers += compaction.call_id is not None
        if own:
            self.carried = initial_branch_state(compaction.state, own=True)
            self.start, self.start_seq = number, node.seq

    def _kept_by(self, compaction: Compaction, number: int) -> int:
        """Return the number of the first node that a compaction keeps, or its own; see `active_part`."""
        kept = compaction.first_kept_entry_id
        found = self._outline.number(kept) if kept is not None else NO_NUMBER
        is_kept = found != NO_NUMBER and found <= number and self._outline.is_node(found) and self._path[found]
        return found if is_kept else number

    def _track_tool_calls(self, value: Message, number: int) -> None:
        message = value.message
        if isinstance(message, Reply):
            self._last_reply = number
            for call in message.tool_calls:
                self._unanswered.setdefault(call.id, []).append((number, id_hash(value.id)))
        elif isinstance(message, ToolResult) and message.tool_call_id in self._unanswered:
            self._close_tool_call(message)

    def _close_tool_call(self, result: ToolResult) -> None:
        """Remove the tool call that a result answers: the latest one with its id, of the reply that it names."""
        calls = self._unanswered[result.tool_call_id]
        reply = id_hash(result.reply_id) if result.reply_id is not None else None
        for at in range(len(calls) - 1, -1, -1):
            if reply in (None, calls[at][1]):
                del calls[at]
                break
        if not calls:
            del self._unanswered[result.tool_call_id]

    @property
    def open_tool_calls(self) -> int:
        """The number of open tool calls."""
        return sum(number >= self._first_kept for calls in self._unanswered.values() for number, _ in calls)

    @property
    def open_in_last_reply(self) -> int:
        """The number of open tool calls of the last reply; see `HeadWork`."""
        is_kept = self._last_reply >= self._first_kept
        return sum(number == self._last_reply for calls in self._unanswered.values() for number, _ in calls) * is_kept


class OpenWorkBuilder:
    """Fold over open work on the head branch; input: the session's own entries on it, in seq order."""

    def __init__(self, carried: BranchState) -> None:
        requests = tuple(queued for queued in carried.queue if queued.mode not in MESSAGE_MODES)
        self._work = OpenWork(BranchState(queue=requests, attention=carried.attention))

    def add(self, value: Body) -> None:
        """Add the next entry."""
        if not (isinstance(value, Queued) and value.mode in MESSAGE_MODES):
            # Queued messages belong to the whole session (`QueueBuilder`).
            self._work.apply(value)

    def write_into(self, state: BranchState) -> None:
        """Write the open work into a state."""
        self._work.write_into(state)


class BranchStateBuilder:
    """Streaming `branch_state` of a path. Pass its entries to `add` by number, inherited nodes first.

    If the entries of a log are not in seq order (`is_ordered` is false), those for which `is_open_work` is true must be
    passed to `add_open` too: in seq order, and after all entries were passed to `add`.
    """

    def __init__(self, outline: Outline, node: int, *, is_ordered: bool) -> None:
        self.path = outline.path(node)
        self.conversation = ConversationBuilder(outline, self.path)
        self.interrupted: str | None = None
        """The id of the last `call` entry for a reply on the tip, which no node of the path follows."""
        self._interrupted_seq = -1
        self._has_model_call = False
        self._is_ordered = is_ordered
        self._outline = outline
        self._tip = node
        self._open = OpenWorkBuilder(self.conversation.carried)

    def is_on_path(self, number: int) -> bool:
        """Whether an entry is a node of the path, or an annotation of one."""
        node = self._outline.node_of(number)
        return node != NO_NUMBER and bool(self.path[node])

    def add(self, number: int, entry: Entry) -> None:
        """Add the next entry of the path."""
        start = self.conversation.start
        if entry.is_node:
            self.conversation.add(entry, number)
        elif isinstance(entry.value, ModelCall):
            self._note_model_call(entry.seq, entry.value, self._outline.node_of(number))
        if self.conversation.start != start:
            self._open = OpenWorkBuilder(self.conversation.carried)
        elif self._is_ordered and number >= self._outline.inherited:
            self._open.add(entry.value)

    def _note_model_call(self, seq: int, call: ModelCall, node: int) -> None:
        """Note a model call whose parent is the tip: no node has followed it."""
        self._has_model_call = self._has_model_call or node == self._tip
        if call.purpose != "reply" or call.parent_id is None or seq < self._interrupted_seq:
            return
        if id_hash(call.parent_id) == self._outline.key(self._tip):
            self.interrupted, self._interrupted_seq = call.id, seq

    @property
    def is_idle(self) -> bool:
        """Whether the tip is a node of this session, not its header, without open tool calls or a later model call."""
        is_own = (
            self._tip >= self._outline.inherited and self._tip != NO_NUMBER and not self.conversation.ends_in_session
        )
        return is_own and not self._has_model_call and not self.conversation.open_tool_calls

    def is_open_work(self, number: int, entry: Entry) -> bool:
        """Whether an entry counts for open work: the state carried by the last compaction does not include it."""
        return number > self.conversation.start if entry.is_node else entry.seq > self.conversation.start_seq

    def add_open(self, entry: Entry) -> None:
        """Add the next entry, in seq order, of a log that is in another order."""
        self._open.add(entry.value)

    def result(self) -> BranchState:
        """Return the state at the end of the path."""
        self._open.write_into(self.conversation.state)
        return self.conversation.state
