"""Open work that is dropped when a session is terminated."""

import msgspec

from wakelog.log.entry import Entry, Owed, Queued
from wakelog.log.tree import Tree
from wakelog.projections.pending import OpenCall, open_calls
from wakelog.projections.queue import queue_at_head
from wakelog.projections.state import branch_state


class Dropped(msgspec.Struct, frozen=True):
    """Open tool calls, undelivered replies, and queued messages that were not taken up."""

    calls: tuple[OpenCall, ...] = ()
    owed: tuple[Owed, ...] = ()
    queue: tuple[Queued, ...] = ()

    @property
    def is_unfinished(self) -> bool:
        """Whether terminating needs force: a tool may have taken effect, or a reply is undelivered."""
        return bool(self.calls or self.owed)

    @property
    def words(self) -> tuple[str, ...]:
        """One line of text for each item."""
        return (
            *(f"the open tool call {call.call.name} ({call.call.id})" for call in self.calls),
            *(f"the reply {debt.reply_id}, not delivered to {debt.channel}" for debt in self.owed),
            *(f"the queued message {queued.id}" for queued in self.queue),
        )


class Ended(msgspec.Struct, frozen=True):
    """How a session was terminated: the `terminated` entry, the request to cancel the turn, and the dropped work."""

    entry: Entry
    cancelled: Entry | None
    dropped: Dropped


def dropped_by_end(tree: Tree) -> Dropped:
    """Return the work that terminating a session now would drop."""
    branch = tree.branch()
    state = branch_state(branch)
    messages = (queued for queued in queue_at_head(tree, state.queue) if queued.message is not None)
    return Dropped(open_calls(branch), state.owed, tuple(queued for queued in messages if queued.mode != "compact"))
