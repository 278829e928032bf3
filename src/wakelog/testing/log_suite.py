"""Store suite: reading and writing lines, concurrent writers, sessions, damage."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakelog.errors import BadId, Conflict, NotFound
from wakelog.log.lines import Reader
from wakelog.log.proof import prove
from wakelog.log.seal import seq_of, unsealed
from wakelog.ports import Store
from wakelog.testing.store_rig import Rig, append_at_end, body, first_line, make, stored


class LogSuite:
    """Lines and sessions of a store."""

    # ── lines in, lines out ──────────────────────────────────────────────────────────────────────

    def test_what_was_written_never_changes(self, store: Store) -> None:
        """Law 1, LOG-1: appending changes no earlier byte."""
        make(store)
        before = stored(store)
        for number in range(5):
            store.append("s", body(f"m{number}"), after=number)
            now = stored(store)
            assert now.startswith(before)
            assert len(now) > len(before)
            before = now

    def test_the_store_orders(self, store: Store) -> None:
        """Law 3, LOG-3: the store assigns seq, from 0, without gaps."""
        make(store)
        given = [store.append("s", body(f"m{number}"), after=number).seq for number in range(4)]
        assert given == [1, 2, 3, 4]
        assert [seq_of(line.raw) for line in store.load("s")] == [0, 1, 2, 3, 4]

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
        assert unsealed(sealed.line.raw) == odd
        assert unsealed(list(store.load("s"))[-1].raw) == odd

    def test_the_chain_holds(self, store: Store) -> None:
        """Every sealed line proves the lines before it."""
        make(store)
        for number in range(3):
            store.append("s", body(f"m{number}"), after=number)
        proof = prove(store.load("s"))
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
            assert unsealed(sealed.line.raw) == entry

        roundtrip()
        assert [seq_of(line.raw) for line in store.load("s")] == list(range(count + 1))

    def test_load_after(self, store: Store) -> None:
        """`after` leaves out exactly the lines up to that seq."""
        make(store)
        for number in range(4):
            store.append("s", body(f"m{number}"), after=number)
        for after in range(-1, 5):
            assert [seq_of(line.raw) for line in store.load("s", after=after)] == list(range(after + 1, 5))

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
        before = stored(store)
        for after in (-1, 0, 2, 7):
            with pytest.raises(Conflict):
                store.append("s", body("m2"), after=after)
        assert stored(store) == before

    def test_an_entry_is_appended_once(self, rig: Rig, store: Store) -> None:
        """Law 4: an append of unknown outcome is retried with the same id and stored once, through any store object."""
        make(store)
        first = store.append("s", body("m1"), after=0)
        store.append("s", body("m2"), after=1)
        before = stored(store)
        for other in (store, rig.again()):
            assert other.append("s", body("m1"), after=0).seq == first.seq
        assert stored(store) == before

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
        ids = [entry.id for entry in Reader().feed_all(store.load("s"))]
        assert len(ids) == len(set(ids)) == 101
        assert prove(store.load("s")).broken == ()

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def test_create_twice_is_create_once(self, store: Store) -> None:
        """ST-7: creating a session that exists does not change it."""
        name = make(store)
        store.append("s", body("m1"), after=0)
        before = stored(store)
        assert make(store) == name
        assert stored(store) == before

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

    def test_by_id_and_by_name(self, store: Store) -> None:
        """ST-2: a session is found by its id and by its name."""
        name = make(store)
        assert store.name("s") == store.name(name) == name
        assert stored(store, name) == stored(store, "s")

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
                ask("nobody")
        with pytest.raises(NotFound):
            store.append("nobody", body("m1"), after=0)
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
        assert planted in stored(store)
        assert [entry.id for entry in Reader().feed_all(store.load("s"))] == ["s", "m1", "m2"]
        assert prove(store.load("s")).broken == ()

    def test_a_torn_tail_is_not_glued_to(self, rig: Rig, store: Store) -> None:
        """LOG-9: the next line begins after the fragment, and only if the writer passes its length."""
        make(store)
        rig.plant("s", b'{"v":1,"seq":1,"type":"mess')
        with pytest.raises(Conflict):
            store.append("s", body("m1"), after=0)
        sealed = store.append("s", body("m1"), after=0, behind=27)
        assert sealed.seq == 1
        assert [line.raw for line in store.load("s")][1:] == [b'{"v":1,"seq":1,"type":"mess', sealed.line.raw]
        assert prove(store.load("s")).broken == ()

    def test_a_torn_tail_that_grows(self, rig: Rig, store: Store) -> None:
        """LOG-9: bytes added to a torn tail belong to it; a writer that passes a wrong length gets a conflict."""
        make(store)
        for size in range(1, 4):
            rig.plant("s", b"\x00")
            with pytest.raises(Conflict):
                store.append("s", body("m1"), after=0, behind=size + 1)
        assert store.append("s", body("m1"), after=0, behind=3).seq == 1
        assert prove(store.load("s")).broken == ()

    def test_a_last_line_without_its_end_is_an_entry(self, rig: Rig, store: Store) -> None:
        """LOG-9: a last line that decodes is an entry, with or without LF; the next entry begins a new line."""
        make(store)
        rig.plant("s", b'{"type":"message","id":"m1","message":{"role":"user","content":"hi"}}')
        assert store.append("s", body("m2"), after=1).seq == 2
        assert [entry.id for entry in Reader().feed_all(store.load("s"))] == ["s", "m1", "m2"]

    def test_lines_without_seq_have_their_place(self, rig: Rig, store: Store) -> None:
        """LOG-3: the seq of foreign lines is their position, and the store continues counting from there."""
        make(store)
        for number in range(3):
            rig.plant("s", b'{"type":"message","id":"f%d","message":{"role":"user","content":"hi"}}\n' % number)
        assert store.append("s", body("m4"), after=3).seq == 4
        assert [entry.seq for entry in Reader().feed_all(store.load("s"))] == [0, 1, 2, 3, 4]
        assert next(iter(store.load("s", after=2))).raw.startswith(b'{"type"')
