"""Law 11, RUN-14: `replay` reports the first line that differs from the log, and uses nothing but the log."""

import asyncio
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

import wakelog.providers
import wakelog.runtime.live
import wakelog.tools
from tests.laws.plays import Play
from tests.runtime.rigs import Rig
from wakelog.decide.decisions import Await, Idle
from wakelog.log.content import Reply, ToolResult
from wakelog.log.entry import Activity, Message, ModelCall, Sent
from wakelog.log.integrity import LogEnd
from wakelog.log.seal import unseal
from wakelog.reading import read_log
from wakelog.runtime.replay.verification import replay
from wakelog.stores.memory import MemoryStore
from wakelog.testing.crashing_store import SimulatedCrash

SEED = 7
ACTIONS = [("say", 1), ("interrupt", 2), ("agent", 6), ("say", 3), ("fold", 4), ("say", 5), ("say", 6), ("say", 7)]


@pytest.fixture(scope="module")
def play():
    """A session with tools, a compaction, a steering message and two crashed workers."""
    played = Play(SEED, kills=[(12, True), (20, False)], tools=("look", "pay", "book"))
    for verb, number in ACTIONS:
        played.act(verb, number)
    return played


def _lines(play):
    return [line.raw for line in play.store.load("s0")]


def _copy(play, lines):
    """A store with other lines under the same name, and the same blobs."""
    store = MemoryStore()
    store.replace("s0", play.store.name("s0"), b"".join(line + b"\n" for line in lines))
    store._blobs = play.store.blobs
    return store


def _resealed(lines):
    end, sealed = LogEnd(), []
    for line in lines:
        written = end.seal(unseal(line))
        end.advance(written)
        sealed.append(written.strip(b"\n"))
    return sealed


def _said(play, *kinds):
    """The lines whose messages hold text, by position."""
    entries = read_log(play.store, "s0").entries
    for at, entry in enumerate(entries):
        if isinstance(entry.value, Message) and isinstance(entry.value.message, kinds) and entry.value.message.text:
            yield at, entry


def _other_words(raw):
    changed = raw.replace(b'"text":"', b'"text":"X', 1)
    assert changed != raw
    return changed


def test_replay_reproduces_every_line(play):
    """RUN-14: every line of the runtime is written again by the same number of workers.

    Channels get every reply.
    """
    again = asyncio.run(replay(play.store, "s0"))
    assert again.ok, again
    entries = read_log(play.store, "s0").entries
    assert again.lines == len(entries)
    assert again.written > again.lines / 2
    assert again.workers == sum(isinstance(it.value, Activity) and it.value.event == "attached" for it in entries)
    sent = {it.value.reply_id for it in entries if isinstance(it.value, Sent)}
    texts = {it.id: it.value.message.text for _, it in _said(play, Reply)}
    assert {reply: again.replies["outbox"][reply] for reply in sent & set(texts)} == {
        reply: texts[reply] for reply in sent & set(texts)
    }


def test_a_changed_text_is_reported_at_its_line(play):
    """Law 11: where the text of a reply or a result was changed in a copy, the replay differs at that line."""
    places = list(_said(play, Reply, ToolResult))
    assert {type(entry.value.message) for _, entry in places} == {Reply, ToolResult}
    for at, entry in places:
        lines = _lines(play)
        lines[at] = _other_words(lines[at])
        again = asyncio.run(replay(_copy(play, lines), "s0"))
        assert not again.ok
        assert again.divergence is not None, again.reason
        assert again.divergence.position == at
        assert again.divergence.recorded == lines[at]
        assert entry.id.encode() in again.divergence.written


def test_a_forged_log_with_new_seals_is_reported_at_the_next_request(play):
    """VIEW-9: changed text in a log with new seals is reported through the request digest of a later call."""
    entries = read_log(play.store, "s0").entries
    found = 0
    for at, _ in list(_said(play, Reply, ToolResult))[:6]:
        later = [place for place, entry in enumerate(entries) if place > at and isinstance(entry.value, ModelCall)]
        lines = _lines(play)
        lines[at] = _other_words(lines[at])
        again = asyncio.run(replay(_copy(play, _resealed(lines)), "s0"))
        if later:
            found += 1
            assert again.divergence is not None
            assert again.divergence.position in later
    assert found >= 3


def test_removed_and_repeated_results_are_reported(play):
    """Law 11: results that were removed or repeated are reported, and the replay ends."""
    lines, reasons = _lines(play), []
    for at, _ in _said(play, ToolResult):
        for forged in (lines[:at] + lines[at + 1 :], lines[: at + 1] + lines[at:]):
            again = asyncio.run(replay(_copy(play, _resealed(forged)), "s0"))
            assert not again.ok
            reasons.append(again.reason)
    assert any("replay does not write this entry" in reason for reason in reasons)


def test_every_prefix_of_a_log_replays(play):
    """Law 15: every prefix of a log is a valid log, as after a crash at that point."""
    lines = _lines(play)
    for length in range(1, len(lines), 7):
        again = asyncio.run(replay(_copy(play, lines[:length]), "s0"))
        assert again.ok, (length, again)


def test_a_worker_without_work_is_reported(play):
    """RUN-4: no worker attaches to an idle session."""
    store = _copy(play, _lines(play))
    session = type(play.session)(store, "s0", clock=play.clock)
    lease = session.acquire("idle", ttl_s=1)
    session.release(lease)
    again = asyncio.run(replay(store, "s0"))
    assert "nothing to do" in again.reason


# ── nothing else is touched ──────────────────────────────────────────────────────────────────────


class _Refused(AssertionError):
    """Something outside of the log was used."""


def _refuse(*_, **__):
    raise _Refused


class _NoEnvironment(dict[str, str]):
    """An environment that raises on every access."""

    __getitem__ = get = __contains__ = __iter__ = items = _refuse


_EVENTS = ("open", "socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "import")
_watched: list[tuple[str, Any]] | None = None


def _watch(event, args):
    if _watched is not None and event.startswith(_EVENTS):
        _watched.append((event, args))


def test_replay_uses_nothing_outside_the_log(play, monkeypatch):
    """Law 11: audit hooks see no socket, process, file, import, environment, provider or tool."""
    sys.addaudithook(_watch)
    asyncio.run(replay(play.store, "s0"))

    async def alone():
        global _watched  # noqa: PLW0603
        with monkeypatch.context() as patched:
            for place, name in [
                (socket, "socket"),
                (socket, "create_connection"),
                (subprocess, "Popen"),
                (asyncio, "create_subprocess_exec"),
                (asyncio, "create_subprocess_shell"),
                (os, "getenv"),
                (wakelog.runtime.live, "open_provider"),
                (wakelog.runtime.live, "builtin_tools"),
                (wakelog.runtime.live, "LiveRuntime"),
                (wakelog.providers, "open_provider"),
                (wakelog.tools, "builtin_tools"),
            ]:
                patched.setattr(place, name, _refuse)
            patched.setattr(os, "environ", _NoEnvironment())
            effects, requests = dict(play.outside.effects), len(play.model.requests)
            watched: list[tuple[str, Any]] = []
            _watched = watched
            try:
                return await replay(play.store, "s0"), list(watched), (effects, requests)
            finally:
                _watched = None

    again, events, before = asyncio.run(alone())
    assert again.ok, again
    assert events == []
    assert before == (dict(play.outside.effects), len(play.model.requests))


def test_replay_writes_nothing(play):
    """Law 9: the replayed log, its blobs and its journals are not changed."""
    before = _lines(play), sorted(blob.digest for blob in play.store.blobs.stored())
    asyncio.run(replay(play.store, "s0"))
    assert before == (_lines(play), sorted(blob.digest for blob in play.store.blobs.stored()))


@pytest.mark.parametrize("patience_ms", [None, 0])
def test_an_interrupted_retry_wait_replays_without_waiting(patience_ms):
    """RUN-12, law 11: one worker crashed during a retry wait, another had no patience; both replay without waiting."""
    fault = {"kind": "overload", "retryable": True, "delayMs": 60_000}
    rig = Rig({"Hi.": [{"error": fault}]}, faults_max=2)
    rig.session.say("Hi.")
    if patience_ms is None:
        rig.clock.pause = _die  # type: ignore[method-assign]
        with pytest.raises(SimulatedCrash):
            rig.wake()
        rig.now += 1e9
    else:
        assert isinstance(rig.wake(patience_ms=patience_ms).decision, Await)
    rig.clock.pause = _later(rig)  # type: ignore[method-assign]
    assert rig.wake().decision == Idle("failed")
    assert asyncio.run(replay(rig.store, "s")).ok


async def _die(_):
    raise SimulatedCrash


def _later(rig):
    async def pause(ms):
        rig.clock.ms += ms

    return pause
