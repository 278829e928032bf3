"""What a session still has open when it is ended for good: work that is dropped by that."""

import msgspec

from wakelog.log.entry import Entry, Owed, Queued
from wakelog.log.tree import Tree
from wakelog.projections.pending import OpenCall, open_calls
from wakelog.projections.queue import queue_at_head
from wakelog.projections.state import branch_state


class Dropped(msgspec.Struct, frozen=True):
    """Tool calls without a result, replies that a channel was not given, and messages that were not taken up."""

    calls: tuple[OpenCall, ...] = ()
    owed: tuple[Owed, ...] = ()
    queue: tuple[Queued, ...] = ()

    @property
    def is_unfinished(self) -> bool:
        """Whether a session is only ended by force: a tool may have had its effect, or a person waits for a reply."""
        return bool(self.calls or self.owed)

    @property
    def words(self) -> tuple[str, ...]:
        """One line for each."""
        return (
            *(f"the open tool call {call.call.name} ({call.call.id})" for call in self.calls),
            *(f"the reply {debt.reply_id}, not delivered to {debt.channel}" for debt in self.owed),
            *(f"the queued message {queued.id}" for queued in self.queue),
        )


class Ended(msgspec.Struct, frozen=True):
    """How a session was ended: the `terminated` entry, the request to cancel the turn, and what was dropped."""

    entry: Entry
    cancelled: Entry | None
    dropped: Dropped


def dropped_by_end(tree: Tree) -> Dropped:
    """What ending a session now would drop."""
    branch = tree.branch()
    state = branch_state(branch)
    messages = (queued for queued in queue_at_head(tree, state.queue) if queued.message is not None)
    return Dropped(open_calls(branch), state.owed, tuple(queued for queued in messages if queued.mode != "compact"))
