"""Law 12: the same random session on every store leaves the same bytes, whatever crashes in it.

A play has text, tools, sub-agents, faults, folds, cancels and forks, and workers that die before or after a random
write. Clock, ids and chance are its own, so the reference store and any other must end with the same logs, blobs and
deliveries: a store that answered one question differently would have made another story of it.
"""

from random import Random

import pytest

from tests.laws.plays import VERBS, Play
from tests.stores.jsonl.test_store import JsonlRig
from tests.stores.postgres.rig import PostgresRig
from tests.stores.sqlite.test_store import SqliteRig
from wakelog.testing.store_rig import journals_of

SEEDS = range(6)


@pytest.fixture(params=["files", "sqlite", "postgres"])
def rig(request, tmp_path):
    if request.param == "postgres":
        server = PostgresRig(request.getfixturevalue("postgres_url"))
        yield server
        server.close()
        return
    made = JsonlRig(tmp_path / "store") if request.param == "files" else SqliteRig(tmp_path / "store.db")
    yield made
    made.store.close()


def story(seed, rig=None):
    """Everything that is left of a session, and how often its workers crashed."""
    chance = Random(f"story {seed}")
    kills = [(chance.randrange(25), chance.random() < 0.5) for _ in range(4)]
    play = Play(seed, kills=kills, rig=rig)
    for _ in range(5):
        play.act(chance.choice(VERBS), chance.randrange(999))
    names = sorted(stat.name for stat in play.store.sessions())
    logs = {name: b"".join(line.bytes for line in play.store.load(name)) for name in names}
    journals = {name: journals_of(play.store, name) for name in names}
    blobs = sorted((blob.digest, blob.bytes) for blob in play.store.blobs.stored())
    return {"logs": logs, "journals": journals, "blobs": blobs, "said": play.outside.channel.replies}, play.deaths


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_session_leaves_the_same_bytes_on_every_store(rig, seed):
    """Law 12, ST-6: nothing in a session depends on its store."""
    expected, deaths = story(seed)
    left, died = story(seed, rig)
    assert left == expected
    assert died == deaths


def test_control_workers_crash_in_these_sessions():
    """In most of the sessions above workers crash, and every kind of entry is written."""
    told = [story(seed) for seed in SEEDS]
    assert sum(deaths for _, deaths in told) >= len(SEEDS)
    types = b"".join(raw for left, _ in told for raw in left["logs"].values())
    for kind in (b"tool_started", b"partial", b"compaction", b"spawned", b"sent", b"queued"):
        assert b'"type":"%b"' % kind in types
