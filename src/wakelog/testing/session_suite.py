"""Store suite, sessions: the exact pair (agent, sender) of a session, terminated sessions, owners and modes of files.

Owners cannot be changed without privileges, so the suite changes modes of the files in `rig.files`.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakelog.errors import BadId, Conflict, NotFound, SessionEnded, UnreadableHeader, Untrusted
from wakelog.forking import fork
from wakelog.identity import latest
from wakelog.log.content import Prompt
from wakelog.log.entry import Activity, Message, Origin, Queued, Setting
from wakelog.log.session_names import is_name, old_stem, split_name
from wakelog.ports.stores import Store
from wakelog.runtime.checks import check_files
from wakelog.session import Session
from wakelog.testing.store_rig import Rig, journals_of, log_bytes

# Texts that earlier versions mapped to the same name, and texts that people or file systems confuse.
SIMILAR_NAMES = [
    *("tg:12345", "tg-12345", "TG 12345", "tg_12345", "tg--12345", "tg-12345-", "Tg-12345"),
    *("иван", "Иван", "мария", "王小明", "李雷", "محمد", "🎉", "🎊", "", " ", "x", "X"),
    *("e\u0301", "\u00e9", "a\u200db", "a\u200cb", "ab", "\u202eab", "straße", "strasse", "ı", "i", "σ", "ς"),
    *("..", "../x", "a/b", "a\\b", "con", "CON", "nul.", "a ", "a.", "\x00", "a" * 200, "a" * 201, "ж" * 40, "ж" * 41),
]
TEXTS = st.one_of(st.sampled_from(SIMILAR_NAMES), st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
PAIRS = st.tuples(TEXTS, TEXTS)


def begin_session(store: Store, agent: str, sender: str) -> str:
    """Create a session of a pair, with a prompt that names the pair."""
    session = Session.create(store, agent=agent, sender=sender)
    session.say(f"secret of {agent!r} and {sender!r}")
    return session.name


def adopt_old_session(store: Store, number: int, agent: str, sender: str, *, stem: str = "") -> str:
    """Add a session with the name and first line of an earlier version."""
    session = f"old-{abs(hash((number, agent, sender)))}"
    line = {"type": "session", "id": session, "version": 1, "agent": agent, "sender": sender, "number": number}
    return store.adopt(session, f"{stem or old_stem(agent, sender)}{number}", msgspec.json.encode(line) + b"\n")


class IdentitySuite:
    """The pair that a session belongs to."""

    def test_pairs_that_look_alike_have_sessions_of_their_own(self, store: Store) -> None:
        """ST-1: two different pairs never share a name or a session, however similar they look."""
        made = {(one, "user"): begin_session(store, one, "user") for one in SIMILAR_NAMES}
        made |= {("bot", one): begin_session(store, "bot", one) for one in SIMILAR_NAMES}
        assert len(set(made.values())) == len({name.casefold() for name in made.values()}) == len(made)
        assert {split_name(name)[1] for name in made.values()} == {1}
        assert all(map(is_name, made.values()))
        for (agent, sender), name in made.items():
            assert latest(store, agent, sender) == name

    def test_random_pairs_never_share_a_session(self, store: Store) -> None:
        """ST-1: for random pairs, `latest` gives the last session of exactly that pair."""
        known: dict[tuple[str, str], str] = {}

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(st.lists(PAIRS, min_size=1, max_size=4))
        def check(pairs: list[tuple[str, str]]) -> None:
            for pair in pairs:
                assert latest(store, *pair) == known.get(pair)
                name = begin_session(store, *pair)
                assert name not in known.values()
                known[pair] = name
            for pair in pairs:
                assert latest(store, *pair) == known[pair]

        check()
        for pair, name in known.items():
            first = Session(store, name).read().header
            assert first is not None
            assert (first.value.agent, first.value.sender) == pair  # type: ignore[union-attr]

    def test_latest_is_the_highest_number(self, store: Store) -> None:
        """ST-1, RUN-17: a new chat increments the number and deletes nothing; 10 follows 9."""
        assert latest(store, "crab", "user") is None
        names = [begin_session(store, "crab", "user") for _ in range(11)]
        begin_session(store, "crab", "user2")
        assert latest(store, "crab", "user") == names[-1] == "crab_user_11"
        assert len(list(store.sessions())) == 12

    @pytest.mark.parametrize(
        "pairs",
        [
            [("bot", "tg:12345"), ("bot", "TG 12345"), ("bot", "tg-12345")],
            [("bot", "иван"), ("bot", "мария"), ("bot", "王小明")],
            [("Bot", "user"), ("bot", "user"), ("bot!", "user")],
        ],
    )
    def test_old_stores_keep_working(self, store: Store, pairs: list[tuple[str, str]]) -> None:
        """ST-1: sessions named by an earlier version are found by their exact pair, and numbers continue from them."""
        old = [adopt_old_session(store, number, *pairs[number % 3]) for number in range(1, 10)]
        assert [split_name(name)[1] for name in old] == list(range(1, 10))
        for at, pair in enumerate(pairs):
            last = max(number for number in range(1, 10) if number % 3 == at)
            assert latest(store, *pair) == old[last - 1]
            assert latest(store, pair[0], pair[1] + "?") is None
        for at, pair in enumerate(pairs):
            name = begin_session(store, *pair)
            last = max(number for number in range(1, 10) if number % 3 == at)
            assert (split_name(name)[1] or 0) > last
            assert latest(store, *pair) == name
            assert split_name(begin_session(store, *pair))[1] == (split_name(name)[1] or 0) + 1

    def test_a_name_of_another_pair_is_not_believed(self, store: Store) -> None:
        """ST-1: the first line defines the pair of a session; if it cannot be read, the search stops at its name."""
        name = begin_session(store, "bot", "one")
        adopt_old_session(store, 7, "bot", "two", stem="bot_one_")
        assert latest(store, "bot", "one") == name
        assert latest(store, "bot", "two") is None
        store.adopt("torn", "bot_one_8", b"no entry\n")
        store.adopt("empty", "bot_one_9", b"\n")
        with pytest.raises(UnreadableHeader, match="bot_one_9"):
            latest(store, "bot", "one")
        assert begin_session(store, "bot", "one") == "bot_one_10"

    def test_only_chats_are_the_latest(self, store: Store) -> None:
        """ST-1: subagents, imports and forks without a message of a person are not the latest chat."""
        chat = Session.create(store, agent="bot", sender="one")
        message = chat.say("hello")
        for kind in ("subagent", "import"):
            origin = Origin(session=chat.id, entry=message.id, kind=kind)
            Session.create(store, agent="bot", sender="one", parent=origin).say("go")
        child = fork(chat)
        assert latest(store, "bot", "one") == chat.name
        child.say("on from here")
        assert latest(store, "bot", "one") == child.name

    def test_latest_reads_no_other_sessions(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """ST-1: only first lines under the names of the pair are read, and none after the one that is found."""
        for number in range(5):
            begin_session(store, "bot", "one")
            begin_session(store, "bot", f"other{number}")
        asked: list[str] = []
        first_lines = store.first_lines

        def counted(stem: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
            for first in first_lines(stem):
                asked.append(first.name)
                yield first

        monkeypatch.setattr(store, "first_lines", counted)
        monkeypatch.setattr(store, "load", lambda *_, **__: pytest.fail("a log was read"))
        monkeypatch.setattr(store, "sessions", lambda: pytest.fail("all sessions were listed"))
        assert latest(store, "bot", "one") == "bot_one_5"
        assert asked == ["bot_one_5"]
        assert latest(store, "bot", "missing") is None
        assert asked == ["bot_one_5"]

    def test_first_lines(self, store: Store) -> None:
        """ST-1: the highest number first, in numeric order; names that only share the prefix are left out."""
        for number in (2, 10, 9, 1):
            adopt_old_session(store, number, "bot", "one")
        for other in ("bot_one", "bot_one_x", "bot_one_2_3", "bot_one_two_4", "bot_one_٣", f"bot_one_{'9' * 30}"):
            store.adopt(f"id-{len(other)}-{ord(other[-1])}", other, b'{"type":"session","id":"y"}\n')
        found = list(store.first_lines("bot_one_"))
        assert [first.name for first in found] == [f"bot_one_{number}" for number in (10, 9, 2, 1)]
        assert [msgspec.json.decode(first.raw)["number"] for first in found] == [10, 9, 2, 1]
        assert list(store.first_lines("bot_two_")) == []

    def test_many_first_lines(self, store: Store) -> None:
        """ST-1: many first lines are given once each, in order."""
        for number in range(1, 521):
            adopt_old_session(store, number, "bot", "x" if number % 2 else "X")
        numbers = [split_name(first.name)[1] for first in store.first_lines("bot_x_")]
        assert numbers == list(range(520, 0, -1))
        assert latest(store, "bot", "X") == "bot_x_520"

    def test_creators_of_one_pair_at_once(self, rig: Rig, store: Store) -> None:
        """LOG-10, ST-1: concurrent creators of a pair with an old name continue its numbers and never share one."""
        adopt_old_session(store, 3, "bot", "TG 12345")
        stores = [store, *(rig.again() for _ in range(3))]
        with ThreadPoolExecutor(4) as pool:
            names = list(pool.map(lambda at: begin_session(stores[at % 4], "bot", "TG 12345"), range(12)))
        assert sorted(split_name(name)[1] or 0 for name in names) == list(range(4, 16))
        assert latest(rig.again(), "bot", "TG 12345") == max(names, key=lambda name: split_name(name)[1] or 0)

    def test_openers_of_one_pair_at_once(self, rig: Rig, store: Store) -> None:
        """ST-1: store objects that open a pair without a session at once get one session."""
        stores = [store, *(rig.again() for _ in range(3))]
        with ThreadPoolExecutor(4) as pool:
            for turn in range(5):
                opened = pool.map(lambda one, turn=turn: Session.open(one, agent="bot", sender=f"s{turn}").name, stores)
                assert {*opened} == {f"bot_s{turn}_1"}
        assert len(list(store.sessions())) == 5

    def test_a_first_line_that_raises_creates_nothing(self, rig: Rig, store: Store) -> None:
        """ST-1: the caller may refuse the number that a session would get; its error is raised."""
        begin_session(store, "bot", "one")
        asked: list[int] = []

        def refuse(number: int) -> bytes:
            asked.append(number)
            raise Conflict("not this number")

        with pytest.raises(Conflict, match="not this number"):
            store.create("refused", "bot", "one", refuse)
        assert asked == [2]
        with pytest.raises(NotFound):
            rig.again().name("refused")
        assert begin_session(store, "bot", "one") == "bot_one_2"
        assert len(list(store.sessions())) == 2

    @pytest.mark.parametrize(
        "name",
        ["бот/../x_1", "бот\u202e_1", "Бот_1", "е\u0308_1", "бот\u200b", "ж" * 200, "\u0301x", "бот 1", "бот\n", "..ж"],
    )
    def test_names_outside_the_grammar(self, store: Store, name: str) -> None:
        """Law 13: a name that could be a path, a control sequence or a spoof is refused in lookups and in `adopt`."""
        with pytest.raises((BadId, NotFound)):
            store.name(name)
        with pytest.raises(BadId):
            store.adopt("s", name, b'{"type":"session","id":"s"}\n')

    def test_names_of_any_script(self, rig: Rig, store: Store) -> None:
        """ST-2: a session is found by its id and by its name, in any script, and is listed."""
        for agent, sender in (("бот", "мария"), ("助手", "王小明"), ("bot", "محمد"), ("bot", "हिन्दी")):
            name = begin_session(store, agent, sender)
            assert name == f"{agent}_{sender}_1"
            again = rig.again()
            assert again.name(name) == name
            assert len(list(again.load(name))) == 2
            assert name in {stat.name for stat in again.sessions()}
            lease = Session(again, name).acquire("worker", ttl_s=5)
            again.journal(name, "r1", b"piece")
            assert journals_of(again, name) == {"r1": (b"piece",)}
            Session(again, name).release(lease)


class EndingSuite:
    """Terminated sessions."""

    def test_an_ended_session_accepts_names_only(self, store: Store) -> None:
        """RUN-21: after `terminated` only a worker leaving, damage, labels, titles and the archive are accepted."""
        session = Session.create(store)
        message = session.say("hello")
        session.append(Message(message=Prompt(content="once", channel="x"), id="once"))
        assert session.end("done with it").entry.type == "terminated"
        before = log_bytes(store, session.id)
        for body in (Message(message=Prompt(content="more")), Queued(mode="cancel"), Setting(key="a"), Activity()):
            with pytest.raises(SessionEnded):
                session.append(body)
        for refused in (session.end, lambda: session.compact("so far"), lambda: session.move_head(message.id)):
            with pytest.raises(SessionEnded):
                refused()
        with pytest.raises(SessionEnded):
            session.acquire("one", ttl_s=5)
        assert log_bytes(store, session.id) == before
        session.label(message.id, "the question")
        session.rename("Over")
        session.archive()
        # Repeating an append that had succeeded returns its entry.
        assert session.append(Message(message=Prompt(content="once", channel="x"), id="once")).id == "once"
        assert fork(session).say("on from here").type == "message"

    def test_a_writer_that_has_not_seen_the_end(self, rig: Rig, store: Store) -> None:
        """RUN-21: termination is checked under the append lock: an entry composed before it is refused after it."""
        session = Session.create(store)
        session.say("hello")
        other = Session(rig.again(), session.id)
        assert len(other.tree.nodes) == 2
        session.end()
        before = log_bytes(store, session.id)
        with pytest.raises(SessionEnded):
            other.say("too late")
        with pytest.raises(SessionEnded):
            other.acquire("two", ttl_s=5)
        assert log_bytes(store, session.id) == before

    def test_a_session_that_is_run_is_not_ended(self, rig: Rig, store: Store) -> None:
        """RUN-21: while a worker holds the session, ending it is refused; with `force` too, if the worker stays."""
        session = Session.create(store)
        session.say("hello")
        worker = Session(rig.again(), session.id)
        lease = worker.acquire("one", ttl_s=50)
        for force in (False, True):
            with pytest.raises(Conflict, match="run by one"):
                session.end(force=force, wait_s=0)
        worker.release(lease)
        ended = session.end()
        assert (ended.cancelled, ended.dropped.descriptions) == (None, ())


@contextlib.contextmanager
def changed_mode(path: str, bits: int) -> Iterator[None]:
    """Add bits to the mode of a file or folder while the context is active."""
    before = stat.S_IMODE(os.stat(path).st_mode)
    os.chmod(path, before | bits)
    try:
        yield
    finally:
        os.chmod(path, before)


def _session_with_files(store: Store) -> tuple[Session, str]:
    """Return a session with everything that a store keeps beside a log, and the digest of its blob."""
    session = Session.create(store)
    session.say("hello")
    digest = store.blobs.put(b"content").digest
    session.release(session.acquire("one", ttl_s=5))
    store.journal(session.name, "r1", b"{}")
    return session, digest


class CustodySuite:
    """Owners and modes of the files of a store."""

    def test_what_a_store_makes_is_private(self, store: Store) -> None:
        """Law 13: files created by the store are private, also under a umask of 0."""
        before = os.umask(0)
        try:
            session, digest = _session_with_files(store)
        finally:
            os.umask(before)
        assert store.custody() == ()
        assert store.custody(session.name, blobs=[digest]) == ()
        assert store.custody(session.id) == ()

    def test_custody_of_no_session(self, store: Store) -> None:
        """An empty store reports nothing; an unknown session is `NotFound`."""
        assert store.custody() == ()
        with pytest.raises(NotFound):
            store.custody("nothing")

    def test_every_file_that_others_may_write_is_reported(self, rig: Rig, store: Store) -> None:
        """Law 13: g+w and o+w are reported for each file and folder, and the session is not run."""
        session, digest = _session_with_files(store)
        before = log_bytes(store, session.id)
        for path in rig.files(session.name):
            for bits in (stat.S_IWGRP, stat.S_IWOTH):
                with changed_mode(path, bits):
                    assert [found.path for found in store.custody(session.name, blobs=[digest])] == [path]
                    with pytest.raises(Untrusted) as refused:
                        check_files(session)
                    assert path in refused.value.message
                    assert "trusted_owners" in refused.value.hint
        check_files(session)
        assert log_bytes(store, session.id) == before
