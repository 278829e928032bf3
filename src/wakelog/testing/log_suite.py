"""Store suite, logs: reading and writing lines, concurrent writers, sessions, damage, random histories.

`HistorySuite` applies the same random operations to the store under test and to the in-memory reference; the result
of each is compared, and in the end the results of every way of reading.
"""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakelog.errors import BadId, Conflict, NotFound, WakelogError
from wakelog.log.integrity import verify_seals
from wakelog.log.lines import EntryReader
from wakelog.log.seal import find_seq, unseal
from wakelog.ports.stores import Store
from wakelog.stores.memory import MemoryStore
from wakelog.testing.store_rig import Rig, append_at_end, body, first_line, log_bytes, make


class LogSuite:
    """Lines and sessions of a store."""

    # ── lines in, lines out ──────────────────────────────────────────────────────────────────────

    def test_what_was_written_never_changes(self, store: Store) -> None:
        """Law 1, LOG-1: appending changes no earlier byte."""
        make(store)
        before = log_bytes(store)
        for number in range(5):
            store.append("s", body(f"m{number}"), after=number)
            now = log_bytes(store)
            assert now.startswith(before)
            assert len(now) > len(before)
            before = now

    def test_the_store_orders(self, store: Store) -> None:
        """Law 3, LOG-3: the store assigns seq, from 0, without gaps."""
        make(store)
        given = [store.append("s", body(f"m{number}"), after=number).seq for number in range(4)]
        assert given == [1, 2, 3, 4]
        assert [find_seq(line.raw) for line in store.load("s")] == [0, 1, 2, 3, 4]

    def test_acknowledged_is_seen_by_everybody(self, rig: Rig, store: Store) -> None:
        """Law 4: an entry acknowledged by one store object is immediately readable by another."""
        make(store)
        sealed = store.append("s", body("m1"), after=0)
        assert list(rig.again().load("s"))[-1].raw == sealed.line.raw

    def test_an_entry_is_sealed_and_not_encoded_again(self, store: Store) -> None:
        """Law 10, LOG-8: the body's bytes are kept inside the seal, with unknown keys, order and spacing."""
        make(store)
        odd = b'{"type":"from_the_future","id":"m1","parentId":"s", "z" : 1.0,"a":1e3,"a":[ ]}'
        sealed = store.append("s", odd, after=0)
        assert unseal(sealed.line.raw) == odd
        assert unseal(list(store.load("s"))[-1].raw) == odd

    def test_the_chain_holds(self, store: Store) -> None:
        """Every sealed line proves the lines before it."""
        make(store)
        for number in range(3):
            store.append("s", body(f"m{number}"), after=number)
        proof = verify_seals(store.load("s"))
        assert (proof.broken, proof.unsealed) == ((), 0)
        assert len(proof.head) == 64

    def test_hostile_bodies_come_back(self, rig: Rig) -> None:
        """Law 12, LOG-11: any text in an entry is returned with the same bytes."""
        store = rig.store
        make(store)
        count = 0

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
        def roundtrip(text: str) -> None:
            nonlocal count
            count += 1
            entry = body(f"m{count}", text)
            sealed = store.append("s", entry, after=count - 1)
            assert [line.raw for line in store.load("s", after=count - 1)] == [sealed.line.raw]
            assert unseal(sealed.line.raw) == entry

        roundtrip()
        assert [find_seq(line.raw) for line in store.load("s")] == list(range(count + 1))

    def test_load_after(self, store: Store) -> None:
        """`after` leaves out exactly the lines up to that seq."""
        make(store)
        for number in range(4):
            store.append("s", body(f"m{number}"), after=number)
        for after in range(-1, 5):
            assert [find_seq(line.raw) for line in store.load("s", after=after)] == list(range(after + 1, 5))

    def test_tail_is_load_backwards(self, store: Store) -> None:
        """`tail` gives the lines of `load` in reverse order, at the same offsets."""
        make(store)
        for number in range(50):
            store.append("s", body(f"m{number}", "x" * number * 40), after=number)
        forwards = [(line.offset, line.raw) for line in store.load("s")]
        assert [(line.offset, line.raw) for line in store.tail("s")] == forwards[::-1]

    # ── concurrent writers ───────────────────────────────────────────────────────────────────────

    def test_a_stale_place_is_a_conflict(self, store: Store) -> None:
        """LOG-10: of two writers that saw the same end one succeeds, and the other's entry is not stored."""
        make(store)
        store.append("s", body("m1"), after=0)
        before = log_bytes(store)
        for after in (-1, 0, 2, 7):
            with pytest.raises(Conflict):
                store.append("s", body("m2"), after=after)
        assert log_bytes(store) == before

    def test_an_entry_is_appended_once(self, rig: Rig, store: Store) -> None:
        """Law 4: an append of unknown outcome is retried with the same id and stored once, through any store object."""
        make(store)
        first = store.append("s", body("m1"), after=0)
        store.append("s", body("m2"), after=1)
        before = log_bytes(store)
        for other in (store, rig.again()):
            assert other.append("s", body("m1"), after=0).seq == first.seq
        assert log_bytes(store) == before

    def test_an_id_stands_for_one_content(self, store: Store) -> None:
        """LOG-10: the same id with other bytes is a conflict, not a second entry."""
        make(store)
        store.append("s", body("m1", "one"), after=0)
        with pytest.raises(Conflict, match="other content"):
            store.append("s", body("m1", "two"), after=0)

    def test_writers_at_once(self, rig: Rig, store: Store) -> None:
        """LOG-10, law 3: with four writers every acknowledged entry is stored once, without gaps or broken seals."""
        make(store)
        stores = [store, *(rig.again() for _ in range(3))]

        def write(worker: int) -> list[int]:
            return [append_at_end(stores[worker], body(f"w{worker}-{number}")) for number in range(25)]

        with ThreadPoolExecutor(4) as pool:
            given = sorted(seq for seqs in pool.map(write, range(4)) for seq in seqs)
        assert given == list(range(1, 101))
        ids = [entry.id for entry in EntryReader().feed_all(store.load("s"))]
        assert len(ids) == len(set(ids)) == 101
        assert verify_seals(store.load("s")).broken == ()

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def test_create_twice_is_create_once(self, store: Store) -> None:
        """ST-7: creating a session that exists does not change it."""
        name = make(store)
        store.append("s", body("m1"), after=0)
        before = log_bytes(store)
        assert make(store) == name
        assert log_bytes(store) == before

    def test_numbers_per_agent_and_sender(self, store: Store) -> None:
        """ST-1, ST-2: names contain agent and sender, with a number per pair; unsafe characters are replaced."""
        assert make(store, "a", "crab", "user") == "crab_user_1"
        assert make(store, "b", "crab", "user") == "crab_user_2"
        made = [make(store, "c", "crab", "TG:12345/../x"), make(store, "d", "Crab Two", "user")]
        assert [re.sub(r"~\w{8}", "~", name) for name in made] == ["crab_tg-12345-x~_1", "crab-two~_user_1"]
        assert {stat.name for stat in store.sessions()} == {"crab_user_1", "crab_user_2", *made}

    def test_creators_at_once(self, rig: Rig, store: Store) -> None:
        """LOG-10: concurrent creators never share a number, and no session is lost."""
        stores = [store, *(rig.again() for _ in range(3))]

        def create(number: int) -> str:
            return make(stores[number % 4], f"s{number}")

        with ThreadPoolExecutor(4) as pool:
            names = list(pool.map(create, range(20)))
        assert len(set(names)) == 20
        assert {store.name(f"s{number}") for number in range(20)} == set(names)

    def test_a_session_is_created_with_its_first_entries(self, rig: Rig, store: Store) -> None:
        """ST-7: the entries are sealed and numbered behind the header, and the log can be appended to."""
        name = store.create("s", "crab", "user", first_line("s"), [body("m1"), body("m2")])
        assert [find_seq(line.raw) for line in rig.again().load(name)] == [0, 1, 2]
        assert store.append("s", body("m3"), after=2).seq == 3
        assert verify_seals(store.load(name)).broken == ()

    def test_a_session_that_exists_gets_no_first_entries(self, store: Store) -> None:
        """ST-7: it is left unchanged; a creator sees by its end that its entries are not there."""
        name = make(store)
        before = log_bytes(store, name)
        assert store.create("s", "crab", "user", first_line("s"), [body("m1")]) == name
        assert log_bytes(store, name) == before

    def test_by_id_and_by_name(self, store: Store) -> None:
        """ST-2: a session is found by its id and by its name."""
        name = make(store)
        assert store.name("s") == store.name(name) == name
        assert log_bytes(store, name) == log_bytes(store, "s")

    def test_unknown_sessions(self, store: Store) -> None:
        """Bad input: an unknown session is `NotFound`, and looking it up creates nothing."""
        make(store)
        for ask in (
            store.name,
            store.held,
            store.journals,
            lambda s: list(store.load(s)),
            lambda s: list(store.tail(s)),
        ):
            with pytest.raises(NotFound):
                ask("missing")
        with pytest.raises(NotFound):
            store.append("missing", body("m1"), after=0)
        assert len(list(store.sessions())) == 1

    @pytest.mark.parametrize("name", ["", "../x", "/etc/passwd", "a/b", "a\x00b", "x" * 300, "..", "-x", "a\nb"])
    def test_ids_outside_the_grammar(self, store: Store, name: str) -> None:
        """Law 13: ids that could be paths are refused."""
        with pytest.raises((BadId, NotFound)):
            store.name(name)
        with pytest.raises(BadId):
            make(store, name)

    def test_names_as_long_as_they_may_be(self, store: Store) -> None:
        """ST-2: every name that a store assigns or accepts is listed."""
        for session in ("x" * 128, "a..b", "Z.z_-9"):
            store.adopt(session, f"n{len(session)}", first_line(session)(1) + b"\n")
            assert store.name(session) == f"n{len(session)}"
        store.adopt("long", "y" * 128, first_line("long")(1) + b"\n")
        assert {stat.name for stat in store.sessions()} == {"n128", "n4", "n6", "y" * 128}
        with pytest.raises(NotFound):
            store.name("c..d")

    def test_listing_sees_change(self, store: Store) -> None:
        """ST-5: a listing shows that a session changed without reading its log."""
        make(store)
        (before,) = store.sessions()
        store.append("s", body("m1"), after=0)
        (after,) = store.sessions()
        assert (before.size, before.changed) != (after.size, after.changed)

    # ── damage ───────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize(
        "planted", [b"garbage\n", b"\x00\x00\x00\n", b"\xff\xfe\n", b'{"type":"x"}\n', b"\n", b'{"a":1}{"b":2}\n']
    )
    def test_damage_is_given_back_as_it_is(self, rig: Rig, store: Store, planted: bytes) -> None:
        """Law 9, law 12: unreadable bytes are served like any others, and nothing after them is lost."""
        make(store)
        store.append("s", body("m1"), after=0)
        rig.plant("s", planted)
        store.append("s", body("m2"), after=1)
        assert planted in log_bytes(store)
        assert [entry.id for entry in EntryReader().feed_all(store.load("s"))] == ["s", "m1", "m2"]
        assert verify_seals(store.load("s")).broken == ()

    def test_a_torn_tail_is_not_glued_to(self, rig: Rig, store: Store) -> None:
        """LOG-9: the next line begins after the fragment, and only if the writer passes its length."""
        make(store)
        rig.plant("s", b'{"v":1,"seq":1,"type":"mess')
        with pytest.raises(Conflict):
            store.append("s", body("m1"), after=0)
        sealed = store.append("s", body("m1"), after=0, behind=27)
        assert sealed.seq == 1
        assert [line.raw for line in store.load("s")][1:] == [b'{"v":1,"seq":1,"type":"mess', sealed.line.raw]
        assert verify_seals(store.load("s")).broken == ()

    def test_a_torn_tail_that_grows(self, rig: Rig, store: Store) -> None:
        """LOG-9: bytes added to a torn tail belong to it; a writer that passes a wrong length gets a conflict."""
        make(store)
        for size in range(1, 4):
            rig.plant("s", b"\x00")
            with pytest.raises(Conflict):
                store.append("s", body("m1"), after=0, behind=size + 1)
        assert store.append("s", body("m1"), after=0, behind=3).seq == 1
        assert verify_seals(store.load("s")).broken == ()

    def test_a_last_line_without_its_end_is_an_entry(self, rig: Rig, store: Store) -> None:
        """LOG-9: a last line that decodes is an entry, with or without LF; the next entry begins a new line."""
        make(store)
        rig.plant("s", b'{"type":"message","id":"m1","message":{"role":"user","content":"hi"}}')
        assert store.append("s", body("m2"), after=1).seq == 2
        assert [entry.id for entry in EntryReader().feed_all(store.load("s"))] == ["s", "m1", "m2"]

    def test_lines_without_seq_have_their_place(self, rig: Rig, store: Store) -> None:
        """LOG-3: the seq of foreign lines is their position, and the store continues counting from there."""
        make(store)
        for number in range(3):
            rig.plant("s", b'{"type":"message","id":"f%d","message":{"role":"user","content":"hi"}}\n' % number)
        assert store.append("s", body("m4"), after=3).seq == 4
        assert [entry.seq for entry in EntryReader().feed_all(store.load("s"))] == [0, 1, 2, 3, 4]
        assert next(iter(store.load("s", after=2))).raw.startswith(b'{"type"')


HOSTILE_VALUES = (
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
    st.sampled_from(HOSTILE_VALUES),
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
_operations = st.lists(
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
        # The entry, the seq that it follows, and the size of the torn tail before it.
        self._last: tuple[bytes, int, int] | None = None
        self._count = 0
        # A separate sender, so that both stores assign the same number.
        make(rig.store, session, sender=session)
        make(self.reference, session, sender=session)

    def act(self, what: str, raw: bytes, shift: int) -> None:
        """Apply one operation to both stores and compare the results."""
        reader = EntryReader()
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
            self._last = entry, reader.next_seq - 1 + shift, behind
        if self._last is not None:
            got, expected = (_answer(store, self.session, *self._last) for store in (self._rig.store, self.reference))
            assert got == expected, self._last


def _answer(store: Store, session: str, entry: bytes, after: int, behind: int) -> Any:
    try:
        answer = store.append(session, entry, after=after, behind=behind)
    except WakelogError as error:
        return type(error)
    return answer.seq, answer.line.raw, answer.line.offset


class HistorySuite:
    """Histories of a log: all stores give the same results."""

    def test_any_history(self, rig: Rig) -> None:
        """Law 12, LOG-11: results, bytes, offsets, damage and proof equal those of the reference."""
        count = 0

        @settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
        @given(_operations)
        def live(acts: list[tuple[str, bytes, int]]) -> None:
            nonlocal count
            count += 1
            pair = _Pair(rig, f"h{count}")
            for act in acts:
                pair.act(*act)
            for read in (*_READINGS, *(_lines_after(after) for after in range(-1, 6))):
                assert read(rig.store, pair.session) == read(pair.reference, pair.session)

        live()

    def test_a_damaged_row_costs_only_itself(self, rig: Rig, store: Store) -> None:
        """Law 9: bytes changed in storage are returned as they are now and reported as damage; the rest is served."""
        make(store)
        for number in range(3):
            store.append("s", body(f"m{number}", f"text {number}"), after=number)
        before = log_bytes(store)
        rig.corrupt("s", b'"text 1"', b'"text\x001"')
        other = rig.again()
        assert log_bytes(other) == before.replace(b'"text 1"', b'"text\x001"')
        reader = EntryReader()
        assert [entry.id for entry in reader.feed_all(other.load("s"))] == ["s", "m0", "m2"]
        assert [hurt.kind for hurt in reader.damage] == ["unreadable"]
        assert len(verify_seals(other.load("s")).broken) > 0
        assert other.append("s", body("m3"), after=3).seq == 4


def _damage(store: Store, session: str) -> Any:
    reader = EntryReader()
    entries = [(entry.id, entry.seq, entry.raw) for entry in reader.feed_all(store.load(session))]
    return entries, reader.damage, reader.torn, reader.next_seq


def _lines_after(after: int) -> Callable[[Store, str], Any]:
    return lambda store, session: [(line.raw, line.offset) for line in store.load(session, after=after)]


_READINGS: tuple[Callable[[Store, str], Any], ...] = (
    log_bytes,
    _damage,
    lambda store, session: [(line.raw, line.offset, line.number, line.ended) for line in store.load(session)],
    lambda store, session: [(line.raw, line.offset, line.ended) for line in store.tail(session)],
    lambda store, session: verify_seals(store.load(session)),
)
