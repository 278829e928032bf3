"""Law 13: the search syntax: typed text becomes a value, and an expression that FTS5 cannot misread."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.errors import BadQuery
from wakelog.stores.catalog.full_text import match_expression
from wakelog.stores.catalog.query import (
    QUERY_MAX_CHARS,
    TERMS_MAX,
    Field,
    Query,
    Term,
    encode_names,
    parse_query,
    resolve_folders,
    values_to_bind,
)

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def words():
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'unicode61')")
        db.execute("INSERT INTO words VALUES ('fix the parser')")
        yield db
    db.close()


def matches(db, query):
    found = db.execute("SELECT rowid FROM words WHERE words MATCH ?", (match_expression(parse_query(query)),))
    return found.fetchall() == [(1,)]


def test_terms_and_fields():
    """ST-5: each part of a query is parsed as a term or a field; unknown syntax is a word."""
    assert parse_query(
        'one -two three* -"four five" "six"* agent:crab -cwd:"/a b" foo:bar "type:x" xtool:y ++'
    ) == Query(
        (
            Term("one"),
            Term("two", without=True),
            Term("three", prefix=True),
            Term("four five", without=True),
            Term("six", prefix=True),
            Term("foo:bar"),
            Term("type:x"),
            Term("xtool:y"),
        ),
        (Field("agent", "crab"), Field("cwd", "/a b", without=True)),
    )


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("agent:crab", ("crab",)),
        ("sender:TG:1", ("TG:1",)),
        ("cwd:/a/b//", ("/a/b", "/a/b/")),
        ("cwd:/", ("/", "/")),
        ('tool:"a b"', ("\na b\n",)),
        ("since:2d", (NOW_MS - 2 * DAY_MS,)),
        ("since:90s", (NOW_MS - 90_000,)),
        ("since:30m", (NOW_MS - 30 * 60_000,)),
        ("since:12h", (NOW_MS - DAY_MS // 2,)),
        ("since:1w", (NOW_MS - 7 * DAY_MS,)),
        ("since:1970-01-02", (DAY_MS,)),
        ("since:1970-01-02T00:00:00.500+01:00", (DAY_MS - 3_600_000 + 500,)),
    ],
)
def test_the_values_that_fields_are_compared_with(query, values):
    """ST-5: parsing uses no clock; relative times are resolved when the time is given."""
    (field,) = parse_query(query).fields
    assert values_to_bind(field, NOW_MS) == values


@pytest.mark.parametrize(
    ("query", "whole"),
    [
        ("hello cwd:.", 'hello cwd:"/here/."'),
        ("-cwd:proj  x", '-cwd:"/here/proj"  x'),
        ('cwd:"my work" "cwd:."', 'cwd:"/here/my work" "cwd:."'),
        ('cwd:/abs cwd:"/a b" xcwd:. agent:.', 'cwd:/abs cwd:"/a b" xcwd:. agent:.'),
        ('cwd: x cwd:"" "open', 'cwd: x cwd:"" "open'),
    ],
)
def test_a_relative_folder_becomes_absolute(query, whole):
    """ST-5: only the folder of a `cwd:` changes; everything else stays as it was typed, quotes too."""
    assert resolve_folders(query, "/here/{}".format) == whole


def test_a_folder_with_a_quote_is_refused():
    """ST-5: a quote cannot be part of a value, so it is refused and not read as the end of one."""
    with pytest.raises(BadQuery, match="cannot be used in a query"):
        resolve_folders("cwd:x", '/odd"folder/{}'.format)


def test_a_tool_field_matches_whole_names():
    """ST-5: `tool:` means a name and not a part of one, among any number of them."""
    tools = encode_names(["bash", "read file", "a\nb"])
    assert all(encode_names([name]) in tools for name in ("bash", "read file", "a b"))
    assert not any(encode_names([name]) in tools for name in ("ba", "file", "read", "b"))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "no word"),
        ("   ", "no word"),
        ("*", "no word"),
        ('""', "no word"),
        ("!!! ->", "no word"),
        ("-parser", "only has excluded words"),
        ('-"the parser" -agent:crab', "only has excluded words"),
        ('"the parser', "unclosed quote"),
        ('sender:"the parser', "unclosed quote"),
        ('sender:x"', "unclosed quote"),
        ("type:", "`type:` needs a value"),
        ("fix tool:  parser", "`tool:` needs a value"),
        ('agent:" "', "`agent:` needs a value"),
        ("since:yesterdayish", "yesterdayish"),
        ("since:2026-02-30", "2026-02-30"),
        ("since:2026-11", "2026-11"),
        ("since:2y", "2y"),
        ("since:-2d", "-2d"),
        ("-since:x fix", "not a time for `since:`: 'x'"),
        ("x" * (QUERY_MAX_CHARS + 1), "longer than 2,000"),
        ("a " * (TERMS_MAX + 1), "more than 64"),
    ],
)
def test_an_invalid_query_is_an_error_of_one_line(query, reason):
    """`BadQuery` says what is wrong."""
    with pytest.raises(BadQuery, match=reason) as caught:
        parse_query(query)
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_the_limits_themselves_are_allowed(words):
    assert matches(words, "fix " * TERMS_MAX)
    assert matches(words, "-" + "x" * (QUERY_MAX_CHARS - 5) + " fix")


@given(st.text(max_size=60) | st.text(alphabet="\"'*-:()^+{} ab\0\udcff", max_size=30))
def test_hostile_text_is_text(words, query):
    """Law 13: no query, whatever it contains, causes an SQLite error."""
    try:
        asked = match_expression(parse_query(query))
    except BadQuery:
        return
    if asked:
        words.execute("SELECT rowid FROM words WHERE words MATCH ?", (asked,)).fetchall()
