"""What the channels of a session still have to get: complete replies, and the ends of interrupted ones (RUN-25).

Rule 1: deliveries belong to the session, not to a branch. A reply that a channel was shown in part is closed there even
if the head has been moved away since. A fork delivers nothing of its parent.
Rule 2: a complete reply is delivered whole. A reply that a person cancelled ends with the words that were displayed.
Any other interrupted reply is reset, unless it is the one at the head, which is continued under the same id.
Rule 3: a `call` entry precedes everything that a channel is shown of its reply. So a call without an outcome may have
been shown; after a failed call a `partial` entry says that there was text.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import msgspec

from wakelog.log.content import BaseMessage, Reply
from wakelog.log.entry import (
    Activity,
    Body,
    Cancelled,
    CarriedState,
    ClosedAs,
    Compaction,
    Entry,
    Failed,
    Message,
    ModelCall,
    Partial,
    SendFailed,
    Sent,
    UndeliveredReply,
)
from wakelog.log.tree import Tree

_seq = attrgetter("seq")
# Workers of older rules did not record that a channel was reset.
_RULES_RECORDING_RESETS = 3
# The version of the rules while no worker is attached; replies are shown by workers only.
_NO_WORKER = 1


class PendingDeliveries(msgspec.Struct, frozen=True):
    """What is to be delivered, in this order, and the last failed attempt of each since a worker attached."""

    undelivered: tuple[UndeliveredReply, ...] = ()
    send_failed: tuple[SendFailed, ...] = ()


class _OpenCall(msgspec.Struct):
    """A model call without an outcome. `may_be_shown` says whether its channels may have been shown text."""

    id: str
    key: str
    parent_id: str | None
    channels: dict[str, None]
    may_be_shown: bool
    is_closed_if_left: bool


class Deliveries(msgspec.Struct):
    """The fold over a session's own entries, on all branches, in log order."""

    open_calls: dict[str, _OpenCall] = {}
    """By reply id."""
    unsent: dict[str, dict[str, UndeliveredReply]] = {}
    """By reply id and channel."""
    send_failed: dict[tuple[str, str], SendFailed] = {}
    rules: int = _NO_WORKER
    """The version of the rules of the attached worker."""

    def apply(self, value: Body) -> None:
        """Update by the session's next own entry."""
        step = _APPLY_BY_TYPE.get(type(value))
        if step is not None:
            step(self, value)

    def copy(self) -> "Deliveries":
        """Return a copy that can be updated."""
        calls = {
            name: msgspec.structs.replace(call, channels=dict(call.channels)) for name, call in self.open_calls.items()
        }
        unsent = {name: dict(by_channel) for name, by_channel in self.unsent.items()}
        return Deliveries(calls, unsent, dict(self.send_failed), self.rules)

    def pending(self, interrupted: str | None) -> PendingDeliveries:
        """Return what is to be delivered; `interrupted` is the `call` entry whose reply will be continued, if any."""
        left = (
            UndeliveredReply(reply_id=reply_id, channel=channel, interrupted="reset")
            for reply_id, call in self.open_calls.items()
            if call.is_closed_if_left and call.id != interrupted
            for channel in call.channels
        )
        undelivered = (*left, *(reply for by_channel in self.unsent.values() for reply in by_channel.values()))
        keys = {(reply.reply_id, reply.channel) for reply in undelivered} if self.send_failed else ()
        return PendingDeliveries(undelivered, tuple(each for key, each in self.send_failed.items() if key in keys))

    def add_call(self, call: ModelCall) -> None:
        """Open a call for a reply. Channels that earlier calls for the same reply may have shown stay with it."""
        if call.purpose != "reply":
            return
        tracked = self.rules >= _RULES_RECORDING_RESETS
        before = self.open_calls.pop(call.reply_id, None)
        carried = self.unsent.pop(call.reply_id, {})
        earlier = {**carried, **(before.channels if before is not None else {})} if tracked else {}
        self.open_calls[call.reply_id] = _OpenCall(
            call.id,
            call.key,
            call.parent_id,
            dict.fromkeys((*earlier, *call.channels)),
            bool(earlier) or before is not None,
            tracked,
        )

    def add_message(self, message: Message) -> None:
        """A complete reply is to be delivered to the channels of the call that made it, which has the same parent."""
        if type(message.message) is not Reply:
            return
        call = self.open_calls.pop(message.id, None)
        if call is not None and call.parent_id == message.parent_id:
            self._close(message.id, call.channels, None)
        elif message.id in self.unsent:
            self._close(message.id, self.unsent[message.id], None)

    def add_failure(self, failed: Failed) -> None:
        """The reply of a failed call comes again under another id, so the shown part of this one is reset."""
        reply_id = next((name for name, call in self.open_calls.items() if call.key == failed.call_id), None)
        if reply_id is None:
            return
        call = self.open_calls.pop(reply_id)
        if call.is_closed_if_left and call.may_be_shown:
            self._close(reply_id, call.channels, "reset")

    def add_cancellation(self, cancelled: Cancelled) -> None:
        """A cancelled reply ends with the words that its `cancelled` entry holds."""
        if cancelled.reply_id is None:
            return
        call = self.open_calls.pop(cancelled.reply_id, None)
        if call is not None and call.may_be_shown:
            self._close(cancelled.reply_id, call.channels, "ended")

    def add_partial(self, partial: Partial) -> None:
        """Text of an interrupted reply has been displayed."""
        call = self.open_calls.get(partial.reply_id) if partial.tool_call_id is None else None
        if call is not None and not call.may_be_shown:
            call.may_be_shown = bool(BaseMessage(content=partial.content).text)

    def mark_sent(self, sent: Sent) -> None:
        """The channel holds the reply, or has closed the part that it was shown."""
        self.send_failed.pop((sent.reply_id, sent.channel), None)
        if sent.reply_id in self.unsent:
            self.unsent[sent.reply_id].pop(sent.channel, None)
            if not self.unsent[sent.reply_id]:
                del self.unsent[sent.reply_id]
        elif sent.interrupted is not None and sent.reply_id in self.open_calls:
            self.open_calls[sent.reply_id].channels.pop(sent.channel, None)

    def add_send_failure(self, failed: SendFailed) -> None:
        """Record a failed send; the last attempt counts."""
        self.send_failed[failed.reply_id, failed.channel] = failed

    def add_activity(self, activity: Activity) -> None:
        """A new worker counts attempts from zero. What its predecessor had begun may have been shown."""
        if activity.event == "left":
            self.rules = _NO_WORKER
        if activity.event == "attached":
            self.send_failed.clear()
            self.rules = activity.rules
            for call in self.open_calls.values():
                call.may_be_shown = True

    def add_compaction(self, compaction: Compaction) -> None:
        """Start again from the state that a compaction carries."""
        if compaction.state is not None:
            self.open_calls.clear()
            self.unsent.clear()
            self.send_failed.clear()
            self._start_from(compaction.state)

    def _start_from(self, carried: CarriedState) -> None:
        self.rules = carried.rules if carried.attached_at is not None else _NO_WORKER
        for reply in carried.owed:
            self.unsent.setdefault(reply.reply_id, {})[reply.channel] = reply
        self.send_failed.update({(failed.reply_id, failed.channel): failed for failed in carried.send_failed})

    def _close(self, reply_id: str, channels: Iterable[str], closed_as: ClosedAs | None) -> None:
        replies = {name: UndeliveredReply(reply_id=reply_id, channel=name, interrupted=closed_as) for name in channels}
        if replies:
            self.unsent[reply_id] = replies


_APPLY_BY_TYPE: dict[type[Body], Callable[[Deliveries, Any], None]] = {
    ModelCall: Deliveries.add_call,
    Message: Deliveries.add_message,
    Failed: Deliveries.add_failure,
    Cancelled: Deliveries.add_cancellation,
    Partial: Deliveries.add_partial,
    Sent: Deliveries.mark_sent,
    SendFailed: Deliveries.add_send_failure,
    Activity: Deliveries.add_activity,
    Compaction: Deliveries.add_compaction,
}


class _Folded(msgspec.Struct, frozen=True):
    """The fold over the entries of a tree so far: how many of each type, and the last seq."""

    deliveries: Deliveries
    counts: dict[type[Body], int]
    last_seq: int


def deliveries(tree: Tree) -> Deliveries:
    """Return the deliveries of a session. The result must not be changed.

    The same value as in `session_state`. Every step asks for it, so the tree keeps it, and only new entries are added.
    """
    known = tree.folds.get(Deliveries)
    before = known if isinstance(known, _Folded) else _Folded(Deliveries(), {}, -1)
    new = _new_entries(tree, before)
    if not new:
        return before.deliveries
    if new[0].seq <= before.last_seq:
        # The entries of this log are not in the order of their numbers.
        before = _Folded(Deliveries(), {}, -1)
        new = _new_entries(tree, before)
    found = before.deliveries.copy()
    for entry in new:
        found.apply(entry.value)
    counts = {kind: len(tree.own_entries_of(kind)) for kind in _APPLY_BY_TYPE}
    tree.folds[Deliveries] = _Folded(found, counts, new[-1].seq)
    return found


def _new_entries(tree: Tree, before: _Folded) -> list[Entry]:
    """Return the entries that decide about deliveries and are not folded yet, in seq order."""
    counts = before.counts
    new = [entry for kind in _APPLY_BY_TYPE for entry in tree.own_entries_of(kind)[counts.get(kind, 0) :]]
    # Messages are not looked up by type: only those that calls have made matter.
    made = (entry.value.reply_id for entry in new if isinstance(entry.value, ModelCall))
    names = dict.fromkeys((*before.deliveries.open_calls, *before.deliveries.unsent, *made))
    replies = [tree.nodes[name] for name in names if name in tree.nodes and not tree.is_inherited(name)]
    return sorted((*new, *(reply for reply in replies if reply.seq > before.last_seq)), key=_seq)
