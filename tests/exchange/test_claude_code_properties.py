"""ST-9: properties of the Claude Code reader: files that grow, and records of any content.

A file that has grown is imported again: everything that was imported before comes again, in the same order, with the
same ids and content, followed by what is new.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.claude_code_files import (
    call,
    chained,
    check_sessions,
    line,
    messages,
    progress,
    result,
    source,
    text,
    user,
)
from tests.exchange.samples import EXPECTED, SAMPLES, MemoryFile, entries_of, needs_samples, sample
from wakelog.exchange.claude_code.reader import read_sessions
from wakelog.log.content import Reply, Usage

# ── files that grow ──────────────────────────────────────────────────────────────────────────────


def _main_entries(raw, path, known=()):
    return entries_of(next(iter(read_sessions(MemoryFile(raw, path), set(known).__contains__))))


def _check_growth(raw, path, cuts):
    """Import the beginning of a file up to each of the cuts, in order, each time with what is known by then."""
    before: list[list[Any]] = [[]]
    for cut in cuts:
        known = {entry.id for found in before for entry in found}
        sessions = read_sessions(MemoryFile(raw[:cut], path), known.__contains__)
        after = [entries_of(session) for session in sessions]
        assert len(after) >= len(before)
        for found, earlier in zip(after, before, strict=False):
            assert found[: len(earlier)] == earlier
        before = after
    return before[0]


def _line_ends(raw):
    return [at + 1 for at, byte in enumerate(raw) if byte == 10]


CONVERSATION = (
    {"type": "mode", "mode": "normal", "sessionId": "s"},
    user("u1", None, "first"),
    line("a1", "u1", "m1", text("I look"), output_tokens=1),
    line("a2", "a1", "m1", call("c1"), output_tokens=4),
    progress("p1", "a2"),
    result("r1", "a2", "c1", gitBranch="fix"),
    line("a3", "r1", "m1", call("c2"), output_tokens=9),
    result("r2", "a3", "c2"),
    line("a4", "r2", "m2", text("done")),
    {"type": "ai-title", "aiTitle": "Title", "sessionId": "s"},
    user("u2", "a4", "second"),
    line("a5", "u2", "m3", text("two")),
    user("u3", "a4", "rewound"),
    line("a6", "u3", "m4", text("three")),
    chained("system", "b1", None, logicalParentUuid="a6", subtype="compact_boundary", compactMetadata={}),
    user("s1", "b1", "Summary", isCompactSummary=True),
    user("u3", "a4", "rewound"),
    line("a6", "u3", "m4", text("three")),
    user("u4", "a6", "fourth"),
)
RAW = source(*CONVERSATION).content()
ENDS = _line_ends(RAW)


@given(st.sets(st.sampled_from(ENDS)).map(sorted))
def test_a_file_that_has_grown_repeats_what_was_imported(cuts):
    _check_growth(RAW, "s.jsonl", [*cuts, len(RAW)])


def test_after_every_record():
    """The worst case: an import after each record. Each call, each result and all usage is still there once."""
    found = _check_growth(RAW, "s.jsonl", ENDS)
    replies = [entry.message for entry in messages(found, Reply)]
    assert [made.id for reply in replies for made in reply.tool_calls] == ["c1", "c2"]
    at_once = [entry.message for entry in messages(_main_entries(RAW, "s.jsonl"), Reply)]
    assert [reply.text for reply in replies if reply.text] == [reply.text for reply in at_once]
    totals = [sum((reply.usage or Usage() for reply in found_in), Usage()) for found_in in (replies, at_once)]
    assert totals[0] == totals[1]


def test_without_knowledge_of_earlier_imports_only_a_growing_reply_differs():
    whole = _main_entries(RAW, "s.jsonl")
    for cut in ENDS:
        found = _main_entries(RAW[:cut], "s.jsonl")
        same = [entry for entry in found if entry in whole]
        growing = [entry for entry in found if entry not in whole]
        assert same == [entry for entry in whole if entry in same]
        assert not growing or RAW[:cut].count(b'"m1"') in (1, 2)


def test_ids_do_not_depend_on_the_path():
    assert _main_entries(RAW, "/a/x.jsonl") == _main_entries(RAW, "/b/y.jsonl")


@needs_samples
@pytest.mark.parametrize("name", sorted(name for name in EXPECTED if name.startswith("claude-code/cc-")))
def test_real_sessions_that_grow(name):
    assert SAMPLES is not None
    raw = sample(name).content()
    ends = _line_ends(raw)
    _check_growth(raw, name, [*ends[:: max(1, len(ends) // 25)], len(raw)])


# ── records of any content ───────────────────────────────────────────────────────────────────────

_SCALARS = st.none() | st.booleans() | st.integers(-3, 1 << 60) | st.floats(allow_nan=False) | st.text(max_size=8)
_OTHER_NAMES = (
    "content",
    "id",
    "model",
    "usage",
    "text",
    "thinking",
    "signature",
    "tool_use_id",
    "name",
    "input",
    "prompt",
)
_OWN_NAMES = (
    "isMeta",
    "isApiErrorMessage",
    "preservedSegment",
    "leafUuid",
    "summary",
    "customTitle",
    "rendered",
    "agentId",
)
_NAMES = st.sampled_from(sorted({name for record in CONVERSATION for name in record} | {*_OTHER_NAMES, *_OWN_NAMES}))
_TYPES = ("user", "assistant", "system", "attachment", "progress", "summary", "custom-title", "compact_boundary")
_BLOCK_TYPES = ("text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "queued_command")
_TAGS = st.sampled_from([*_TYPES, *_BLOCK_TYPES, "u1", "u2", "a1", "a2", "a3", "c1", "c2", "m1", "m2", "Task"])
_VALUES = st.recursive(
    _SCALARS | _TAGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.text(max_size=4), inner, max_size=6),
    max_leaves=12,
)
strange_records = st.dictionaries(_NAMES, _VALUES, max_size=8) | st.fixed_dictionaries(
    {"type": _TAGS},
    optional={
        "message": _VALUES,
        "uuid": _TAGS,
        "parentUuid": _TAGS,
        "isSidechain": st.booleans(),
        "attachment": _VALUES,
    },
)


@st.composite
def mutated_records(draw):
    """Draw a record of the conversation with a few values replaced or removed, at any depth."""
    record = draw(st.sampled_from(CONVERSATION))
    for _ in range(draw(st.integers(0, 3))):
        record = _with_change(draw, record)
    return record


def _with_change(draw, value):
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 4)) == 0:
            return {name: each for name, each in value.items() if name != key}
        return {**value, key: _with_change(draw, value[key])}
    if isinstance(value, bool):
        return not value
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _with_change(draw, value[at]), *value[at + 1 :]]
    return draw(_VALUES)


@settings(max_examples=200)
@given(st.lists(strange_records | mutated_records(), max_size=12), st.binary(max_size=20))
def test_no_content_raises_and_every_record_is_accounted_for(records, noise):
    check_sessions(MemoryFile(source(*records).content() + noise))


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(CONVERSATION) | mutated_records(), max_size=14), st.lists(st.integers(0, 14), max_size=3)
)
def test_strange_files_that_grow(records, cuts):
    raw = source(*records).content()
    ends = _line_ends(raw)
    _check_growth(raw, "s.jsonl", [*sorted(ends[cut] for cut in cuts if cut < len(ends)), len(raw)])
