"""The queue of a session: messages sent while the agent was busy, and requests to cancel or compact.

Rule 1: a message (steer, follow-up) belongs to the session. It stays queued when the head is moved, and is taken up
once, at the head. A request (cancel, compact) belongs to the branch it was made on.
Rule 2: a compaction carries the messages of the whole session, so the newest one is enough. One
under rules 1 carries those of its own branch; `log/tail.py` reads back beyond it, and the next `activity` entry records
the queue that was found.
"""

from collections.abc import Iterable

import msgspec

from wakelog.log.content import Prompt
from wakelog.log.entry import Activity, Body, CarriedState, Compaction, Entry, Message, Queued
from wakelog.log.ids import IdTable
from wakelog.log.tail import MESSAGE_MODES, recorded_queue
from wakelog.log.tree import Tree


def queue_at_head(tree: Tree, on_branch: tuple[Queued, ...]) -> tuple[Queued, ...]:
    """Return the queue at the end of a branch, oldest first; `on_branch` are the entries queued on that branch."""
    return with_requests(waiting_messages(tree), on_branch)


def with_requests(messages: Iterable[Queued], on_branch: Iterable[Queued]) -> tuple[Queued, ...]:
    """Return the messages of the session together with the requests of one branch, oldest first."""
    requests = (queued for queued in on_branch if queued.mode not in MESSAGE_MODES)
    return tuple(sorted((*requests, *messages), key=lambda queued: queued.seq or 0))


def waiting_messages(tree: Tree) -> tuple[Queued, ...]:
    """Return the messages of the whole session that no prompt has taken up."""
    since, carried = _last_recorded_queue(tree) or (-1, tree.queued_before or ())
    later = [_with_seq(entry) for entry in tree.own_entries_of(Queued) if entry.seq > since]
    found = [queued for queued in (*carried, *later) if queued.mode in MESSAGE_MODES]
    taken = taken_message_ids(tree) if found else set()
    return tuple(queued for queued in found if queued.id not in taken)


def has_whole_queue(tree: Tree) -> bool:
    """Whether a tree holds enough of a log to determine the queued messages of the whole session."""
    return tree.queued_before is not None or _last_recorded_queue(tree) is not None


def must_record_queue(tree: Tree) -> bool:
    """Whether the next `activity` entry must record the queue: no entry since the last compaction of rules 1 has."""
    old = [
        compaction.seq
        for compaction in tree.own_entries_of(Compaction)
        if _carried_state(compaction) is not None and recorded_queue(compaction.value) is None
    ]
    since, _ = _last_recorded_queue(tree) or (-1, ())
    return bool(old) and max(old) > since


def _last_recorded_queue(tree: Tree) -> tuple[int, tuple[Queued, ...]] | None:
    """Return the seq and the queue of the newest entry that records the queue of the whole session."""
    last: tuple[int, tuple[Queued, ...]] | None = None
    for entry in (*tree.own_entries_of(Compaction), *tree.own_entries_of(Activity)):
        queue = recorded_queue(entry.value)
        if queue is not None and (last is None or entry.seq >= last[0]):
            last = (entry.seq, queue)
    return last


def _carried_state(entry: Entry) -> CarriedState | None:
    return entry.value.state if isinstance(entry.value, Compaction) else None


def _with_seq(entry: Entry) -> Queued:
    """Return the value of a `queued` entry with its seq, which lines of other programs may lack."""
    assert isinstance(entry.value, Queued)
    return entry.value if entry.value.seq is not None else msgspec.structs.replace(entry.value, seq=entry.seq)


def taken_message_ids(tree: Tree) -> set[str]:
    """Return the ids of queued messages that a prompt on any branch, or a compaction of rules 1, names as taken up."""
    return {name for node in tree.own_nodes() for name in _messages_taken_by(node.value)}


def _messages_taken_by(value: Body) -> tuple[str, ...]:
    match value:
        case Message(message=Prompt(queued_id=str() as queued_id)):
            return (queued_id,)
        case Compaction(state=CarriedState(said=before)):
            return before
    return ()


class QueueBuilder:
    """Streaming `waiting_messages` of a whole log, in log order; keeps queued messages and a table of taken-up ids."""

    def __init__(self) -> None:
        self._record: tuple[int, bool, tuple[Queued, ...]] = (-1, False, ())
        # By id: the seq of the entry (its line may lack it) and its value.
        self._later: dict[str, tuple[int, Queued]] = {}
        self._taken = IdTable()

    def add(self, entry: Entry) -> None:
        """Add the session's next own entry."""
        value = entry.value
        if isinstance(value, Queued):
            if entry.seq > self._record[0] and value.mode in MESSAGE_MODES and value.id not in self._taken:
                self._later[value.id] = entry.seq, _with_seq(entry)
        elif isinstance(value, Compaction | Activity):
            queue, is_activity = recorded_queue(value), isinstance(value, Activity)
            # Of two records with the same seq, `_last_recorded_queue` prefers an activity.
            if queue is not None and (entry.seq, is_activity) >= self._record[:2]:
                self._record = (entry.seq, is_activity, queue)
                self._later = {name: kept for name, kept in self._later.items() if kept[0] > entry.seq}
        self._take(_messages_taken_by(value))

    def _take(self, names: tuple[str, ...]) -> None:
        self._taken.add_ids(names)
        for name in names:
            self._later.pop(name, None)

    def waiting(self) -> tuple[Queued, ...]:
        """Return the messages that no prompt has taken up."""
        carried = (queued for queued in self._record[2] if queued.mode in MESSAGE_MODES)
        later = (queued for _, queued in self._later.values())
        return tuple(queued for queued in (*carried, *later) if queued.id not in self._taken)
