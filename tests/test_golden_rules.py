"""Sessions written under rules 1 replay byte for byte under every later version (law 11, decision 029).

The logs in `golden/rules-1` were written before `activity.rules` existed, by workers that were killed, cancelled,
overtaken and made to compact. They are never edited: if one of these tests fails, the change is wrong.
"""

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from wakelog.log.content import BlobRef
from wakelog.log.entry import SessionHeader
from wakelog.log.lines import EntryReader, split_lines
from wakelog.runtime.replay.verification import replay
from wakelog.stores.memory import MemoryStore

FOLDER = Path(__file__).parent / "golden" / "rules-1"
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
def test_it_replays_byte_for_byte(case):
    """Law 11 across versions."""
    raw = (FOLDER / case / "main.jsonl").read_bytes()
    assert hashlib.sha256(raw).hexdigest() == KNOWN[case]["sha256"]
    again = asyncio.run(replay(_store(case), KNOWN[case]["session"]))
    assert again.ok, (again.reason, again.divergence and (again.divergence.recorded, again.divergence.written))
    assert again.workers > 0


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
