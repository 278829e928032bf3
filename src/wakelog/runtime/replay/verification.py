"""Replay verification: drive `wake` over a recorded log and compare (law 11: same log, same bytes; RUN-14)."""

import asyncio

import msgspec

from wakelog.arguments import check_store, session_ref
from wakelog.channels.in_process import MemoryChannel
from wakelog.errors import LeaseLost, WakelogError
from wakelog.log.content import BaseMessage, Reply
from wakelog.log.entry import RULES_VERSION, Activity, Cancelled, Entry, Message, Sent
from wakelog.ports.stores import Store
from wakelog.reading import read_session_header
from wakelog.runtime.replay.recorded_runtime import ReplayRuntime
from wakelog.runtime.replay.recording import Diverged, RecordedLine, ReplayStore, read_script
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.verification import missing_parts

_IDLE_ROUNDS_MAX = 1_000


class ReplayReport(msgspec.Struct, frozen=True):
    """Result of a replay: counts of lines, written lines and workers, what channels held, where the logs differ."""

    session: str
    lines: int
    written: int
    workers: int
    replies: dict[str, dict[str, str]]
    """By channel, the text that it held of each reply at the end."""
    divergence: Diverged | None = None
    reason: str = ""
    missing: tuple[str, ...] = ()
    """What a replay needs and the store lacks: blobs, and the history that a fork inherited."""

    @property
    def ok(self) -> bool:
        """Whether everything was reproduced byte for byte."""
        return self.divergence is None and not self.reason


async def replay(store: Store, session: Session | str) -> ReplayReport:
    """Replay a session from its log alone, and compare each line with the recorded one."""
    check_store(store)
    name = store.name(session_ref(session))
    first = read_session_header(store, name)
    script = read_script(store.load(name))
    again = ReplayStore(store, first.id if first is not None else name, name, script)
    channels = {channel: MemoryChannel(channel) for channel in _channels(script)}
    parted, reason, workers = None, "", 0
    missing: tuple[str, ...] = ()
    try:
        while (entry := again.next_entry) is not None and not reason:
            if isinstance(entry.value, Activity) and entry.value.event == "attached":
                workers += 1
                reason = await _replay_worker(again, entry, channels)
            elif isinstance(entry.value, Activity):
                # The worker left after something that is not in the log, such as an exception that ended it.
                again.add_next()
                again.add_inputs()
            else:
                reason = f"line {again.position + 1}: replay does not write this {entry.type} entry"
    except Diverged as diverged:
        parted = diverged
    held = {name: channel.replies for name, channel in channels.items()}
    written = sum(not recorded.is_input for recorded in script)
    if parted is None and not reason:
        reason = _delivery_mismatch(script, channels)
    elif missing := missing_parts(store, name):
        # Without these a log cannot be replayed, whatever line shows it first.
        parted, reason = None, f"a replay needs what is missing: {missing[0]}"
    return ReplayReport(name, len(script), written, workers, held, parted, reason, missing)


async def _replay_worker(again: ReplayStore, attached: Entry, channels: dict[str, MemoryChannel]) -> str:
    """Replay one worker until it leaves or is gone. Return why the replay cannot continue, or an empty text."""
    assert isinstance(attached.value, Activity)
    if attached.value.rules != RULES_VERSION:
        written = f"written by a worker of rules {attached.value.rules}"
        return f"line {again.position + 1}: {written}; this wakelog can replay rules {RULES_VERSION} only"
    runtime, place = ReplayRuntime(again, attached.value, channels), again.position
    waking = asyncio.ensure_future(wake(runtime, again.replayed_name))
    gone = asyncio.ensure_future(runtime.gone.wait())
    stalled = asyncio.ensure_future(_stalled(again))
    tasks = {waking, gone, stalled}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    is_stalled = stalled.done() and not waking.done()
    again.ended = again.ended or is_stalled
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    error = None if waking.cancelled() else waking.exception()
    if isinstance(error, WakelogError) and not isinstance(error, Diverged | LeaseLost):
        # An altered log can make a worker fail; the two logs differ there too.
        return f"line {again.position + 1}: {error}"
    if error is not None and not isinstance(error, LeaseLost):
        raise error
    if is_stalled:
        return f"line {again.position + 1}: replay does not write this entry"
    return f"line {place + 1}: a worker attached, but replay finds nothing to do" if again.position == place else ""


async def _stalled(again: ReplayStore) -> None:
    """Return when all tasks wait for entries that never come: nothing is written for `_IDLE_ROUNDS_MAX` loop rounds."""
    place, rounds = again.position, 0
    while rounds < _IDLE_ROUNDS_MAX:
        await asyncio.sleep(0)
        place, rounds = again.position, rounds + 1 if again.position == place else 0


def _channels(script: list[RecordedLine]) -> set[str]:
    bodies = [recorded.body for recorded in script]
    return {name for body in bodies if isinstance(body, Activity) for name in body.channels}


def _delivery_mismatch(script: list[RecordedLine], channels: dict[str, MemoryChannel]) -> str:
    """Return which sent or closed reply a channel does not hold exactly as logged; empty if there is none."""
    texts, sent = {}, {}
    for recorded in script:
        match recorded.body:
            case Message(message=Reply() as reply) as message:
                texts[message.id] = reply.text
            case Cancelled(reply_id=str() as reply_id, content=content):
                texts[reply_id] = BaseMessage(content=content).text
            case Sent(reply_id=reply_id, channel=channel) as body if not recorded.is_input:
                # A reply that was reset may have been continued and sent later.
                sent[reply_id, channel] = body
    for (reply_id, channel), body in sent.items():
        if channels[channel].replies.get(reply_id) != ("" if body.interrupted == "reset" else texts.get(reply_id)):
            return f"the channel {channel} has another text for the reply {reply_id} than the log"
    return ""
