"""Law 14, LOG-13: no string of any entry is stored with a secret in it, however the entry is appended."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.redaction.planted import TYPES, planted
from tests.redaction.test_entries import KEY, MARK
from tests.runtime.rigs import Rig, asks
from tests.runtime.test_tool_run import _write_of
from wakelog.app.agent import Agent
from wakelog.channels.in_process import MemoryChannel
from wakelog.decide.policy import HookSettings, Policy
from wakelog.errors import UsageError
from wakelog.forking import fork
from wakelog.log.content import BlobRef, ToolResult
from wakelog.log.entry import ContextEntry, Message, Terminated, ToolStarted
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.replay.verification import replay
from wakelog.session import Session
from wakelog.stores.jsonl.store import JsonlStore
from wakelog.stores.memory import MemoryStore

_HEADER_FIELDS = ("cwd", "agent", "sender", "title", "provider", "model", "settings", "parent")


def stored(store, name):
    """Return all bytes that a store holds of a session, with all blobs."""
    refs = [BlobRef(digest=each.digest, bytes=each.bytes) for each in store.blobs.stored()]
    return b"".join([*(line.bytes for line in store.load(name)), *map(store.blobs.get, refs)])


def _is_dropped_with_its_part(path):
    """Whether the place belongs to a part that its provider signed, which is dropped with its mark."""
    return "bound" in path or "Thinking.signature" in path


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_string_of_every_type(kind):
    """Law 14: a key in any string of any entry is a mark in the log; the strings are found by walking the types."""
    bodies = planted(kind, f"use {KEY} now")
    assert bodies
    for path, body in bodies:
        store = MemoryStore()
        if isinstance(body, SessionEntry):
            session = Session.create(store, **{name: getattr(body, name) for name in _HEADER_FIELDS})
        else:
            session = Session.create(store)
            session.append(body)
        assert KEY.encode() not in stored(store, session.name), path
        written = MARK.encode() in stored(store, session.name) or path in (
            "SessionHeader.app",
            "SessionHeader.timestamp",
        )
        assert written or _is_dropped_with_its_part(path), path
        assert KEY not in session.name


def test_no_key_is_on_the_disk(tmp_path):
    """Law 14: not in logs, blobs, leases or journals, and not in the names of files and of links."""
    store = JsonlStore(tmp_path)
    said = f"use {KEY} now"
    session = Session.create(store, agent=KEY, sender=KEY, title=said, cwd=f"/{KEY}")
    for kind in TYPES:
        for _, body in planted(kind, said) if kind not in (SessionEntry, Terminated) else ():
            session.append(body)
    session.rename(said)
    lease = session.acquire(said, ttl_s=60, channels=(said,))
    session.compact(said)
    session.release(lease)
    session.append(Terminated(reason=said))
    for folder, folders, files in os.walk(tmp_path):
        # Names of files are in lower case, and clipped.
        assert KEY[5:20].lower() not in " ".join((*folders, *files)).lower()
        for file in files:
            assert KEY.encode() not in (Path(folder) / file).read_bytes(), file
            assert not os.path.islink(Path(folder) / file) or KEY not in os.readlink(Path(folder) / file)


def test_a_policy_can_switch_redaction_off():
    """Law 14: with redaction off, the first line, the context and forks are stored as given."""
    store = MemoryStore()
    policy = Policy(redact="off", hooks=(HookSettings(name="x", options={"a": KEY}),))
    session = Agent(model="demo", policy=policy).begin(store, cwd=f"/{KEY}", title=KEY)
    assert (session.tree.header.cwd, session.tree.header.title) == (f"/{KEY}", KEY)
    assert fork(session).tree.header.cwd == f"/{KEY}"
    (record,) = [node.value for node in session.branch().nodes if isinstance(node.value, ContextEntry)]
    assert list(record.policy["hooks"]) == [{"name": "x", "options": {"a": KEY}}]


def test_a_policy_without_its_secrets_is_written_once():
    """Law 2: the redacted policy is compared with the one in the log, so the same agent writes nothing new."""
    store = MemoryStore()
    agent = Agent(
        model="demo", policy=Policy(hooks=(HookSettings(name="x", options={"a": KEY}),)), params={"extra": KEY}
    )
    session = agent.begin(store)
    assert agent.enter(session) is None
    assert KEY.encode() not in stored(store, session.name)


def test_a_hook_with_a_redacted_option_is_not_run():
    """Law 14: with a mark in its options a program would behave differently; the model gets the reason instead."""
    hooks = (HookSettings(name="notes", options={"command": ["echo", KEY]}),)
    rig = Rig({"Go.": [{"text": "Done."}]}, hooks=hooks)
    rig.say("Go.")
    assert b"[the hook notes failed: its options held a secret" in stored(rig.store, "s")
    assert MARK.encode() in stored(rig.store, "s")


def test_a_channel_name_that_looks_like_a_secret_is_refused():
    """Law 14: a channel is found by its name in the log, and a redacted name would not be found."""

    with pytest.raises(UsageError, match="a channel name looks like a secret"):
        LiveRuntime(MemoryStore(), channels=[MemoryChannel(KEY)])


def _intend_a_key(rig, monkeypatch):
    """Make every tool record a key before it starts."""

    async def prepare(tool, call):
        return {"token": KEY}

    monkeypatch.setattr(type(rig.outside.tools[0]), "prepare", prepare)


def test_the_intent_of_a_tool_is_redacted(monkeypatch):
    """Law 14: the intent that a tool records contains no key, and the log replays."""
    rig = Rig({"Pay.": [asks(("pay", 1)), {"text": "Paid."}]})
    _intend_a_key(rig, monkeypatch)
    rig.say("Pay.")
    (started,) = rig.values(ToolStarted)
    assert started.intent == {"token": MARK}
    found = asyncio.run(replay(rig.store, "s"))
    assert (found.ok, found.reason, found.divergence) == (True, "", None)


def test_a_redacted_intent_proves_nothing(monkeypatch):
    """Law 6: a tool is not asked about a call whose recorded intent was changed by redaction."""
    rig = Rig({"Go.": [asks(("book", 1)), {"text": "Booked."}]})
    _intend_a_key(rig, monkeypatch)
    rig.session.say("Go.")
    assert rig.die(_write_of(rig, "tool_started") + 1)
    assert rig.outside.receipts
    rig.wake()
    results = [value.message for value in rig.values(Message) if isinstance(value.message, ToolResult)]
    assert [result.effective_status for result in results] == ["unknown"]
    assert asyncio.run(replay(rig.store, "s")).ok
