"""Catalog suite: rows, their order and pages, and refreshing a catalog."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakelog.errors import UsageError
from wakelog.forking import fork
from wakelog.log.entry import Activity, ModelCall, ModelChange
from wakelog.ports.catalogs import Catalog, SessionRow
from wakelog.session import Session
from wakelog.testing.builders import SessionBuilder
from wakelog.testing.catalog_rig import CatalogFixture, CatalogRig, all_results, change_randomly

_PAGES_MAX = 1_000


def row_pages(catalog: Catalog, limit: int, **filters: str | bool | None) -> list[SessionRow]:
    """Return all rows, read page by page."""
    rows: list[SessionRow] = []
    for _ in range(_PAGES_MAX):
        page = catalog.rows(limit=limit, after=rows[-1].cursor if rows else None, **filters)  # type: ignore[arg-type]
        assert len(page) <= limit
        if not page:
            return rows
        rows += page
    raise AssertionError("the pages have no end")


_READ_ERRORS: tuple[tuple[Exception, str], ...] = (
    (MemoryError(), "there is not enough memory"),
    (RecursionError("too deep"), "RecursionError: too deep"),
    (ValueError("odd"), "ValueError: odd"),
)


class _FailingOpen:
    """Raises an error when a log is opened, a given number of times."""

    def __init__(self, name: str, error: Exception, *, times: int) -> None:
        self.times = times
        self._name = name
        self._error = error

    def __call__(self, session: str) -> None:
        if session == self._name and self.times:
            self.times -= 1
            raise self._error


class ListingSuite:
    """Lists of sessions."""

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def test_nothing_is_there(self, shelf: CatalogFixture) -> None:
        """Law 9: a store without sessions has an empty catalog, and queries create nothing."""
        assert shelf.refreshed() == 0
        assert list(shelf.catalog.rows(archived=None)) == list(shelf.catalog.find("x")) == []
        assert list(shelf.catalog.search("x")) == list(shelf.catalog.search("agent:x")) == []
        assert shelf.catalog.count(archived=None) == 0
        assert not shelf.catalog.is_damaged("x")

    def test_rows_are_listed_newest_first_and_filtered(self, shelf: CatalogFixture) -> None:
        """ST-4: title and archive state come from appended entries, the latest wins; lists filter and count."""
        first = shelf.talk(1, agent="crab").session
        second = shelf.talk(2, agent="lobster").session
        third = shelf.talk(3, agent="crab", sender="TG:1").session
        first.rename("Old")
        first.rename("New")
        second.archive()
        third.archive()
        third.archive(archived=False)
        catalog = shelf.catalog
        catalog.refresh()
        assert [row.name for row in catalog.rows()] == [third.name, first.name]
        assert [row.title for row in catalog.rows()] == [None, "New"]
        assert [row.name for row in catalog.rows(archived=True)] == [second.name]
        assert [row.name for row in catalog.rows(archived=None, limit=2)] == [third.name, second.name]
        assert catalog.count(archived=None, agent="crab", cwd="/repo") == 2
        assert [row.name for row in catalog.rows(sender="TG:1")] == [third.name]
        assert list(catalog.rows(agent="cr\udcffab")) == list(catalog.rows(sender="no\0body")) == []
        shelf.assert_matches_fresh_index()

    def test_states_and_uptime_are_listed(self, shelf: CatalogFixture) -> None:
        """RUN-15, RUN-21, ST-3: rows distinguish terminated and dormant sessions, and give the uptime of workers."""
        ended, parent = shelf.talk(1).session, shelf.talk(1).session
        prompt = parent.branch().nodes[1].id
        asleep, spoken = fork(parent, prompt), fork(parent, prompt)
        shelf.catalog.refresh()
        spoken.say("and now?")
        ended.end("enough")
        moved = shelf.talk(1).session
        moved.move_head(moved.branch().nodes[1].id)
        worked = shelf.talk(1).session
        worked.append(Activity(holder="killed", timestamp="2026-01-02T10:00:00.000Z"))
        worked.append(ModelCall(reply_id="r", timestamp="2026-01-02T10:00:30.000Z"))
        shelf.catalog.refresh()
        worked.append(Activity(holder="later", timestamp="2026-01-03T10:00:00.000Z"))
        worked.append(Activity(holder="later", event="left", timestamp="2026-01-03T10:00:10.000Z"))
        shelf.assert_matches_fresh_index()
        rows = {row.name: row for row in shelf.catalog.rows()}
        named = {"terminated": ended, "dormant": asleep, "pending": spoken}
        assert {word: rows[session.name].state for word, session in named.items()} == {word: word for word in named}
        assert rows[moved.name].state == "dormant"
        assert rows[worked.name].uptime == 40
        shelf.catalog.refresh()
        moved.move_head(moved.tree.leaves()[-1])
        shelf.assert_matches_fresh_index()
        assert next(row.state for row in shelf.catalog.rows() if row.name == moved.name) == "idle"

    def test_rows_are_filtered_by_state_and_emptiness(self, shelf: CatalogFixture) -> None:
        """ST-4: lists of one state, and lists without the sessions in which nothing was said; they count the same."""
        said, silent, ended = shelf.talk(1).session, shelf.begin().session, shelf.talk(1).session
        ended.end("enough")
        titled = shelf.begin().session
        titled.rename("for later")
        catalog = shelf.catalog
        catalog.refresh()
        cases: dict[tuple[str | None, bool | None], set[str]] = {
            (None, True): {silent.name},
            (None, False): {said.name, ended.name, titled.name},
            ("idle", None): {said.name, silent.name, titled.name},
            ("terminated", False): {ended.name},
            ("waiting", None): set(),
        }
        for (state, empty), expected in cases.items():
            assert {row.name for row in catalog.rows(state=state, empty=empty)} == expected
            assert catalog.count(state=state, empty=empty) == len(expected)
        silent.say("hello")
        catalog.refresh()
        assert catalog.count(empty=True) == 0
        shelf.assert_matches_fresh_index()

    def test_find_prefers_the_exact(self, shelf: CatalogFixture) -> None:
        """An exact name or id is the only result, also if it is a prefix of others."""
        sessions = [shelf.begin().session for _ in range(11)]
        shelf.catalog.refresh()
        find = shelf.catalog.find
        assert [row.id for row in find("crab_user_1")] == [sessions[0].id]
        assert [row.name for row in find(sessions[4].id)] == ["crab_user_5"]
        assert {row.name for row in find("crab_user")} == {session.name for session in sessions}
        for nothing in ("nothing", "%", "_", "' OR 1=1 --", "\0", "\udcff", "crab_user_1\0"):
            assert list(find(nothing)) == []

    def test_damage_shows(self, shelf: CatalogFixture) -> None:
        """Law 9: damage is in the row and can be queried by name; the rest is served."""
        hurt, whole = shelf.talk(2).session, shelf.talk(1).session
        shelf.catalog.refresh()
        shelf.rig.plant(hurt.id, b"\x00\xff garbage\n")
        shelf.catalog.refresh()
        assert {row.name: (row.damage, row.state) for row in shelf.catalog.rows()} == {
            hurt.name: (1, "damaged"),
            whole.name: (0, "idle"),
        }
        assert shelf.catalog.is_damaged(hurt.name)
        assert not shelf.catalog.is_damaged(whole.name)
        assert hurt.name in {hit.name for hit in shelf.catalog.search("prompt")}
        shelf.assert_matches_fresh_index()

    @pytest.mark.parametrize("known", [False, True])
    def test_a_log_that_cannot_be_summarised_costs_its_own_row(self, shelf: CatalogFixture, known: bool) -> None:  # noqa: FBT001
        """An error while reading one log affects only its row, which shows what is known; the others are listed."""
        others = [shelf.talk(1).session.name for _ in range(3)]
        for error, reason in _READ_ERRORS:
            story = shelf.talk(2)
            if known:
                shelf.catalog.refresh()
            story.user("and then")
            failing = _FailingOpen(story.session.name, error, times=2 if known else 1)
            shelf.counting.meanwhile = failing
            shelf.catalog.refresh()
            rows = {row.name: row for row in shelf.catalog.rows()}
            assert set(rows) == {*others, story.session.name}
            row = rows[story.session.name]
            assert (row.state, row.agent, row.damage) == ("unknown", "crab", 0)
            assert row.id == story.session.id
            assert {rows[name].state for name in others} == {"idle"}
            assert shelf.catalog.unsummarised() == {story.session.name: reason}
            assert {hit.name for hit in shelf.catalog.search("prompt", limit=500)} == set(others)
            assert failing.times == 0
            shelf.counting.meanwhile = lambda _: None
            shelf.assert_matches_fresh_index()
            assert shelf.catalog.unsummarised() == {}
            others.append(story.session.name)
            story.reply("done")
            shelf.catalog.refresh()

    # ── pages ────────────────────────────────────────────────────────────────────────────────────

    def test_pages_of_rows_are_the_list(self, shelf: CatalogFixture) -> None:
        """ST-5: pages joined are the list, for any page size and filter."""
        for number in range(12):
            shelf.begin(agent="crab" if number % 3 else "dove").session.archive(archived=number % 4 == 0)
        self._at_once(shelf, 5)
        catalog = shelf.catalog
        catalog.refresh()
        filters: list[dict[str, str | bool | None]] = [{}, {"archived": None}, {"agent": "crab"}, {"sender": "missing"}]
        for wanted in filters:
            rows = list(catalog.rows(**wanted))  # type: ignore[arg-type]
            for limit in (1, 2, 5, len(rows), 100):
                assert row_pages(catalog, max(1, limit), **wanted) == rows
            for at, row in enumerate(rows):
                assert catalog.count(after=row.cursor, **wanted) == len(rows) - at - 1  # type: ignore[arg-type]

    def _at_once(self, shelf: CatalogFixture, count: int) -> None:
        """Create sessions whose last entries have the same timestamp, or none."""
        for number in range(count):
            session = shelf.begin(agent=f"same-{number % 2}").session
            stamp = b'"timestamp":"2026-01-01T10:00:05.000Z",' if number else b""
            line = b'{"type":"message","id":"m","parentId":"%s",%s"message":{"role":"user","content":"x"}}\n'
            shelf.rig.plant(session.id, line % (session.id.encode(), stamp))

    def test_a_row_that_moves_is_not_waited_for(self, shelf: CatalogFixture) -> None:
        """ST-5: a cursor is a position in the order, not a row: a change in between does not restart the list."""
        sessions = [shelf.begin().session for _ in range(6)]
        shelf.catalog.refresh()
        first = shelf.catalog.rows(limit=3)
        sessions[3].say("here I am again")
        shelf.catalog.refresh()
        rest = shelf.catalog.rows(after=first[-1].cursor)
        assert [row.name for row in rest] == [session.name for session in reversed(sessions[:3])]

    def test_what_is_no_cursor(self, shelf: CatalogFixture) -> None:
        """A string that is not a valid cursor is a usage error, whatever it contains."""
        shelf.talk(1)
        shelf.catalog.refresh()
        hit, row = shelf.catalog.search("prompt")[0].cursor, shelf.catalog.rows()[0].cursor
        for wrong in (hit, "", "x", "W10", row[:-4], row + "*", "é", "\0", "\udcff", "A" * 5_000, "' OR 1=1"):
            with pytest.raises(UsageError, match="cursor"):
                shelf.catalog.rows(after=wrong)
            with pytest.raises(UsageError, match="cursor"):
                shelf.catalog.count(after=wrong)
            with pytest.raises(UsageError, match="cursor"):
                shelf.catalog.search("reply", after=wrong)

        @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.text(max_size=40) | st.binary(max_size=30).map(bytes.hex))
        def asked(cursor: str) -> None:
            with pytest.raises(UsageError):
                shelf.catalog.rows(after=cursor)
            with pytest.raises(UsageError):
                shelf.catalog.search("reply", after=cursor)

        asked()

    # ── refresh ──────────────────────────────────────────────────────────────────────────────────

    def test_nothing_is_read_twice(self, shelf: CatalogFixture) -> None:
        """ST-5: a second refresh reads no line; after one append it reads only the new end of the log."""
        story = shelf.talk(50)
        assert shelf.refreshed() == 201
        assert shelf.refreshed() == 0
        story.user("one more")
        assert shelf.refreshed() <= 3
        story.reply("and an answer", calls=[("t", "bash", {})] * 3)
        assert shelf.refreshed() <= 4
        shelf.talk(1)
        assert shelf.refreshed() == 5
        assert shelf.refreshed() == 0
        shelf.assert_matches_fresh_index()

    def test_it_can_be_asked_while_it_is_read(self, shelf: CatalogFixture) -> None:
        """During a refresh, queries return the known sessions first, then those changed last, then the rest."""
        known = shelf.talk(1).session.name
        shelf.catalog.refresh()
        added = [shelf.talk(1).session.name for _ in range(40)]
        seen: dict[int, list[str]] = {}

        def progress(done: int, total: int) -> None:
            assert total == 40
            seen[done] = [row.name for row in shelf.catalog.rows()]

        shelf.catalog.refresh(progress=progress)
        assert list(seen) == list(range(41))
        assert seen[0] == [known]
        assert 1 < len(seen[20]) < 41
        assert set(seen[20]) <= {known, *added[20:]}
        assert [row.name for row in shelf.catalog.rows()] == [*reversed(added), known]
        shelf.assert_matches_fresh_index()

    def test_a_limit_leaves_large_logs_for_later(self, shelf: CatalogFixture) -> None:
        """ST-5: a refresh with a limit indexes what fits into it; large logs and forks of them are left out."""
        large = shelf.talk(200).session
        small = [shelf.talk(1).session.name, fork(large).name, shelf.talk(1).session.name]
        sizes = {stat.name: stat.size for stat in shelf.rig.store.sessions()}
        shelf.catalog.refresh(limit_bytes=sizes[large.name] - 1)
        assert {row.name for row in shelf.catalog.rows()} == {small[0], small[2]}
        left = {row.name: row for row in shelf.catalog.left_out()}
        assert set(left) == {large.name, small[1]}
        shelf.catalog.refresh()
        assert shelf.catalog.left_out() == []
        for row in (row for row in shelf.catalog.rows() if row.name in left):
            bare = left[row.name]
            assert (bare.id, bare.agent, bare.updated, bare.cursor) == (row.id, row.agent, row.updated, row.cursor)
            assert bare.state == "unknown"
        assert {row.name for row in shelf.catalog.rows()} == {large.name, *small}
        large.say("and then")
        shelf.catalog.refresh(limit_bytes=sizes[large.name] - 1)
        shelf.assert_matches_fresh_index()

    def test_another_catalog_goes_on_from_there(self, rig: CatalogRig, shelf: CatalogFixture) -> None:
        """ST-5: logs read by one process are not read again by the next, where the catalog is persistent."""
        shelf.talk(20)
        shelf.catalog.refresh()
        other = CatalogFixture(rig)
        assert other.refreshed() in (0, 81)
        assert all_results(other.catalog) == all_results(shelf.catalog)

    def test_a_fork_is_a_row_of_its_own(self, shelf: CatalogFixture) -> None:
        """Law 2: the row of a fork names its origin; later entries of the parent do not change it."""
        parent = shelf.talk(3).session
        child = fork(parent)
        child.say("forked off")
        shelf.catalog.refresh()
        parent.say("more")
        assert shelf.refreshed() <= 3
        rows = {row.name: row for row in shelf.catalog.rows()}
        assert (rows[child.name].origin, rows[parent.name].origin) == (parent.id, None)
        assert [hit.name for hit in shelf.catalog.search("forked")] == [child.name]
        shelf.assert_matches_fresh_index()

    def test_a_fork_without_a_word_is_known_by_what_it_inherits(self, shelf: CatalogFixture) -> None:
        """Law 2, ST-4: the row of a fork shows the inherited first prompt until the fork has a prompt of its own."""
        parent = shelf.talk(2).session
        child = fork(parent)
        grandchild = fork(child)
        parent.rename("A title of the parent's own")
        inherited = "prompt 0: fix the naïve Parser in src/main.py"
        shelf.assert_matches_fresh_index()
        assert {row.name: row.prompt for row in shelf.catalog.rows()} == dict.fromkeys(
            (parent.name, child.name, grandchild.name), inherited
        )
        for model in ("other", "another"):
            child.append(ModelChange(model=model))
            shelf.assert_matches_fresh_index()
            assert self._prompt_of(shelf, child) == inherited
        child.say("its own words")
        assert shelf.refreshed() <= 3
        assert self._prompt_of(shelf, child) == "its own words"
        assert self._prompt_of(shelf, grandchild) == inherited
        shelf.assert_matches_fresh_index()

    def _prompt_of(self, shelf: CatalogFixture, session: Session) -> str:
        return next(row.prompt for row in shelf.catalog.rows() if row.name == session.name)

    def test_a_fork_whose_parent_comes_later(self, shelf: CatalogFixture) -> None:
        """Law 2: the row of a fork shows inherited data once its parent arrives, also after an interrupt."""
        parent = SessionBuilder().session
        parent.say("prompt of a parent")
        child = fork(parent)
        name = shelf.adopt_log(child)
        shelf.catalog.refresh()
        assert [(row.damage, row.prompt) for row in shelf.catalog.rows()] == [(1, "")]
        shelf.adopt_log(parent)

        def interrupt(session: str) -> None:
            if session == name:
                raise KeyboardInterrupt

        shelf.counting.meanwhile = interrupt
        with pytest.raises(KeyboardInterrupt):
            shelf.catalog.refresh()
        shelf.counting.meanwhile = lambda _: None
        shelf.assert_matches_fresh_index()
        assert [(row.damage, row.prompt) for row in shelf.catalog.rows()] == [(0, "prompt of a parent")] * 2

    def test_a_refresh_does_not_block_readers(self, rig: CatalogRig, shelf: CatalogFixture) -> None:
        """Law 4: while logs are indexed, other writers can append, and their entries are found later."""
        stories, other = [shelf.talk(2) for _ in range(3)], rig.again()
        appended = []

        def append(session: str) -> None:
            if session not in appended:
                appended.append(session)
                Session(other, session, clock=shelf.clock).say("said meanwhile")

        shelf.counting.meanwhile = append
        shelf.catalog.refresh()
        shelf.counting.meanwhile = lambda _: None
        assert sorted(appended) == sorted(story.session.name for story in stories)
        shelf.assert_matches_fresh_index()
        assert len(shelf.catalog.search("meanwhile")) == 3
        other.close()

    @pytest.mark.parametrize("seed", range(4))
    def test_any_history_gives_what_building_anew_gives(self, shelf: CatalogFixture, seed: int) -> None:
        """Law 2: after random appends, forks, renames, archives and damage, results equal those of a rebuild."""
        chance = random.Random(seed)  # noqa: S311 - nothing here is a secret
        stories: list[SessionBuilder] = [shelf.talk(2) for _ in range(3)]
        for _ in range(20):
            change_randomly(shelf, chance, stories)
            if chance.random() < 0.3:
                shelf.assert_matches_fresh_index()
        shelf.assert_matches_fresh_index()

    def test_many_bring_it_up_to_date_at_once(self, rig: CatalogRig, shelf: CatalogFixture) -> None:
        """Law 2: concurrent refreshes and appends give the same result as a rebuild."""
        stories = [shelf.talk(3) for _ in range(12)]
        go = threading.Barrier(5)

        def refresh(_: int) -> None:
            other = CatalogFixture(rig)
            other.store = rig.again()
            other.catalog = rig.catalog(other.store)
            go.wait(30)
            for _ in range(3):
                other.catalog.refresh()
            other.catalog.close()
            other.store.close()

        def append() -> None:
            go.wait(30)
            for story in stories:
                story.user("said meanwhile")

        with ThreadPoolExecutor(5) as pool:
            done = [pool.submit(refresh, number) for number in range(4)] + [pool.submit(append)]
            for one in done:
                one.result()
        assert len(shelf.catalog.search("meanwhile")) <= 12
        shelf.assert_matches_fresh_index()
        assert len(shelf.catalog.search("meanwhile")) == 12
