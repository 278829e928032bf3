"""Store suite, identity: a session belongs to the exact pair (agent, sender) in its first line."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakelog.errors import BadId, NotFound
from wakelog.forking import fork
from wakelog.identity import latest
from wakelog.log.entry import Origin
from wakelog.log.names import is_name, old_stem, parted
from wakelog.ports import Store
from wakelog.session import Session
from wakelog.testing.store_rig import Rig, journals_of

# Texts that earlier versions mapped to the same name, and texts that people or file systems confuse.
ALIKE = [
    *("tg:12345", "tg-12345", "TG 12345", "tg_12345", "tg--12345", "tg-12345-", "Tg-12345"),
    *("иван", "Иван", "мария", "王小明", "李雷", "محمد", "🎉", "🎊", "", " ", "x", "X"),
    *("e\u0301", "\u00e9", "a\u200db", "a\u200cb", "ab", "\u202eab", "straße", "strasse", "ı", "i", "σ", "ς"),
    *("..", "../x", "a/b", "a\\b", "con", "CON", "nul.", "a ", "a.", "\x00", "a" * 200, "a" * 201, "ж" * 40, "ж" * 41),
]
TEXTS = st.one_of(st.sampled_from(ALIKE), st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
PAIRS = st.tuples(TEXTS, TEXTS)


def begin(store: Store, agent: str, sender: str) -> str:
    """Create a session of a pair, with a prompt that names the pair."""
    session = Session.create(store, agent=agent, sender=sender)
    session.say(f"secret of {agent!r} and {sender!r}")
    return session.name


def adopt_old(store: Store, number: int, agent: str, sender: str, *, stem: str = "") -> str:
    """Add a session with the name and first line of an earlier version."""
    session = f"old-{abs(hash((number, agent, sender)))}"
    line = {"type": "session", "id": session, "version": 1, "agent": agent, "sender": sender, "number": number}
    return store.adopt(session, f"{stem or old_stem(agent, sender)}{number}", msgspec.json.encode(line) + b"\n")


class IdentitySuite:
    """The pair that a session belongs to."""

    def test_pairs_that_look_alike_have_sessions_of_their_own(self, store: Store) -> None:
        """ST-1: two different pairs never share a name or a session, however similar they look."""
        made = {(one, "user"): begin(store, one, "user") for one in ALIKE}
        made |= {("bot", one): begin(store, "bot", one) for one in ALIKE}
        assert len(set(made.values())) == len({name.casefold() for name in made.values()}) == len(made)
        assert {parted(name)[1] for name in made.values()} == {1}
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
                name = begin(store, *pair)
                assert name not in known.values()
                known[pair] = name
            for pair in pairs:
                assert latest(store, *pair) == known[pair]

        check()
        for pair, name in known.items():
            first = Session(store, name).read().session
            assert first is not None
            assert (first.value.agent, first.value.sender) == pair  # type: ignore[union-attr]

    def test_latest_is_the_highest_number(self, store: Store) -> None:
        """ST-1, RUN-17: a new chat increments the number and deletes nothing; 10 follows 9."""
        assert latest(store, "crab", "user") is None
        names = [begin(store, "crab", "user") for _ in range(11)]
        begin(store, "crab", "user2")
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
        old = [adopt_old(store, number, *pairs[number % 3]) for number in range(1, 10)]
        assert [parted(name)[1] for name in old] == list(range(1, 10))
        for at, pair in enumerate(pairs):
            last = max(number for number in range(1, 10) if number % 3 == at)
            assert latest(store, *pair) == old[last - 1]
            assert latest(store, pair[0], pair[1] + "?") is None
        for at, pair in enumerate(pairs):
            name = begin(store, *pair)
            last = max(number for number in range(1, 10) if number % 3 == at)
            assert (parted(name)[1] or 0) > last
            assert latest(store, *pair) == name
            assert parted(begin(store, *pair))[1] == (parted(name)[1] or 0) + 1

    def test_a_name_of_another_pair_is_not_believed(self, store: Store) -> None:
        """ST-1: the first line defines the pair of a session; a renamed or unreadable file does not change it."""
        name = begin(store, "bot", "one")
        adopt_old(store, 7, "bot", "two", stem="bot_one_")
        store.adopt("torn", "bot_one_8", b"no entry\n")
        store.adopt("empty", "bot_one_9", b"\n")
        assert latest(store, "bot", "one") == name
        assert latest(store, "bot", "two") is None
        assert begin(store, "bot", "one") == "bot_one_10"

    def test_only_chats_are_the_latest(self, store: Store) -> None:
        """ST-1: subagents, imports and forks without a message of a person are not the latest chat."""
        chat = Session.create(store, agent="bot", sender="one")
        said = chat.say("hello")
        for kind in ("subagent", "import"):
            origin = Origin(session=chat.id, entry=said.id, kind=kind)
            Session.create(store, agent="bot", sender="one", parent=origin).say("go")
        child = fork(chat)
        assert latest(store, "bot", "one") == chat.name
        child.say("on from here")
        assert latest(store, "bot", "one") == child.name

    def test_latest_reads_no_other_sessions(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """ST-1: only first lines under the names of the pair are read, and none after the one that is found."""
        for number in range(5):
            begin(store, "bot", "one")
            begin(store, "bot", f"other{number}")
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
        assert latest(store, "bot", "nobody") is None
        assert asked == ["bot_one_5"]

    def test_first_lines(self, store: Store) -> None:
        """ST-1: the highest number first, in numeric order; names that only share the prefix are left out."""
        for number in (2, 10, 9, 1):
            adopt_old(store, number, "bot", "one")
        for other in ("bot_one", "bot_one_x", "bot_one_2_3", "bot_one_two_4", "bot_one_٣", f"bot_one_{'9' * 30}"):
            store.adopt(f"id-{len(other)}-{ord(other[-1])}", other, b'{"type":"session","id":"y"}\n')
        found = list(store.first_lines("bot_one_"))
        assert [first.name for first in found] == [f"bot_one_{number}" for number in (10, 9, 2, 1)]
        assert [msgspec.json.decode(first.raw)["number"] for first in found] == [10, 9, 2, 1]
        assert list(store.first_lines("bot_two_")) == []

    def test_many_first_lines(self, store: Store) -> None:
        """ST-1: many first lines are given once each, in order."""
        for number in range(1, 521):
            adopt_old(store, number, "bot", "x" if number % 2 else "X")
        numbers = [parted(first.name)[1] for first in store.first_lines("bot_x_")]
        assert numbers == list(range(520, 0, -1))
        assert latest(store, "bot", "X") == "bot_x_520"

    def test_creators_of_one_pair_at_once(self, rig: Rig, store: Store) -> None:
        """LOG-10, ST-1: concurrent creators of a pair with an old name continue its numbers and never share one."""
        adopt_old(store, 3, "bot", "TG 12345")
        stores = [store, *(rig.again() for _ in range(3))]
        with ThreadPoolExecutor(4) as pool:
            names = list(pool.map(lambda at: begin(stores[at % 4], "bot", "TG 12345"), range(12)))
        assert sorted(parted(name)[1] or 0 for name in names) == list(range(4, 16))
        assert latest(rig.again(), "bot", "TG 12345") == max(names, key=lambda name: parted(name)[1] or 0)

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
            name = begin(store, agent, sender)
            assert name == f"{agent}_{sender}_1"
            again = rig.again()
            assert again.name(name) == name
            assert len(list(again.load(name))) == 2
            assert name in {stat.name for stat in again.sessions()}
            lease = Session(again, name).acquire("worker", ttl_s=5)
            again.journal(name, "r1", b"piece")
            assert journals_of(again, name) == {"r1": (b"piece",)}
            Session(again, name).release(lease)
