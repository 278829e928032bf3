"""The search syntax: what people type becomes an expression that FTS5 cannot misread (law 13)."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.errors import BadQuery
from wakelog.stores.query import QUERY_MAX_CHARS, TERMS_MAX, Term, fts_query, parse

TEXTS = ("fix the parser", "the parser is fixed", "nothing to see", "NEAR OR AND NOT text rank")


@pytest.fixture(scope="module")
def words():
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'unicode61')")
        db.executemany("INSERT INTO words VALUES (?)", [(text,) for text in TEXTS])
        yield db
    db.close()


def matches(db, query):
    found = db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid", (fts_query(query),))
    return [rowid for (rowid,) in found]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("parser", [1, 2]),
        ("parser fix", [1]),
        ("PARSER  the\tFix", [1]),
        ('"the parser"', [1, 2]),
        ('"parser the"', []),
        ("fix*", [1, 2]),
        ('"parser is fi"*', [2]),
        ("parser -fixed", [1]),
        ('the -"fix the"', [2]),
        ("parser -fixed -nothing", [1]),
        ("-fixed parser", [1]),
        ("see!", [3]),
        ("parser -- ->", [1, 2]),
        ("NOT", [4]),
        ("text:rank", [4]),
        ("NEAR(or and, 2)", []),
    ],
)
def test_what_is_typed_is_what_is_found(words, query, found):
    """Search: words in any order, phrases, prefixes, exclusions; operators of FTS5 are words like others."""
    assert matches(words, query) == found


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "no word"),
        ("   ", "no word"),
        ("*", "no word"),
        ('""', "no word"),
        ("!!! ->", "no word"),
        ("-parser", "only says what to leave out"),
        ('-"the parser" -fix', "only says what to leave out"),
        ('"the parser', "not closed"),
        ("x" * (QUERY_MAX_CHARS + 1), "longer than 2,000"),
        ("a " * (TERMS_MAX + 1), "more than 64"),
    ],
)
def test_a_query_that_cannot_be_understood_says_why(query, reason):
    """A `BadQuery` is one line that says what is wrong."""
    with pytest.raises(BadQuery, match=reason) as caught:
        fts_query(query)
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_the_limits_themselves_are_allowed(words):
    assert matches(words, "fix " * TERMS_MAX) == [1]
    assert matches(words, "-" + "x" * (QUERY_MAX_CHARS - 5) + " fix") == [1]


def test_terms():
    assert parse('one -two three* -"four five" "six"*') == (
        Term("one"),
        Term("two", without=True),
        Term("three", prefix=True),
        Term("four five", without=True),
        Term("six", prefix=True),
    )


@given(st.text(max_size=60) | st.text(alphabet="\"'*-:()^+{} ab\0\udcff", max_size=30))
def test_hostile_text_is_text(words, query):
    """Law 13: no query, whatever it holds, is an error of SQLite's."""
    try:
        expression = fts_query(query)
    except BadQuery:
        return
    words.execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,)).fetchall()
