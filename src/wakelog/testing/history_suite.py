"""Store suite, random histories: with hostile bytes and damage too, a store gives the same results as the reference.

The reference is `MemoryStore`. Both stores get the same operations; the result of each is compared, and in the end the
results of every way of reading.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakelog.errors import WakelogError
from wakelog.log.lines import Reader
from wakelog.log.proof import prove
from wakelog.ports import Append, Store
from wakelog.stores.memory import MemoryStore
from wakelog.testing.store_rig import Rig, body, make, stored

HOSTILE = (
    '"\\u0000"',
    '"\\ud800 lone \\udfff"',
    "123456789012345678901234567890",
    "-0.0",
    "1e999",
    "NaN",
    '"\u2028\u2029\x85"',
    '{"id":"inner","type":"message"}',
    "[" * 300 + "]" * 300,
    '"' + "x" * 5_000 + '"',
)
# An entry with a placeholder for its id, which is in some entries twice.
_entry = st.builds(
    lambda value, again: b'{"type":"custom","id":"ID","customType":"t","data":%b%b}' % (value.encode(), again),
    st.sampled_from(HOSTILE),
    st.sampled_from((b"", b',"id":"ID"')),
)
_planted = st.one_of(
    st.binary(max_size=40).map(lambda raw: raw.replace(b"\r", b"") + b"\n"),
    st.binary(min_size=1, max_size=20).map(lambda raw: raw.replace(b"\r", b"").replace(b"\n", b"") or b"x"),
    st.sampled_from(
        (
            b'{"type":"message","id":"f1","message":{"role":"user","content":"hi"}}\n',
            b'{"type":"message","id":"f2","message":{"role":"user","content":"no end"}}',
            b'{"v":1,"seq":SEQ,"type":"message","id":"f3","message":{"role":"user","content":"cut',
            b'{"a":1}{"type":"label","id":"f4","targetId":"x","label":"glued"}\n',
        )
    ),
)
_acts = st.lists(
    st.one_of(
        st.tuples(st.just("append"), _entry, st.integers(-2, 1)),
        st.tuples(st.just("plant"), _planted, st.just(0)),
        st.tuples(st.just("again"), st.just(b""), st.just(0)),
    ),
    max_size=8,
)


class _Pair:
    """A session in two stores: the one under test, and the reference."""

    def __init__(self, rig: Rig, session: str) -> None:
        self.session = session
        self.reference = MemoryStore()
        self._rig = rig
        self._last: Append | None = None
        self._count = 0
        # A separate sender, so that both stores assign the same number.
        make(rig.store, session, sender=session)
        make(self.reference, session, sender=session)

    def act(self, what: str, raw: bytes, shift: int) -> None:
        """Apply one operation to both stores and compare the results."""
        reader = Reader()
        reader.feed_all(self.reference.load(self.session))
        if what == "plant":
            # A torn append has the next seq.
            raw = raw.replace(b"SEQ", b"%d" % reader.next_seq)
            self._rig.plant(self.session, raw)
            self.reference.plant(self.session, raw)
            return
        if what == "append":
            behind = len(reader.torn.raw) if reader.torn else 0
            self._count += 1
            entry = raw.replace(b"ID", b"m%d" % self._count)
            self._last = Append(self.session, entry, reader.next_seq - 1 + shift, behind)
        if self._last is not None:
            self._compare(self._last)

    def _compare(self, append: Append) -> None:
        got, expected = (_answer(store, append) for store in (self._rig.store, self.reference))
        assert got == expected, append


def _answer(store: Store, append: Append) -> Any:
    (answer,) = store.append_all([append])
    return type(answer) if isinstance(answer, WakelogError) else (answer.seq, answer.line.raw, answer.line.offset)


class HistorySuite:
    """Histories of a log: all stores give the same results."""

    def test_any_history(self, rig: Rig) -> None:
        """Law 12, LOG-11: results, bytes, offsets, damage and proof equal those of the reference."""
        count = 0

        @settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
        @given(_acts)
        def live(acts: list[tuple[str, bytes, int]]) -> None:
            nonlocal count
            count += 1
            pair = _Pair(rig, f"h{count}")
            for act in acts:
                pair.act(*act)
            for read in (*_READINGS, *(_behind(after) for after in range(-1, 6))):
                assert read(rig.store, pair.session) == read(pair.reference, pair.session)

        live()

    def test_a_damaged_row_costs_only_itself(self, rig: Rig, store: Store) -> None:
        """Law 9: bytes changed in storage are returned as they are now and reported as damage; the rest is served."""
        make(store)
        for number in range(3):
            store.append("s", body(f"m{number}", f"text {number}"), after=number)
        before = stored(store)
        rig.hurt("s", b'"text 1"', b'"text\x001"')
        other = rig.again()
        assert stored(other) == before.replace(b'"text 1"', b'"text\x001"')
        reader = Reader()
        assert [entry.id for entry in reader.feed_all(other.load("s"))] == ["s", "m0", "m2"]
        assert [hurt.kind for hurt in reader.damage] == ["unreadable"]
        assert len(prove(other.load("s")).broken) > 0
        assert other.append("s", body("m3"), after=3).seq == 4


def _damage(store: Store, session: str) -> Any:
    reader = Reader()
    entries = [(entry.id, entry.seq, entry.raw) for entry in reader.feed_all(store.load(session))]
    return entries, reader.damage, reader.torn, reader.next_seq


def _behind(after: int) -> Callable[[Store, str], Any]:
    return lambda store, session: [(line.raw, line.offset) for line in store.load(session, after=after)]


_READINGS: tuple[Callable[[Store, str], Any], ...] = (
    stored,
    _damage,
    lambda store, session: [(line.raw, line.offset, line.number, line.ended) for line in store.load(session)],
    lambda store, session: [(line.raw, line.offset, line.ended) for line in store.tail(session)],
    lambda store, session: prove(store.load(session)),
)
