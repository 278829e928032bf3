"""Conformance suite for catalogs. Subclass `CatalogSuite` in a test class with one fixture, `rig` (see `catalog_rig`).

    class TestMyCatalog(CatalogSuite):
        @pytest.fixture
        def rig(self): ...

Each test names the law or requirement it covers. The derived data is compared with a newly built index after each
refresh. `listing_suite` holds the tests of rows and refreshing; here are those of full-text search: matches, order,
pages, excerpts and hostile text.
"""

import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakelog.errors import BadQuery, UsageError
from wakelog.log.entry import Custom
from wakelog.ports.catalogs import Catalog, SearchHit
from wakelog.stores.catalog.full_text import EXCERPT_MAX_CHARS
from wakelog.testing.builders import FixedClock
from wakelog.testing.catalog_rig import CatalogFixture, CatalogRig, hit_without_rank, session_names
from wakelog.testing.listing_suite import ListingSuite

_PAGES_MAX = 1_000
WORD_QUERIES = {
    "parser": [1, 2],
    "parser fix": [1],
    "PARSER  the\tFix": [1],
    '"the parser"': [1, 2],
    '"parser the"': [],
    "fix*": [1, 2],
    '"parser is fi"*': [2],
    "parser -fixed": [1],
    'the -"fix the"': [2],
    "-fixed parser -nothing": [1],
    "see!": [3],
    "NOT": [4],
    "text:rank": [4],
    "rank:text": [],
    "3.14": [5],
    "3 14": [5],
    "14.3": [],
    "src/main.py": [5],
    "<b>bold</b>": [5],
    "me@example.com": [5],
    "snake_case": [5],
    "naïve*": [6],
    "resume": [6],
    "RÉSUMÉ": [6],
    "日本": [],
    "日本*": [6],
    "-parser type:message since:2026-01-01 -src -resume": [3, 4],
}
BAD_QUERIES = {
    "": "no word",
    "*": "no word",
    "-parser": "only has excluded words",
    "-agent:crab": "only has excluded words",
    '"the parser': "unclosed quote",
    'agent:"crab': "unclosed quote",
    "type:": "needs a value",
    'cwd:""': "needs a value",
    "since:yesterdayish": "yesterdayish",
    "since:2026-02-31": "2026-02-31",
    "x" * 100_000: "longer than",
    "a " * 65: "more than 64",
    "agent:a " * 65: "more than 64",
}
HOSTILE_QUERIES = (
    "x\0y",
    "\0",
    "\udcff \ud800",
    "(" * 2_000,
    ")" * 2_000 + "x",
    "(" * 1_990 + "x",
    "a & b | !c <-> d <2> e :* f:AB*",
    "'quoted' ''twice'' \\' \\\\ \\",
    "x':* & 'y",
    "NEAR(prompt reply, 5)",
    "text:prompt",
    "{text}: prompt",
    "prompt AND NOT reply",
    "^prompt + reply",
    "name:crab",
    "%s %(x)s ? ?1 :name $1 {}",
    "'; DROP TABLE sessions; --",
    "\u202eprompt\u202c",
    "İ ß ﬁ Ǆ \u0345 \U0001f469\u200d\U0001f4bb",
    "-",
    "--",
    "-*",
    '"" ""*',
    '-"" prompt',
    'agent:"',
    "agent:\0",
    "agent:\udcff",
    "cwd:%",
    "since:0d",
    "since:999999w",
    "tool:\n",
    "type:message'--",
)


def hit_pages(catalog: Catalog, query: str, limit: int) -> list[SearchHit]:
    """Return all hits, read page by page."""
    hits: list[SearchHit] = []
    for _ in range(_PAGES_MAX):
        page = catalog.search(query, limit=limit, after=hits[-1].cursor if hits else None)
        assert len(page) <= limit
        if not page:
            return hits
        hits += page
    raise AssertionError("the pages have no end")


class SearchingSuite:
    """Full-text search."""

    # ── matches ──────────────────────────────────────────────────────────────────────────────────

    def test_what_can_be_found(self, shelf: CatalogFixture) -> None:
        """ST-5: prompts, replies, tool names and inputs, results, summaries, titles, custom content; not thinking."""
        story = shelf.begin()
        said = story.user("fix the naïve parser\nplease")
        reply = story.reply("certainly", calls=[("t", "grep", {"deep": [{"pattern": "needle"}, 4711]})])
        result = story.result(reply, "t", "haystack\0search")
        summary = story.session.compact("we spoke of parsers")
        custom = story.session.append(Custom(custom_type="x", content="extension words"))
        title = story.session.rename("Parser week")
        shelf.catalog.refresh()
        found = {
            "naive": said,
            "PLEASE": said,
            "certainly": reply,
            "grep": reply,
            "needle": reply,
            "4711": reply,
            "haystack": result,
            "search": result,
            "spoke": summary,
            "extension": custom,
            "week": title,
        }
        for word, entry in found.items():
            (hit,) = shelf.catalog.search(word)
            assert (hit.session, hit.name, hit.entry, hit.type) == (
                story.session.id,
                "crab_user_1",
                entry.id,
                entry.type,
            )
            assert (hit.timestamp, hit.seq) == (entry.value.timestamp, entry.seq)
        assert shelf.catalog.search("naive")[0].excerpt == "fix the «naïve» parser please"
        assert shelf.catalog.search("search")[0].excerpt == "haystack «search»"
        assert list(shelf.catalog.search("parser", limit=0)) == list(shelf.catalog.search("parser", limit=-1)) == []

    def test_words_are_the_same_in_every_store(self, shelf: CatalogFixture) -> None:
        """ST-5, law 12: words in any order, phrases, prefixes, exclusions; tokens do not depend on the database."""
        story = shelf.begin()
        texts = (
            "fix the parser",
            "the parser is fixed",
            "nothing to see",
            "NEAR OR AND NOT text rank",
            "3.14 src/main.py <b>bold</b> me@example.com snake_case",
            "naïveté Résumé 日本語",
        )
        entries = [story.user(text).id for text in texts]
        shelf.catalog.refresh()
        for query, found in WORD_QUERIES.items():
            assert sorted(entries.index(hit.entry) + 1 for hit in shelf.catalog.search(query)) == found, query

    def test_fields(self, shelf: CatalogFixture) -> None:
        """ST-5: agent, sender, folder, tool, type and time restrict or exclude; without words, newest first."""
        crab = shelf.talk(1, agent="crab", cwd="/a/b").session
        dove = shelf.talk(1, agent="A dove", sender="TG:1", cwd="/a/bc").session
        deep = shelf.talk(1, agent="crab", cwd="/a/b/c d").session
        deep.rename("a title")
        shelf.catalog.refresh()
        found = {
            "agent:crab": {crab.name, deep.name},
            'agent:"A dove"': {dove.name},
            "agent:Crab": set(),
            "agent:cr": set(),
            '-agent:"A dove" prompt': {crab.name, deep.name},
            "sender:TG:1": {dove.name},
            "cwd:/a/b": {crab.name, deep.name},
            "cwd:/a/b/": {crab.name, deep.name},
            'cwd:"/a/b/c d"': {deep.name},
            "cwd:/": {crab.name, dove.name, deep.name},
            "cwd:/a/b -cwd:/a/b/c agent:crab": {crab.name, deep.name},
            "prompt -cwd:/a/b": {dove.name},
            "type:session_renamed": {deep.name},
            "agent:crab agent:dove": set(),
            "tool:bash -type:message": set(),
            "tool:ba": set(),
        }
        for query, expected in found.items():
            assert set(session_names(shelf.catalog.search(query))) == expected, query
        calls = shelf.catalog.search("tool:bash")
        assert {hit.excerpt.split()[0] for hit in calls} == {"reply"}
        stamps = [hit.timestamp for hit in shelf.catalog.search("type:message")]
        assert stamps == sorted(stamps, reverse=True)
        assert len(stamps) == 12

    def test_since(self, shelf: CatalogFixture) -> None:
        """ST-5: `since:` accepts a day, a time or a duration, and includes the limit."""
        first, second = shelf.begin(), shelf.begin()
        first.session.clock = FixedClock(start_ms=time.time_ns() // 1_000_000 - 3_600_000)
        old, new = second.user("words of old"), first.user("words of an hour ago")
        shelf.catalog.refresh()
        found = {
            "words": {old.id, new.id},
            "words since:2h": {new.id},
            "words since:30m": set(),
            "-since:2h words": {old.id},
            "since:2026-01-01": {old.id, new.id},
            "since:2025-12-31 -since:2026-01-02": {old.id},
            f"since:{old.value.timestamp}": {old.id, new.id},
            f"-since:{old.value.timestamp} type:message": set(),
            "since:9999-12-31": set(),
        }
        for query, expected in found.items():
            assert {hit.entry for hit in shelf.catalog.search(query)} == expected, query

    def test_a_query_that_cannot_be_understood_says_why(self, shelf: CatalogFixture) -> None:
        """A `BadQuery` has a one-line message about what is wrong, and a hint."""
        for query, reason in BAD_QUERIES.items():
            with pytest.raises(BadQuery, match=reason) as caught:
                shelf.catalog.search(query)
            assert "\n" not in caught.value.message
            assert caught.value.hint

    # ── order and pages ──────────────────────────────────────────────────────────────────────────

    def test_equally_good_hits_stand_in_an_order_of_their_own(self, shelf: CatalogFixture) -> None:
        """Hits of equal rank are ordered newest first, then by name, independent of the order of indexing."""
        stories = [shelf.begin() for _ in range(12)]
        stories = stories[5:] + stories[:5]
        for story in stories:
            story.user("the same words")
            shelf.catalog.refresh()
        expected = [story.session.name for story in reversed(stories)]
        for query in ("same", "type:message"):
            for limit in (1, 2, 5, 11, 12, 13):
                assert session_names(shelf.catalog.search(query, limit=limit)) == expected[:limit]
                assert session_names(hit_pages(shelf.catalog, query, limit)) == expected
        other = CatalogFixture(shelf.rig)
        other.catalog.refresh()
        assert shelf.catalog.search("same") == other.catalog.search("same")

    def test_the_better_comes_first(self, shelf: CatalogFixture) -> None:
        """ST-5: an entry that consists of the word ranks before one that mentions it once."""
        story = shelf.begin()
        best = story.user("parser parser parser")
        story.user("a long story of many things, in which a parser is mentioned once and then forgotten again")
        story.user("nothing of the kind")
        shelf.catalog.refresh()
        assert shelf.catalog.search("parser")[0].entry == best.id

    def test_pages_of_hits_are_the_list(self, shelf: CatalogFixture) -> None:
        """ST-5: pages joined are the list, for any page size and query; each of several equal hits is given once."""
        for number in range(6):
            story = shelf.talk(3, agent="crab" if number % 2 else "dove")
            shelf.rig.plant(story.session.id, list(shelf.store.load(story.session.name))[-1].bytes * 3)
        shelf.catalog.refresh()

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            st.sampled_from(
                ["reply", "prompt naive", "agent:crab", "rest -agent:crab", "pro*", "tool:bash", "-rest type:message"]
            ),
            st.integers(1, 50),
        )
        def paged(query: str, limit: int) -> None:
            hits = list(shelf.catalog.search(query, limit=10_000))
            assert len(hits) > 3
            assert hit_pages(shelf.catalog, query, limit) == hits
            assert list(shelf.catalog.search(query, limit=limit)) == hits[:limit]

        paged()
        cursor = shelf.catalog.search("reply")[0].cursor
        with pytest.raises(UsageError, match="another query"):
            shelf.catalog.search("prompt", after=cursor)

    # ── excerpts ─────────────────────────────────────────────────────────────────────────────────

    def test_excerpts(self, shelf: CatalogFixture) -> None:
        """ST-5: an excerpt is one line around the marked match, and its length is limited for any text."""
        story = shelf.begin()
        story.user("before " * 1_000 + "the\n\nneedle in\tit " + "behind " * 1_000)
        story.user("endless" * 100_000 + " needle-two " + "-" * 50_000 + " end")
        shelf.catalog.refresh()
        (one,) = shelf.catalog.search("needle -two")
        assert "the «needle» in it" in one.excerpt
        (two,) = shelf.catalog.search('"needle two"')
        assert "«needle-two»" in two.excerpt
        (long,) = shelf.catalog.search("endless*")
        assert long.excerpt.startswith("«endless")
        newest = shelf.catalog.search("type:message")
        assert [hit.excerpt[:6] for hit in newest] == ["endles", "before"]
        for hit in (one, two, long, *newest):
            assert len(hit.excerpt) <= EXCERPT_MAX_CHARS
            assert hit.excerpt.count("«") == hit.excerpt.count("»")
            assert not set(hit.excerpt) & set("\n\t")

    # ── hostile text ─────────────────────────────────────────────────────────────────────────────

    def test_hostile_queries_are_harmless(self, shelf: CatalogFixture) -> None:
        """Law 13: a query gives hits or `BadQuery`, never a database error, never unrelated entries."""
        shelf.talk(1)
        shelf.catalog.refresh()
        fresh = shelf.fresh()
        for query in HOSTILE_QUERIES:
            assert self._found(shelf.catalog, query) == self._found(fresh, query), query
        assert shelf.catalog.count() == 1
        fresh.close()

    def _found(self, catalog: Catalog, query: str) -> list[tuple[str, ...]] | None:
        try:
            return sorted(map(hit_without_rank, catalog.search(query, limit=10_000)))
        except BadQuery:
            return None

    def test_any_query_is_harmless(self, shelf: CatalogFixture) -> None:
        """Law 13: any input gives the same hits as a new index, or `BadQuery` from both."""
        shelf.talk(2)
        shelf.begin(agent="secret").user("NOT AND or 'quoted' a:b (x)")
        shelf.catalog.refresh()
        signs = st.text(alphabet="\"'*-:()^+{}&|!<>\\%$ abxNOT\0\udcff", max_size=30)

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.text(max_size=60) | signs | st.tuples(st.sampled_from(["agent", "cwd", "type"]), signs).map(":".join))
        def asked(query: str) -> None:
            assert self._found(shelf.catalog, query) == self._found(fresh, query)

        fresh = shelf.fresh()
        asked()
        fresh.close()

    def test_only_text_is_searched(self, shelf: CatalogFixture) -> None:
        """Law 13: names of agents, tables and types are not part of the searchable text."""
        shelf.begin(agent="secret", sender="hidden").user("words")
        shelf.catalog.refresh()
        for word in ("secret", "hidden", "message", "repo", "sessions", "crab_user_1", "2026"):
            assert list(shelf.catalog.search(word)) == []

    def test_any_text_can_be_found(self, shelf: CatalogFixture) -> None:
        """Law 12, law 13: any text in a log is found by the same words in every store."""
        story, fresh = shelf.begin(), shelf.fresh()

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1, max_size=4))
        def told(texts: list[str]) -> None:
            for text in texts:
                story.user(text)
            shelf.catalog.refresh()
            fresh.refresh()
            for query in (*texts, *(f'"{text}"*' for text in texts), texts[0][:3] + "*"):
                assert self._found(shelf.catalog, query) == self._found(fresh, query)

        told()
        shelf.assert_matches_fresh_index()
        fresh.close()

    def test_long_texts_are_taken_in(self, shelf: CatalogFixture) -> None:
        """ST-5: a text, word or repetition of any length does not prevent a log from being listed and found."""
        story = shelf.begin()
        texts = {
            "of many words": "".join(f"w{number} " for number in range(200_000)) + "farend one",
            "of the same word": "same " * 300_000 + "farend two",
            "of one endless word": "x" * 3_000_000 + " farend three",
            "of a long word": "y" * 1_500 + " " + "z" * 1_990 + " farend four",
            "of many endless words": ("q" * 4_000 + " ") * 300 + "farend five",
        }
        entries = {what: story.user(text).id for what, text in texts.items()}
        shelf.catalog.refresh()
        assert {hit.entry for hit in shelf.catalog.search("farend")} == set(entries.values())
        found = {
            '"farend one"': "of many words",
            '"w199999 farend"': "of many words",
            "w199998": "of many words",
            "w19999*": "of many words",
            "w3 -same w199997 farend": "of many words",
            '"same same farend"': "of the same word",
            "y" * 1_500: "of a long word",
            f"{'z' * 1_900}* farend": "of a long word",
            "z" * 1_990: "of a long word",
            "xxxxxx*": "of one endless word",
            f"{'q' * 1_999}*": "of many endless words",
            '"farend five"': "of many endless words",
            "qqqqqq*": "of many endless words",
            "farend -two -three -four -five": "of many words",
        }
        for query, what in found.items():
            assert [hit.entry for hit in shelf.catalog.search(query)] == [entries[what]], what
        assert shelf.refreshed() == 0


class CatalogSuite(ListingSuite, SearchingSuite):
    """Subclass it and provide a `rig` fixture."""

    @pytest.fixture
    def shelf(self, rig: CatalogRig) -> Iterator[CatalogFixture]:
        """A store with its catalog."""
        made = CatalogFixture(rig)
        yield made
        made.catalog.close()
        rig.store.close()
