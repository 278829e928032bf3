"""Sessions written under rules 1 are read, woken and continued; replay refuses them (law 10, decision 029).

The logs in `golden/rules-1` were written before `activity.rules` existed, by workers that were killed, cancelled,
overtaken and made to compact. They are never edited: if one of these tests fails, the change is wrong.
"""

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from tests.kernel.plays import Play
from wakelog.decide.table import decide
from wakelog.log.content import BlobRef
from wakelog.log.entry import SessionHeader
from wakelog.log.lines import EntryReader, split_lines
from wakelog.projections.context import build_context
from wakelog.projections.session_state import is_terminated
from wakelog.reading import read_active, read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.replay.verification import replay
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

FOLDER = Path(__file__).parent / "golden" / "rules-1"
FAR_FUTURE_MS = 4_102_444_800_000
KNOWN = json.loads((FOLDER / "known.json").read_text())


def _store(case):
    """Return a store with one golden session, the sessions it refers to, and the blobs."""
    store = MemoryStore()
    for path in (FOLDER / case).glob("*.jsonl"):
        raw = path.read_bytes()
        header = EntryReader().feed_all(split_lines([raw]))[0].value
        assert isinstance(header, SessionHeader)
        store.replace(header.id, KNOWN[case]["session"] if path.stem == "main" else path.stem, raw)
    for path in (FOLDER / "blobs").iterdir():
        ref = store.blobs.put(path.read_bytes(), "")
        assert isinstance(ref, BlobRef)
        assert ref.digest == path.name.replace("-", ":")
    return store


@pytest.mark.parametrize("case", sorted(KNOWN))
def test_it_is_read_as_before(case):
    """Law 10: the bytes are unchanged, every entry is read, and the model's context and the next step are the same."""
    known, store = KNOWN[case], _store(case)
    raw = (FOLDER / case / "main.jsonl").read_bytes()
    assert hashlib.sha256(raw).hexdigest() == known["sha256"]
    for log in (read_log(store, known["session"], verify=True), read_active(store, known["session"])):
        assert log.damage == ()
        assert build_context(log.tree.branch()).digest == known["context"]
        assert decide(log.tree, FAR_FUTURE_MS, frozenset({"terminal"})).rule == known["rule"]
    assert len(read_log(store, known["session"]).entries) == known["entries"]


class _Hook:
    """A hook that some of the sessions are configured with."""

    def __init__(self, name):
        self.name = name

    async def before_run(self, _):
        return f"The {self.name} is fine."


@pytest.mark.meddled  # replay refuses these sessions
@pytest.mark.parametrize("case", [case for case in sorted(KNOWN) if KNOWN[case]["rule"] == "rest"])
def test_it_is_continued(case):
    """RUN-2: a person writes to an old session, the next worker answers, and the old lines stay as they are."""
    store, name = _store(case), KNOWN[case]["session"]
    before = b"".join(line.bytes for line in store.load(name))
    session = Session(store, name)
    if is_terminated(session.tree):
        return
    session.say("And now?")
    runtime = LiveRuntime(
        store, hooks=[_Hook("weather"), _Hook("mood")], provider=Play({"And now?": [{"text": "Still here."}]})
    )
    assert asyncio.run(wake(runtime, name)).text == "Still here."
    assert b"".join(line.bytes for line in store.load(name)).startswith(before)


@pytest.mark.parametrize("case", sorted(KNOWN))
def test_replay_says_that_the_rules_are_older(case):
    """Decision 029: a worker of other rules is not replayed, and the reason is given."""
    again = asyncio.run(replay(_store(case), KNOWN[case]["session"]))
    assert not again.ok
    assert "written by a worker of rules 1; this wakelog can replay rules 3 only" in again.reason


def test_the_golden_sessions_are_varied():
    """They contain faults, cancels, compactions, forks and unknown outcomes."""
    words = b"".join(path.read_bytes() for path in FOLDER.glob("*/main.jsonl"))
    for word in (
        b'"type":"cancelled"',
        b'"type":"compaction"',
        b'"type":"failed"',
        b'"type":"partial"',
        b'"type":"resumed"',
        b'"type":"attention_resolved"',
        b'"type":"spawned"',
        b'"type":"queued"',
        b'"type":"sent"',
        b'"status":"unknown"',
        b'"status":"interrupted"',
        b'"status":"skipped"',
        b'"replay":"safe"',
        b'"replay":"receipt"',
    ):
        assert words.count(word) > 0, word
    assert b'"rules"' not in words
