"""Store suite: leases and fences, journals, followers, and blobs shared through the store."""

import threading

import pytest

from wakelog.errors import Conflict, LeaseLost
from wakelog.log.lines import Line
from wakelog.log.seal import seq_of
from wakelog.ports import Store
from wakelog.testing.store_rig import Rig, body, journals_of, make, stored, take


class LeaseSuite:
    """Leases, and journals of running replies."""

    # ── leases ───────────────────────────────────────────────────────────────────────────────────

    def test_a_lease_is_an_entry(self, store: Store) -> None:
        """The fence is the seq of the entry that took the lease."""
        make(store)
        lease = take(store, "a1", "one", after=0)
        assert (lease.fence, lease.holder) == (1, "one")
        assert store.held("s") == lease
        assert store.append("s", body("m1"), after=1, fence=lease.fence).seq == 2

    def test_one_holder_at_a_time(self, rig: Rig, store: Store) -> None:
        """While a lease is in force no other can be taken."""
        make(store)
        take(store, "a1", "one", after=0)
        with pytest.raises(Conflict):
            take(rig.again(), "a2", "two", after=1)

    def test_people_need_no_lease(self, rig: Rig, store: Store) -> None:
        """Entries of people need no lease at any time."""
        make(store)
        take(store, "a1", "one", after=0)
        assert rig.again().append("s", body("m1"), after=1).seq == 2

    def test_an_expired_holder_is_overtaken(self, rig: Rig, store: Store) -> None:
        """Law 6: with a stale fence nothing can be appended or renewed, and the new lease cannot be released."""
        make(store)
        old = take(store, "a1", "one", after=0, ttl_s=5)
        rig.advance(6)
        assert store.held("s") is None
        new = take(rig.again(), "a2", "two", after=1, ttl_s=5)
        assert new.fence > old.fence
        before = stored(store)
        with pytest.raises(LeaseLost):
            store.append("s", body("m1"), after=2, fence=old.fence)
        with pytest.raises(LeaseLost):
            store.renew(old, ttl_s=5)
        store.release(old)
        assert stored(store) == before
        held = store.held("s")
        assert held is not None
        assert held.fence == new.fence

    def test_renewing_and_releasing(self, rig: Rig, store: Store) -> None:
        """A lease lasts as long as it is renewed, and ends when it is released."""
        make(store)
        lease = take(store, "a1", "one", after=0, ttl_s=5)
        for _ in range(3):
            rig.advance(4)
            store.renew(lease, ttl_s=5)
        assert store.held("s") is not None
        store.release(lease)
        assert store.held("s") is None
        assert take(store, "a2", "two", after=1).fence == 2

    def test_a_fence_that_never_was(self, store: Store) -> None:
        """Law 6: without a lease every fence is refused."""
        make(store)
        with pytest.raises(LeaseLost):
            store.append("s", body("m1"), after=0, fence=0)

    # ── blobs ────────────────────────────────────────────────────────────────────────────────────

    def test_blobs_belong_to_the_store(self, rig: Rig, store: Store) -> None:
        """LOG-12: a blob put by one store object is readable by another; `BlobSuite` covers the rest."""
        make(store)
        before = stored(store)
        ref = store.blobs.put(b"too large for a line", "text/plain")
        assert rig.again().blobs.get(ref) == b"too large for a line"
        assert stored(store) == before
        assert [stat.name for stat in store.sessions()] == ["crab_user_1"]

    # ── journals and following ───────────────────────────────────────────────────────────────────

    def test_journals_stand_beside_the_log(self, rig: Rig, store: Store) -> None:
        """Law 5, RUN-10: pieces of a reply survive the process and never touch the log."""
        make(store)
        before = stored(store)
        for piece in (b'{"text":"a"}', b'{"text":"b"}'):
            store.journal("s", "r1", piece)
        store.journal("s", "r2", b"{}")
        assert journals_of(rig.again(), "s") == {"r1": (b'{"text":"a"}', b'{"text":"b"}'), "r2": (b"{}",)}
        store.drop("s", "r1")
        store.drop("s", "never-was")
        assert journals_of(store, "s") == {"r2": (b"{}",)}
        assert stored(store) == before

    def test_one_worker_speaks_in_a_journal(self, rig: Rig, store: Store) -> None:
        """Laws 5 and 6: a worker that lost its lease cannot add to the journal of the next one."""
        make(store)
        old = take(store, "a1", "one", after=0, ttl_s=5)
        store.journal("s", "r1", b"1", fence=old.fence)
        rig.advance(6)
        new = take(rig.again(), "a2", "two", after=1)
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
        assert [seq_of(line.raw) for line in news.lines] == [1]
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
        assert [seq_of(line.raw) for line in got] == [1]
