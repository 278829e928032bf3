"""Store suite: appends to many sessions in one call, and logs adopted from other stores."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from wakelog.errors import Conflict, LeaseLost, NotFound, WakelogError
from wakelog.log.codec import LINE_MAX_BYTES
from wakelog.log.lines import Reader
from wakelog.log.proof import prove
from wakelog.log.seal import seq_of, unsealed
from wakelog.ports import Append, Sealed, Store
from wakelog.testing.store_rig import Rig, body, first_line, make, stored, take

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


def whole_log(session: str = "s") -> bytes:
    """Return a log of foreign origin: lines with and without seq, damage of every kind, a torn tail."""
    return first_line(session)(7) + b"\n" + b"".join(FOREIGN % number for number in range(3)) + b"".join(GARBAGE)


def seqs(answers: list[Sealed | WakelogError]) -> list[int | type]:
    """Return the seq or the error type of each result."""
    return [answer.seq if isinstance(answer, Sealed) else type(answer) for answer in answers]


class MovingSuite:
    """`append_all` and `adopt`."""

    # ── appends to many sessions ─────────────────────────────────────────────────────────────────

    def test_many_sessions_at_once(self, store: Store) -> None:
        """Law 3, law 12: each session gets its own entry with its own seq, as with separate appends."""
        for name in "abc":
            make(store, name)
        answers = store.append_all([Append(name, body(f"m-{name}"), 0) for name in "cab"])
        assert seqs(answers) == [1, 1, 1]
        for name in "abc":
            lines = list(store.load(name))
            assert unsealed(lines[-1].raw) == body(f"m-{name}")
            assert prove(store.load(name)).broken == ()
        by_line = {answer.line.raw for answer in answers if isinstance(answer, Sealed)}
        assert by_line == {list(store.load(name))[-1].raw for name in "abc"}

    def test_one_session_keeps_its_order(self, store: Store) -> None:
        """Law 3: entries of one session in one call are appended in the order given."""
        make(store, "a")
        make(store, "b")
        appends = [Append("a", body(f"m{number}"), number) for number in range(5)]
        assert seqs(store.append_all([*appends, Append("b", body("n"), 0)])) == [1, 2, 3, 4, 5, 1]
        assert [entry.id for entry in Reader().feed_all(store.load("a"))] == ["a", *(f"m{at}" for at in range(5))]

    def test_an_answer_is_an_entrys_own(self, rig: Rig, store: Store) -> None:
        """LOG-10, law 6: the failure of one append does not affect the others."""
        for name in ("a", "b", "s"):
            make(store, name)
        take(store, "a1", "one", after=0, ttl_s=5)
        rig.advance(6)
        take(rig.again(), "a2", "two", after=1)
        answers = store.append_all(
            [
                Append("a", body("m1"), 0),
                Append("a", body("m2"), 0),
                Append("nobody", body("m3"), 0),
                Append("b", body("m4"), 7),
                Append("s", body("m5"), 2, fence=1),
                Append("b", body("m6"), 0),
                Append("a", body("m1"), 0),
            ]
        )
        assert seqs(answers) == [1, Conflict, NotFound, Conflict, LeaseLost, 1, 1]
        assert [entry.id for entry in Reader().feed_all(store.load("a"))] == ["a", "m1"]
        assert [entry.id for entry in Reader().feed_all(store.load("b"))] == ["b", "m6"]

    def test_nothing_to_append(self, store: Store) -> None:
        """Bad input: no appends give no results."""
        assert store.append_all([]) == []

    # ── adopted logs ─────────────────────────────────────────────────────────────────────────────

    def test_a_log_is_adopted_as_it_is(self, rig: Rig, store: Store) -> None:
        """Law 12, LOG-11: every byte of an adopted log is returned, damage included."""
        raw = whole_log()
        assert store.adopt("s", "crab_user_7", raw) == "crab_user_7"
        for other in (store, rig.again()):
            assert stored(other) == stored(other, "crab_user_7") == raw
            backwards = [(line.offset, line.raw) for line in other.tail("s")]
            assert backwards == [(line.offset, line.raw) for line in other.load("s")][::-1]

    def test_adopting_goes_on(self, store: Store) -> None:
        """Law 4: an adoption interrupted between two lines continues from there, with the same final bytes."""
        for number in range(whole_log().count(b"\n")):
            raw = whole_log(f"s{number}")
            end = len(b"".join(raw.splitlines(keepends=True)[: number + 1]))
            name = store.adopt(f"s{number}", "crab_user_1", raw[:end])
            assert store.adopt(f"s{number}", "other", raw[end:], size=end) == name
            assert stored(store, f"s{number}") == raw

    def test_adopting_knows_its_place(self, store: Store) -> None:
        """LOG-10: bytes are added only at the offset given by `size`; any other offset is refused."""
        raw = first_line("s")(1) + b"\n"
        store.adopt("s", "crab_user_1", raw)
        for size in (0, 1, len(raw) - 1, len(raw) + 1):
            with pytest.raises(Conflict):
                store.adopt("s", "crab_user_1", FOREIGN % 1, size=size)
        with pytest.raises(NotFound):
            store.adopt("nobody", "crab_user_2", FOREIGN % 1, size=5)
        assert stored(store) == raw

    @pytest.mark.parametrize("cut", [0, 1, 40, 75])
    def test_adopting_goes_on_inside_a_line(self, rig: Rig, store: Store, cut: int) -> None:
        """Law 12: an adoption can be split at any byte, even before the first."""
        raw = first_line("s")(7) + b"\n" + FOREIGN % 1 + FOREIGN % 2
        store.adopt("s", "crab_user_7", raw[:cut])
        store.adopt("s", "crab_user_7", raw[cut:-20], size=cut)
        store.adopt("s", "crab_user_7", raw[-20:], size=len(raw) - 20)
        assert stored(store) == stored(rig.again()) == raw
        assert [entry.id for entry in Reader().feed_all(store.load("s"))] == ["s", "f1", "f2"]
        assert store.append("s", body("m3"), after=2).seq == 3

    def test_a_line_over_the_limit_is_adopted(self, store: Store) -> None:
        """LOG-11: a line that is too long to be read is stored, and the lines after it are found."""
        long = b'{"type":"custom","id":"c","data":"' + b"x" * LINE_MAX_BYTES + b'"}\n'
        raw = first_line("s")(7) + b"\n" + long + FOREIGN % 1
        store.adopt("s", "crab_user_7", raw[: LINE_MAX_BYTES // 2])
        store.adopt("s", "crab_user_7", raw[LINE_MAX_BYTES // 2 :], size=LINE_MAX_BYTES // 2)
        assert stored(store) == raw
        assert [entry.id for entry in Reader().feed_all(store.load("s"))] == ["s", "f1"]

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
        assert stored(store) == raw

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
        assert [seq_of(line.raw) for line in store.load("s", after=3)][-2:] == [4, 5]
        assert prove(store.load("s")).broken == ()
        assert stored(store).startswith(raw)

    def test_a_log_out_of_order_goes_on(self, store: Store) -> None:
        """Law 9: a log with foreign seqs, some of them duplicates, can be appended to and read."""
        lines = [b'{"v":1,"seq":%d,"type":"label","id":"x%d","targetId":"s"}\n' % pair for pair in ((5, 1), (2, 2))]
        raw = first_line("s")(7) + b"\n" + GARBAGE[0] + b"".join(lines)
        store.adopt("s", "crab_user_7", raw)
        for after in range(2, 8):
            assert store.append("s", body(f"m{after}"), after=after).seq == after + 1
        assert [entry.seq for entry in Reader().feed_all(store.load("s"))] == [0, 5, 2, 3, 4, 5, 6, 7, 8]
        assert prove(store.load("s")).broken == ()
