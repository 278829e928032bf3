"""ST-9: a Codex file is imported at any line, and again when it has grown: everything is there once."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.exchange.codex_records import (
    BARE,
    CHILD,
    LEGACY,
    PAGINATED,
    THREAD,
    answer,
    call,
    checked,
    entries,
    event,
    messages,
    meta,
    output,
    read,
    reasoning,
    replies,
    tokens,
    turn_context,
    user,
)
from tests.exchange.samples import MemoryFile, account_of, jsonl, needs_samples, sample
from tests.exchange.test_codex_properties import EARLY_USAGE, LATE_USAGE, TREE
from tests.exchange.test_codex_samples import NAMES
from wakelog.exchange.codex import entries as codex_entries
from wakelog.exchange.codex.displays import Displays
from wakelog.exchange.codex.reader import read_sessions
from wakelog.exchange.records import json_records
from wakelog.exchange.sessions import ImportedEntry, SkippedRecords
from wakelog.log.content import Reply, ToolResult, Usage
from wakelog.log.entry import Head, KnownBody, Message, Node

SHOWN_BEFORE = [
    meta(),
    *(turn_context(), user("first"), event("agent_message", message="looking"), answer("looking"), call("call_1")),
    *(event("exec_command_end", call_id="call_1"), tokens(10, 10), output("call_1"), answer("done"), tokens(20, 30)),
    *(user("second"), event("patch_apply_end"), event("agent_message", message="not an item"), reasoning("Hm")),
    *(event("invented_later"), answer("again"), tokens(30, 60), turn_context("gpt-5-mini")),
]


def _path(records: list[Any]) -> str:
    return "rollout.jsonl" if records[0].get("type") else "rollout-bare.jsonl"


class Imported:
    """The entries of a session after several imports, as the importer keeps them: each id once, usage once known."""

    def __init__(self) -> None:
        self.bodies: dict[str, KnownBody] = {}
        self.usage: dict[str, Usage] = {}
        self._head: str | None = None

    def add(self, records: list[Any]) -> list[Any]:
        source = MemoryFile(jsonl(*records), _path(records))
        (session,) = read_sessions(source, set(self.bodies).__contains__)
        items = list(session.items)
        assert sum(account_of(items).values()) == len(records)
        for body in [item.body for item in items if isinstance(item, ImportedEntry)]:
            self.bodies.setdefault(body.id, body)
            if isinstance(body, Message) and isinstance(body.message, Reply) and body.message.usage is not None:
                self.usage.setdefault(body.id, body.message.usage)
            if isinstance(body, Head):
                self._head = body.target_id
            elif isinstance(body, Node):
                self._head = body.id
        return items

    @property
    def total(self) -> Usage:
        return sum(self.usage.values(), Usage(cost_micros=0))

    def said(self) -> list[Any]:
        """Return what the active branch holds: the parts of prompts and replies, and the results.

        `bound` names the reasoning before a part only where both are in one reply.
        """
        found: list[Any] = []
        at = self._head
        while at is not None:
            body = self.bodies[at]
            if isinstance(body, Message):
                is_result = isinstance(body.message, ToolResult)
                parts = [(type(body.message).__name__, _without_bound(part)) for part in body.message.parts]
                found.append([("ToolResult", body.message.text)] if is_result else parts)
            at = body.parent_id
        return [part for parts in reversed(found) for part in parts]


def _without_bound(part: Any) -> Any:
    return replace(part, bound=None) if hasattr(part, "bound") else part


def _check_cuts(records: list[Any]) -> None:
    whole = Imported()
    whole.add(records)
    for cut in range(1, len(records)):
        twice = Imported()
        twice.add(records[:cut])
        twice.add(records)
        assert twice.said() == whole.said(), cut
        assert twice.total == whole.total, cut
        count = len(twice.bodies)
        twice.add(records)
        assert len(twice.bodies) == count


@pytest.mark.parametrize("records", [SHOWN_BEFORE, LEGACY, PAGINATED, LATE_USAGE, EARLY_USAGE, TREE, BARE])
def test_two_imports_have_what_one_has(records):
    _check_cuts(records)


@needs_samples
@pytest.mark.parametrize("name", [name for name in NAMES if "zoo" not in name])
def test_two_imports_of_a_sample_have_what_one_has(name):
    records = [record.value for record in json_records(sample(name).lines())]
    records[0]["payload"].pop("history_base", None)
    _check_cuts(records)


def test_an_import_after_every_line():
    """Each line that is added makes a new reply at most; nothing is there twice."""
    for records in (SHOWN_BEFORE, LEGACY, PAGINATED, LATE_USAGE):
        whole, steps = Imported(), Imported()
        whole.add(records)
        for count in range(1, len(records) + 1):
            steps.add(records[:count])
        assert steps.said() == whole.said()
        assert steps.total == whole.total


def test_usage_of_a_reply_that_was_stored_without_it_is_counted_as_mapped():
    """The importer adds it to the reply, so the account does not say that it was counted before."""
    records = [meta(), user("Go"), call("c1"), tokens(10, 10), output("c1")]
    stored = Imported()
    stored.add(records[:3])
    items = stored.add(records)
    assert not [each for each in items if isinstance(each, SkippedRecords)]
    assert [usage.input_tokens for usage in stored.usage.values()] == [10]


@pytest.mark.parametrize(
    "waits", [event("agent_message", message="Soon"), tokens(10, 10), event("agent_reasoning", text="Hm")]
)
def test_a_line_that_waits_for_its_item_at_the_end_is_counted(waits):
    items = list(read(meta(), user("Go"), waits).items)
    assert [(each.count, each.reason) for each in items if isinstance(each, SkippedRecords)] == [
        (1, "may belong to a response item that is not written yet")
    ]


# ── ids of copies ────────────────────────────────────────────────────────────────────────────────


def _ids(bodies):
    return [body.id for body in bodies if isinstance(body, Message)]


def test_a_fork_by_copy_has_the_ids_of_items_without_ids():
    """So `usage --all` counts the replies of its ancestor once."""
    said = [user("first"), answer("one"), tokens(100, 100), user("second"), call("call_A"), tokens(50, 150)]
    own = entries(meta(), *said, output("call_A"))
    copied = [{**record, "timestamp": "2026-11-17T09:00:00.000Z"} for record in (meta(), *said, output("call_A"))]
    fork = read(meta(CHILD, forked_from_id=THREAD), *copied, user("third"), answer("two"))
    bodies = checked(fork, len(copied) + 3)
    assert _ids(bodies)[:-2] == _ids(own)


def test_calls_of_other_sessions_with_the_same_ids_are_other_calls():
    """Some providers number the calls of each session from 0."""
    one = entries(meta(), user("Go"), call("call_0"), output("call_0"))
    other = checked(read(meta(CHILD), user("Other"), call("call_0", "look"), output("call_0")), 4)
    assert not set(_ids(one)) & set(_ids(other))


def test_a_fork_and_its_ancestor_go_on_with_calls_of_the_same_id():
    said = [meta(), user("Go"), call("call_0"), output("call_0")]
    own = entries(*said, call("call_1"), output("call_1", "here"))
    forked = [meta(CHILD, forked_from_id=THREAD), *said, call("call_1", "look"), output("call_1", "there")]
    fork = checked(read(*forked), len(forked))
    assert [one == other for one, other in zip(_ids(own), _ids(fork), strict=True)] == [True] * 3 + [False] * 2


def test_a_reply_in_two_pieces_has_the_usage_under_the_id_of_the_whole():
    """A fork that has the reply as a whole is not counted again."""
    records = [meta(), user("Go"), reasoning(), call("c1"), tokens(10, 10)]
    whole, pieces = Imported(), Imported()
    whole.add(records)
    pieces.add(records[:3])
    pieces.add(records)
    assert pieces.usage == whole.usage


# ── usage ────────────────────────────────────────────────────────────────────────────────────────


def _inputs(*records):
    return [reply.usage and reply.usage.input_tokens for reply in replies(entries(meta(), user("Go"), *records))]


@pytest.mark.parametrize("info", [{}, 5, {"last_token_usage": None}, {"last_token_usage": {"input_tokens": "x"}}])
def test_an_event_without_usage_before_a_reply(info):
    assert _inputs(tokens(10, 10), event("token_count", info=info), answer("x")) == [None]


def test_usage_of_something_else_before_the_first_reply():
    """Such as that of a turn that was aborted; the usage of the replies follows their results all the same."""
    steps = [call("c1"), output("c1"), tokens(100, 107), call("c2"), output("c2"), tokens(200, 307), answer("x")]
    assert _inputs(tokens(7, 7), *steps, tokens(300, 607)) == [100, 200, 300]
    aborted = [tokens(7, 7), event("turn_aborted", reason="interrupted"), user("Again")]
    assert _inputs(*aborted, *steps, tokens(300, 607)) == [100, 200, 300]
    assert _inputs(tokens(7, 7), call("c1"), tokens(100, 107), output("c1"), answer("x"), tokens(9, 116)) == [100, 9]


def test_usage_before_the_items_that_no_event_displays():
    """No usage follows the first reply, so the usage before it is its own, and so for those that follow."""
    steps = [tokens(10, 10), call("c1"), output("c1"), call("c2"), output("c2"), tokens(20, 30), answer("End")]
    assert _inputs(*steps, turn_context()) == [10, None, 20]


# ── limits ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "opened",
    [
        [answer("x")],
        [call("c1"), output("c1")],
        [event("agent_message", message="never an item")],
    ],
)
def test_lines_are_not_held_back_without_a_limit(opened, monkeypatch):
    """A reply that does not end, usage and an item that do not come: later lines are passed on all the same."""
    monkeypatch.setattr(codex_entries, "_HELD_BYTES", 2_000)
    records = [meta(), *opened, *[event("invented_later", number=number) for number in range(100)]]
    builders = []
    made = codex_entries.EntryBuilder.__init__

    def noted(builder, *given):
        made(builder, *given)
        builders.append(builder)

    monkeypatch.setattr(codex_entries.EntryBuilder, "__init__", noted)
    most = 0
    for _ in read(*records).items:
        draft = builders[0]._draft
        most = max(most, len(builders[0]._queue) + len(draft.held if draft else ()) + bool(builders[0]._displays))
    assert most < 30


def test_an_item_is_compared_with_the_events_that_display_its_text_only(monkeypatch):
    """Not with all events that wait, nor are the texts before it copied."""
    looked_up = 0
    checked_text = Displays.note_item

    def counted(displays, item, *, is_prompt):
        nonlocal looked_up
        before, known = len(displays._waiting), displays._displayed
        found = checked_text(displays, item, is_prompt=is_prompt)
        looked_up += before - len(displays._waiting)
        assert is_prompt or displays._displayed is known
        return found

    monkeypatch.setattr(Displays, "note_item", counted)
    steps = [each for at in range(50) for each in (event("agent_message", message=f"{at}"), answer(f"{at}"))]
    bodies = entries(meta(), *steps)
    assert looked_up == 50
    assert len(messages(bodies)) == 1
