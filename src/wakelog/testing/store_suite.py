"""Conformance suite for stores. Subclass `StoreSuite` in a test class with one fixture, `rig` (see `store_rig.Rig`).

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def rig(self): ...

Each test names the law or requirement it covers. Power loss, killed processes and full disks are covered by
separate tests of each store. `log_suite` and `session_suite` hold a part of the tests; here are those of leases and
fences, journals, followers, appends of many threads at once, and logs adopted from other stores.
"""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from wakelog.errors import Conflict, LeaseLost, NotFound, StoreClosed, WakelogError
from wakelog.log.codec import LINE_MAX_BYTES
from wakelog.log.integrity import verify_seals
from wakelog.log.lines import EntryReader, Line
from wakelog.log.seal import find_seq
from wakelog.ports.stores import FollowResult, StopSignal, Store
from wakelog.testing.log_suite import HistorySuite, LogSuite
from wakelog.testing.session_suite import CustodySuite, EndingSuite, IdentitySuite
from wakelog.testing.store_rig import Rig, body, first_line, journals_of, log_bytes, make, take_lease


class LeaseSuite:
    """Leases, and journals of running replies."""

    # ── leases ───────────────────────────────────────────────────────────────────────────────────

    def test_a_lease_is_an_entry(self, store: Store) -> None:
        """The fence is the seq of the entry that took the lease."""
        make(store)
        lease = take_lease(store, "a1", "one", after=0)
        assert (lease.fence, lease.holder) == (1, "one")
        assert store.held("s") == lease
        assert store.append("s", body("m1"), after=1, fence=lease.fence).seq == 2

    def test_one_holder_at_a_time(self, rig: Rig, store: Store) -> None:
        """While a lease is in force no other can be taken."""
        make(store)
        take_lease(store, "a1", "one", after=0)
        with pytest.raises(Conflict):
            take_lease(rig.again(), "a2", "two", after=1)

    def test_people_need_no_lease(self, rig: Rig, store: Store) -> None:
        """Entries of people need no lease at any time."""
        make(store)
        take_lease(store, "a1", "one", after=0)
        assert rig.again().append("s", body("m1"), after=1).seq == 2

    def test_an_expired_holder_is_overtaken(self, rig: Rig, store: Store) -> None:
        """Law 6: with a stale fence nothing can be appended or renewed, and the new lease cannot be released."""
        make(store)
        old = take_lease(store, "a1", "one", after=0, ttl_s=5)
        rig.advance(6)
        assert store.held("s") is None
        new = take_lease(rig.again(), "a2", "two", after=1, ttl_s=5)
        assert new.fence > old.fence
        before = log_bytes(store)
        with pytest.raises(LeaseLost):
            store.append("s", body("m1"), after=2, fence=old.fence)
        with pytest.raises(LeaseLost):
            store.renew(old, ttl_s=5)
        store.release(old)
        assert log_bytes(store) == before
        held = store.held("s")
        assert held is not None
        assert held.fence == new.fence

    def test_renewing_and_releasing(self, rig: Rig, store: Store) -> None:
        """A lease lasts as long as it is renewed, and ends when it is released."""
        make(store)
        lease = take_lease(store, "a1", "one", after=0, ttl_s=5)
        for _ in range(3):
            rig.advance(4)
            store.renew(lease, ttl_s=5)
        assert store.held("s") is not None
        store.release(lease)
        assert store.held("s") is None
        assert take_lease(store, "a2", "two", after=1).fence == 2

    def test_a_fence_that_never_was(self, store: Store) -> None:
        """Law 6: without a lease every fence is refused."""
        make(store)
        with pytest.raises(LeaseLost):
            store.append("s", body("m1"), after=0, fence=0)

    # ── blobs ────────────────────────────────────────────────────────────────────────────────────

    def test_blobs_belong_to_the_store(self, rig: Rig, store: Store) -> None:
        """LOG-12: a blob put by one store object is readable by another; `BlobSuite` covers the rest."""
        make(store)
        before = log_bytes(store)
        ref = store.blobs.put(b"too large for a line", "text/plain")
        assert rig.again().blobs.get(ref) == b"too large for a line"
        assert log_bytes(store) == before
        assert [stat.name for stat in store.sessions()] == ["crab_user_1"]

    # ── journals and following ───────────────────────────────────────────────────────────────────

    def test_journals_stand_beside_the_log(self, rig: Rig, store: Store) -> None:
        """Law 5, RUN-10: pieces of a reply survive the process and never touch the log."""
        make(store)
        before = log_bytes(store)
        for piece in (b'{"text":"a"}', b'{"text":"b"}'):
            store.journal("s", "r1", piece)
        store.journal("s", "r2", b"{}")
        assert journals_of(rig.again(), "s") == {"r1": (b'{"text":"a"}', b'{"text":"b"}'), "r2": (b"{}",)}
        store.drop("s", "r1")
        store.drop("s", "never-was")
        assert journals_of(store, "s") == {"r2": (b"{}",)}
        assert log_bytes(store) == before

    def test_one_worker_speaks_in_a_journal(self, rig: Rig, store: Store) -> None:
        """Laws 5 and 6: a worker that lost its lease cannot add to the journal of the next one."""
        make(store)
        old = take_lease(store, "a1", "one", after=0, ttl_s=5)
        store.journal("s", "r1", b"1", fence=old.fence)
        rig.advance(6)
        new = take_lease(rig.again(), "a2", "two", after=1)
        with pytest.raises(LeaseLost):
            store.journal("s", "r1", b"2", fence=old.fence)
        store.journal("s", "r1", b"3", fence=new.fence)
        assert journals_of(store, "s") == {"r1": (b"1", b"3")}

    def test_follow_gives_what_is_new(self, store: Store) -> None:
        """RUN-10: a follower gets exactly the lines and journal pieces that it does not have."""
        make(store)
        store.append("s", body("m1"), after=0)
        store.journal("s", "r1", b"1")
        store.journal("s", "r1", b"2")
        news = store.follow("s", after=0, pieces={"r1": 1}, timeout_s=0)
        assert [find_seq(line.raw) for line in news.lines] == [1]
        assert [(piece.reply_id, piece.offset, piece.raw) for piece in news.pieces] == [("r1", 1, b"2")]
        assert store.follow("s", after=1, pieces={"r1": 2}, timeout_s=0).lines == ()

    def test_journals_of_many_pieces(self, rig: Rig, store: Store) -> None:
        """RUN-10: all pieces are given in order, however many; a follower gets each once, in several calls."""
        make(store)
        pieces = {"r1": tuple(b"%d" % number for number in range(1_500)), "r2": (b"other",)}
        for reply_id, told in pieces.items():
            for piece in told:
                store.journal("s", reply_id, piece)
        journals = rig.again().journals("s")
        assert {reply_id: tuple(journals[reply_id]) for reply_id in journals} == pieces
        assert {reply_id: tuple(journals[reply_id]) for reply_id in journals} == pieces
        had: dict[str, int] = {}
        while news := store.follow("s", after=0, pieces=had, timeout_s=0).pieces:
            for fresh in news:
                assert fresh.offset == had.get(fresh.reply_id, 0)
                assert fresh.raw == pieces[fresh.reply_id][fresh.offset]
                had[fresh.reply_id] = fresh.offset + 1
        assert had == {"r1": 1_500, "r2": 1}
        (last,) = store.follow("s", after=0, pieces={"r1": 1_499, "r2": 1}, timeout_s=0).pieces
        assert last.raw == b"1499"

    def test_follow_reads_on(self, rig: Rig, store: Store) -> None:
        """RUN-10: continuing and new followers get the same pieces, also of a journal that is restarted."""
        make(store)
        other = rig.again()

        def told(**had: int) -> list[tuple[str, int, bytes]]:
            news = store.follow("s", after=0, pieces=had, timeout_s=0)
            return [(piece.reply_id, piece.offset, piece.raw) for piece in news.pieces]

        for reply_id, piece in (("r1", b"1"), ("r2", b"2"), ("r1", b"3")):
            other.journal("s", reply_id, piece)
        assert sorted(told()) == [("r1", 0, b"1"), ("r1", 1, b"3"), ("r2", 0, b"2")]
        assert told(r1=2, r2=1) == []
        other.journal("s", "r1", b"4")
        assert told(r1=2, r2=1) == [("r1", 2, b"4")]
        assert told(r1=1, r2=1) == [("r1", 1, b"3"), ("r1", 2, b"4")]
        other.drop("s", "r1")
        for piece in (b"five", b"six"):
            other.journal("s", "r1", piece)
        assert told(r2=1) == [("r1", 0, b"five"), ("r1", 1, b"six")]
        other.drop("s", "r1")
        other.drop("s", "r2")
        assert told(r1=2, r2=1) == []
        other.journal("s", "r3", b"7")
        assert told(r1=2, r2=1) == [("r3", 0, b"7")]

    def test_follow_waits(self, rig: Rig, store: Store) -> None:
        """RUN-10: a waiting follower is notified of a new entry, whichever store object appends it."""
        make(store)
        other = rig.again()
        got: list[Line] = []
        follower = threading.Thread(
            target=lambda: got.extend(store.follow("s", after=0, pieces={}, timeout_s=30).lines)
        )
        follower.start()
        other.append("s", body("m1"), after=0)
        follower.join(30)
        assert [find_seq(line.raw) for line in got] == [1]

    def test_follow_without_journals(self, store: Store) -> None:
        """RUN-12: a follower that wants no pieces, such as one that waits for a cancel, gets none."""
        make(store)
        store.journal("s", "r1", b"1")
        store.append("s", body("m1"), after=0)
        news = store.follow("s", after=0, pieces=None, timeout_s=0)
        assert ([find_seq(line.raw) for line in news.lines], news.pieces) == ([1], ())

    def test_a_wait_can_be_stopped(self, store: Store) -> None:
        """RUN-10: a stop signal ends the wait, also one that was set before it, and until it is cleared."""
        make(store)
        stop = StopSignal()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.follow, "s", after=0, pieces={}, timeout_s=600, stop=stop)
            stop.set()
            assert waiting.result(60) == FollowResult()
            assert store.follow("s", after=0, pieces={}, timeout_s=600, stop=stop) == FollowResult()
            stop.clear()
            again = pool.submit(store.follow, "s", after=0, pieces={}, timeout_s=600, stop=stop)
            store.append("s", body("m1"), after=0)
            assert [find_seq(line.raw) for line in again.result(60).lines] == [1]

    def test_closing_ends_waits(self, store: Store) -> None:
        """RUN-10: a follower of a closed store does not open it again, also if it was not waiting at that moment."""
        make(store)
        stop = StopSignal()
        assert store.follow("s", after=0, pieces={}, timeout_s=0.001, stop=stop) == FollowResult()
        store.close()
        with pytest.raises(StoreClosed):
            store.follow("s", after=0, pieces={}, timeout_s=30, stop=stop)
        assert store.follow("s", after=0, pieces={}, timeout_s=0.001, stop=StopSignal()) == FollowResult()


FOREIGN = b'{"type":"message","id":"f%d","message":{"role":"user","content":"hi"}}\n'
GARBAGE = (
    b"\x00\xff garbage \xfe\n",
    b"\n",
    b'{"type":"x"}{"type":"y"}\n',
    b'{"v":1,"seq":1,"type":"message","id":"again","message":{"role":"user","content":"\\ud800 \\u0000"}}\n',
    b'{"v":1,"seq":1,"type":"message","id":"again","message":{"role":"user","content":"twice"}}\n',
    b'{"v":1,"seq":900719925474099,"type":"future","id":"far","big":123456789012345678901234567890,"e":1e999}\n',
    b"  \t \r\n",
    b'{"v":1,"seq":7,"type":"mess',
)


def foreign_log(session: str = "s") -> bytes:
    """Return a log of foreign origin: lines with and without seq, damage of every kind, a torn tail."""
    return first_line(session)(7) + b"\n" + b"".join(FOREIGN % number for number in range(3)) + b"".join(GARBAGE)


class Append(NamedTuple):
    """An append to try: its session, the id of its entry, the seq it follows, and the fence of its lease."""

    session: str
    entry: str
    after: int = 0
    fence: int | None = None


def append_at_once(store: Store, appends: Sequence[Append]) -> list[int | type]:
    """Append durably from as many threads at the same time; return the seq or the error type of each."""
    gate = threading.Barrier(len(appends))

    def work(append: Append) -> int | type:
        gate.wait()
        try:
            return store.append(append.session, body(append.entry), after=append.after, fence=append.fence).seq
        except WakelogError as error:
            return type(error)

    with ThreadPoolExecutor(len(appends)) as threads:
        return list(threads.map(work, appends))


class MovingSuite:
    """Appends of many threads at once, and `adopt`."""

    # ── appends to many sessions ─────────────────────────────────────────────────────────────────

    def test_many_sessions_at_once(self, store: Store) -> None:
        """Law 3, law 12: each session gets its own entries with its own seqs, as with separate appends."""
        names = [f"s{number}" for number in range(16)]
        for name in names:
            make(store, name)
        for step in range(3):
            assert append_at_once(store, [Append(name, f"m{step}-{name}", step) for name in names]) == [step + 1] * 16
        for name in names:
            assert [entry.id for entry in EntryReader().feed_all(store.load(name))] == [
                name,
                *(f"m{step}-{name}" for step in range(3)),
            ]
            assert verify_seals(store.load(name)).broken == ()

    def test_threads_at_one_session(self, store: Store) -> None:
        """Law 3, LOG-10: of entries that threads append at the same place one is accepted, the others conflict."""
        make(store, "a")
        make(store, "b")
        appends = [*(Append("a", f"m{number}") for number in range(8)), Append("b", "n")]
        answers = append_at_once(store, appends)
        assert sorted(answers[:8], key=str) == [1, *[Conflict] * 7]
        assert answers[8] == 1
        kept = [entry.id for entry in EntryReader().feed_all(store.load("a"))]
        assert kept == ["a", f"m{answers.index(1)}"]

    def test_an_answer_is_an_entrys_own(self, rig: Rig, store: Store) -> None:
        """LOG-10, law 6: the failure of one append does not affect those of other threads."""
        for name in ("a", "b", "s"):
            make(store, name)
        take_lease(store, "a1", "one", after=0, ttl_s=5)
        rig.advance(6)
        take_lease(rig.again(), "a2", "two", after=1)
        answers = append_at_once(
            store,
            [
                Append("a", "m1"),
                Append("missing", "m3"),
                Append("b", "m4", 7),
                Append("s", "m5", 2, fence=1),
                Append("b", "m6"),
                Append("a", "m1"),
            ],
        )
        assert answers == [1, NotFound, Conflict, LeaseLost, 1, 1]
        assert [entry.id for entry in EntryReader().feed_all(store.load("a"))] == ["a", "m1"]
        assert [entry.id for entry in EntryReader().feed_all(store.load("b"))] == ["b", "m6"]

    # ── adopted logs ─────────────────────────────────────────────────────────────────────────────

    def test_a_log_is_adopted_as_it_is(self, rig: Rig, store: Store) -> None:
        """Law 12, LOG-11: every byte of an adopted log is returned, damage included."""
        raw = foreign_log()
        assert store.adopt("s", "crab_user_7", raw) == "crab_user_7"
        for other in (store, rig.again()):
            assert log_bytes(other) == log_bytes(other, "crab_user_7") == raw
            backwards = [(line.offset, line.raw) for line in other.tail("s")]
            assert backwards == [(line.offset, line.raw) for line in other.load("s")][::-1]

    def test_adopting_goes_on(self, store: Store) -> None:
        """Law 4: an adoption interrupted between two lines continues from there, with the same final bytes."""
        for number in range(foreign_log().count(b"\n")):
            raw = foreign_log(f"s{number}")
            end = len(b"".join(raw.splitlines(keepends=True)[: number + 1]))
            name = store.adopt(f"s{number}", "crab_user_1", raw[:end])
            assert store.adopt(f"s{number}", "other", raw[end:], size=end) == name
            assert log_bytes(store, f"s{number}") == raw

    def test_adopting_knows_its_place(self, store: Store) -> None:
        """LOG-10: bytes are added only at the offset given by `size`; any other offset is refused."""
        raw = first_line("s")(1) + b"\n"
        store.adopt("s", "crab_user_1", raw)
        for size in (0, 1, len(raw) - 1, len(raw) + 1):
            with pytest.raises(Conflict):
                store.adopt("s", "crab_user_1", FOREIGN % 1, size=size)
        with pytest.raises(NotFound):
            store.adopt("missing", "crab_user_2", FOREIGN % 1, size=5)
        assert log_bytes(store) == raw

    @pytest.mark.parametrize("cut", [0, 1, 40, 75])
    def test_adopting_goes_on_inside_a_line(self, rig: Rig, store: Store, cut: int) -> None:
        """Law 12: an adoption can be split at any byte, even before the first."""
        raw = first_line("s")(7) + b"\n" + FOREIGN % 1 + FOREIGN % 2
        store.adopt("s", "crab_user_7", raw[:cut])
        store.adopt("s", "crab_user_7", raw[cut:-20], size=cut)
        store.adopt("s", "crab_user_7", raw[-20:], size=len(raw) - 20)
        assert log_bytes(store) == log_bytes(rig.again()) == raw
        assert [entry.id for entry in EntryReader().feed_all(store.load("s"))] == ["s", "f1", "f2"]
        assert store.append("s", body("m3"), after=2).seq == 3

    def test_a_line_over_the_limit_is_adopted(self, store: Store) -> None:
        """LOG-11: a line that is too long to be read is stored, and the lines after it are found."""
        long = b'{"type":"custom","id":"c","data":"' + b"x" * LINE_MAX_BYTES + b'"}\n'
        raw = first_line("s")(7) + b"\n" + long + FOREIGN % 1
        store.adopt("s", "crab_user_7", raw[: LINE_MAX_BYTES // 2])
        store.adopt("s", "crab_user_7", raw[LINE_MAX_BYTES // 2 :], size=LINE_MAX_BYTES // 2)
        assert log_bytes(store) == raw
        assert [entry.id for entry in EntryReader().feed_all(store.load("s"))] == ["s", "f1"]

    def test_two_adopters(self, rig: Rig, store: Store) -> None:
        """LOG-10: of concurrent adoptions of one session one succeeds, the others get a conflict."""
        raw = first_line("s")(1) + b"\n" + FOREIGN % 1
        stores = [store, *(rig.again() for _ in range(3))]

        def adopt(each: Store) -> str:
            try:
                return each.adopt("s", "crab_user_1", raw)
            except Conflict:
                return ""

        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(adopt, stores)) == ["", "", "", "crab_user_1"]
        assert log_bytes(store) == raw

    def test_a_name_that_is_taken(self, store: Store) -> None:
        """ST-2: an adopted session keeps its name if it is free, otherwise it gets the next number."""
        make(store, "a")
        assert store.adopt("b", "crab_user_1", first_line("b")(1) + b"\n") == "crab_user_2"
        assert store.adopt("c", "by-hand", first_line("c")(1) + b"\n") == "by-hand"
        assert store.adopt("d", "by-hand", first_line("d")(1) + b"\n") == "by-hand_1"
        assert make(store, "e") == "crab_user_3"
        assert {store.name(session) for session in "abcde"} == {stat.name for stat in store.sessions()}

    def test_an_adopted_log_goes_on(self, store: Store) -> None:
        """Law 12: an entry appended to an adopted log is sealed over all bytes before it."""
        raw = first_line("s")(7) + b"\n" + b"".join(FOREIGN % number for number in range(3)) + GARBAGE[0]
        store.adopt("s", "crab_user_7", raw)
        assert store.append("s", body("m4"), after=3).seq == 4
        assert store.append("s", body("m5"), after=4).seq == 5
        assert [find_seq(line.raw) for line in store.load("s", after=3)][-2:] == [4, 5]
        assert verify_seals(store.load("s")).broken == ()
        assert log_bytes(store).startswith(raw)

    def test_a_log_out_of_order_goes_on(self, store: Store) -> None:
        """Law 9: a log with foreign seqs, some of them duplicates, can be appended to and read."""
        lines = [b'{"v":1,"seq":%d,"type":"label","id":"x%d","targetId":"s"}\n' % pair for pair in ((5, 1), (2, 2))]
        raw = first_line("s")(7) + b"\n" + GARBAGE[0] + b"".join(lines)
        store.adopt("s", "crab_user_7", raw)
        for after in range(2, 8):
            assert store.append("s", body(f"m{after}"), after=after).seq == after + 1
        assert [entry.seq for entry in EntryReader().feed_all(store.load("s"))] == [0, 5, 2, 3, 4, 5, 6, 7, 8]
        assert verify_seals(store.load("s")).broken == ()


__all__ = ["StoreSuite", "body", "make"]


class StoreSuite(LogSuite, IdentitySuite, LeaseSuite, EndingSuite, MovingSuite, HistorySuite, CustodySuite):
    """Subclass it and provide a `rig` fixture."""

    @pytest.fixture
    def store(self, rig: Rig) -> Iterator[Store]:
        """The store under test."""
        yield rig.store
        rig.store.close()
