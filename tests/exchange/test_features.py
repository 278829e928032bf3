"""ST-9, LOG-8: what each format keeps is measured, and the tables in `docs/exchange.md` say what was measured."""

import json

import pytest

from tests.exchange.feature_facts import FEATURES, facts_of, read_session, session_to_compare
from tests.exchange.feature_formats import FORMATS
from tests.exchange.features import (
    ABSENT,
    DOCUMENT,
    KEPT,
    NOT_WRITTEN,
    PARTLY,
    TARGETS,
    full_session,
    measure_reading,
    measure_writing,
    real_tool_tests,
    replace_tables,
    tables,
)
from tests.real_tools.pinned import PINNED
from wakelog.exchange.detection import READERS
from wakelog.exchange.exporting import WRITERS
from wakelog.log.entry import Custom


def test_the_tables_of_the_document_are_those_that_were_measured():
    """After a change of a reader or a writer: `python -m tests.exchange.features`."""
    text = DOCUMENT.read_text()
    assert replace_tables(text, tables()) == text


def test_every_reader_and_writer_is_measured():
    assert set(FORMATS) == set(READERS)
    assert list(TARGETS) == list(WRITERS)


@pytest.mark.parametrize("name", FORMATS)
def test_a_session_with_every_feature_is_read(name):
    """Each feature is kept, or the format lacks it, or it is stated which part of it does not become an entry."""
    form = FORMATS[name]
    assert set(form.holds) | set(form.lacks) == set(FEATURES)
    assert not set(form.holds) & set(form.lacks)
    measured = measure_reading(form)
    assert {feature: each.missing for feature, each in measured.items() if each.state == "lost"} == {}
    assert {feature for feature, each in measured.items() if each.state == PARTLY} == set(form.partly)
    found = facts_of(read_session(session) for session in form.sessions())
    assert {feature: found[feature] for feature in form.lacks if found[feature]} == {}


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_said_to_be_kept_verbatim_is_in_a_custom_entry(name):
    form = FORMATS[name]
    bodies = [body for session in form.sessions() for body in read_session(session).bodies]
    kept = json.dumps([body.data for body in bodies if isinstance(body, Custom)])
    for feature, note in form.partly.items():
        if "verbatim" in note:
            for fact in measure_reading(form)[feature].missing:
                assert fact.split()[-1] in kept, (feature, fact)


@pytest.mark.parametrize("name", TARGETS)
def test_a_session_with_every_feature_is_written(name):
    """Each feature is read back, or the format lacks it, or it is stated what becomes of it."""
    measured = measure_writing(name, TARGETS[name])
    incomplete = {feature for feature, each in measured.items() if each.state in (PARTLY, NOT_WRITTEN)}
    assert incomplete - {"sub-agents"} == set(TARGETS[name].notes)


def test_the_session_to_write_has_every_feature():
    found = facts_of([session_to_compare(full_session("anthropic", "claude-x"))])
    assert {feature for feature in FEATURES if not found[feature]} == {"sub-agents"}


def test_a_missing_fact_is_noticed():
    form = FORMATS["pi"]
    more = {**form.holds, "title": ("A title", "Another title"), "model": ("another",)}
    measured = measure_reading(type(form)(title="pi", sessions=form.sessions, holds=more, lacks=form.lacks))
    assert (measured["title"].state, measured["model"].state) == (PARTLY, "lost")
    assert (measured["sub-agents"].state, measured["calls"].state) == (ABSENT, KEPT)


@pytest.mark.parametrize("name", PINNED)
def test_every_real_tool_resumes_and_is_killed(name):
    found = real_tool_tests(name)
    assert found.resumed or name not in WRITERS
    assert found.killed
