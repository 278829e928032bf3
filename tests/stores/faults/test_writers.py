"""Several writers of one store (LOG-10, LOG-11, ST-6, law 4): no entry twice, none lost, no deadlock.

The writers are real processes that start together on a store that does not exist yet. What one of them has printed,
it was told is kept. An error other than `Conflict` ends a writer, so that none can go unseen.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import LiteralString

import psycopg

from tests.faults.figures import Figure, store_name
from tests.faults.processes import Child, together
from tests.servers.postgres import Server, name_of
from tests.stores.faults.children import MODULE
from tests.stores.faults.logs import Kept, check_kept, made, until

WRITERS = 8
APPENDS = 10_000
BATCHERS = 4
BATCHES = 100
STUCK_AFTER_S = 1_800


def written(*writers: Sequence[str]) -> tuple[dict[str, list[Kept]], int]:
    """Let writers run to their end: the acknowledged entries by session, and the number of conflicts."""
    # Each pipe is read in a thread of its own, so that no writer waits for us; and writers that wait for each other
    # are ended, which fails the test.
    with ThreadPoolExecutor(len(writers)) as pool, together(*writers, module=MODULE) as children:
        said = [words for lines in pool.map(all_of, children, timeout=STUCK_AFTER_S) for words in lines]
    kept: dict[str, list[Kept]] = {}
    for _, session, entry, seq in (words for words in said if words[0] == "kept"):
        kept.setdefault(session, []).append((entry, int(seq)))
    return kept, sum(int(words[1]) for words in said if words[0] == "conflicts")


def all_of(child: Child) -> list[list[str]]:
    """All output of a child until it ends with success."""
    lines = [line.split() for line in child.rest()]
    assert child.process.returncode == 0
    return lines


def test_eight_writers_of_eight_sessions(url):
    """LOG-11, ST-6: sessions do not block each other, and every append exists once at its position."""
    each = str(APPENDS // WRITERS)
    kept, conflicts = written(*(("write", url, f"s{at}", f"w{at}", each) for at in range(WRITERS)))
    assert sorted(kept) == [f"s{at}" for at in range(WRITERS)]
    assert sum(map(len, kept.values())) == APPENDS
    assert conflicts == 0
    for session, places in kept.items():
        check_kept(url, session, places)


def test_eight_writers_of_one_session(url, record):
    """LOG-10, law 3: the store assigns order; the slower writer reads again, and every append exists once."""
    each = str(APPENDS // WRITERS)
    kept, conflicts = written(*(("write", url, "s", f"w{at}", each) for at in range(WRITERS)))
    assert len(kept["s"]) == APPENDS
    assert conflicts > 0, "the writers never met"
    check_kept(url, "s", kept["s"])
    writers = len({entry.split("-")[0] for entry, _ in kept["s"]})
    acknowledged, wrong = (len(kept["s"]), "acknowledged appends"), (0, "lost, there twice or out of place")
    record(Figure("writers of one session at once", store_name(url), WRITERS, writers, acknowledged, wrong))


def test_batches_in_opposite_order(url):
    """LOG-11, ST-6: four processes append to the same sessions, two of them in reverse order; none is blocked."""
    sessions = [f"s{at}" for at in range(WRITERS)]
    made(url, *sessions)
    orders = [sessions, sessions[::-1]] * (BATCHERS // 2)
    kept, conflicts = written(
        *(("write_batches", url, f"w{at}", str(BATCHES), *order) for at, order in enumerate(orders))
    )
    assert conflicts > 0, "the writers never met"
    for session in sessions:
        assert len(kept[session]) == BATCHERS * BATCHES
        check_kept(url, session, kept[session])


def test_batches_that_meet_in_the_middle(postgres, postgres_url):
    """ST-6: two batches in opposite order wait for a log in their middle; neither holds a lock the other needs."""
    sessions = [f"s{at}" for at in range(WRITERS)]
    made(postgres_url, *sessions)
    orders = (sessions, sessions[::-1])
    batches = [("write_batches", postgres_url, f"w{at}", "1", *order) for at, order in enumerate(orders)]
    with psycopg.connect(postgres_url) as between:
        between.execute("SELECT FROM wakelog.logs WHERE session = %s FOR UPDATE", [sessions[WRITERS // 2]])
        with together(*batches, module=MODULE) as children:
            until(lambda: asked(postgres, WAITING, postgres_url) == len(children))
            between.rollback()
            kept = [words for child in children for words in all_of(child) if words[0] == "kept"]
    assert len(kept) == len(batches) * len(sessions)
    # What a backend has counted, it tells when it ends.
    until(lambda: not postgres.backends(postgres_url))
    assert asked(postgres, DEADLOCKS, postgres_url) == 0


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = %s"


def asked(server: Server, question: LiteralString, url: str) -> int:
    """Run a query on a database."""
    with server.connect() as connection:
        (answer,) = connection.execute(question, [name_of(url)]).fetchone() or (0,)
    return int(answer)
