"""ST-9: events of crabtalk belong to the messages they were written for, also after a rewind and with guests."""

from typing import Any

import pytest

from tests.exchange.crabtalk_files import (
    HANDLE,
    META,
    database_of,
    done,
    entry,
    file_of,
    folder_of,
    put,
    run,
    session_puts,
    store_bytes,
    store_of,
)
from tests.exchange.linear_sessions import bodies_of, checked, messages, of_type, said
from tests.exchange.pi_records import context_texts
from tests.exchange.samples import MemoryFile, account_of, jsonl
from wakelog.errors import UsageError
from wakelog.exchange.crabtalk import reader, store
from wakelog.exchange.crabtalk.runs import Run, matched
from wakelog.exchange.importing import import_session
from wakelog.exchange.records import SourceLine
from wakelog.exchange.sessions import session_id
from wakelog.log.content import Prompt, Reply, ToolResult, UnknownPart
from wakelog.log.entry import Compaction, Custom, Head, Message
from wakelog.log.ids import IdTable
from wakelog.projections.context import build_context
from wakelog.reading import read_log
from wakelog.stores.memory import MemoryStore

FIRST, SECOND, THIRD, FOURTH = run(1), run(2), run(3), run(4)
GUEST = [
    entry("user", [{"type": "text", "text": "@bob?"}]),
    entry("assistant", [{"type": "text", "text": "I am bob"}], agent="bob"),
]
SESSION = session_id("crabtalk", HANDLE)
APART: dict[str, Any] = {
    "database": database_of,
    "store": lambda messages, events: store_of(session_puts(messages, events)),
}


def only(source, is_known=None):
    [session] = reader.read_sessions(source, is_known)
    return session


def imported(into, source):
    """Import a source as the importer of files does: the reader is told which entries are stored."""
    stored = IdTable()
    if list(into.sessions()):
        stored.add_ids(each.id for each in read_log(into, SESSION).entries)
    return import_session(into, only(source, stored.__contains__))


def shown(into):
    """Return the texts of the active branch."""
    tree = read_log(into, SESSION).tree
    return [message.text for message in build_context(tree.branch()).messages]


def usages(into):
    """Return the input tokens of each reply in the log."""
    values = [each.value for each in read_log(into, SESSION).entries]
    replies = [each.message for each in values if isinstance(each, Message) and isinstance(each.message, Reply)]
    return {reply.text: reply.usage and reply.usage.input_tokens for reply in replies}


# ── guests ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", APART)
def test_the_turn_of_a_guest_has_no_events(form):
    source = APART[form]([*FIRST[0], *GUEST, *THIRD[0]], [*FIRST[1], *THIRD[1]])
    found = messages(checked(only(source), 10 if form == "store" else 9), Reply)
    assert [(reply.text, reply.usage and reply.usage.input_tokens) for reply in found] == [
        ("answer 1", 1),
        ("I am bob", None),
        ("answer 3", 3),
    ]


def test_events_without_messages_are_not_those_of_a_guest_before_them():
    """The second run was deleted behind the turn of the guest."""
    source = database_of([*FIRST[0], *GUEST], [*FIRST[1], *SECOND[1]])
    assert [reply.usage and reply.usage.input_tokens for reply in messages(checked(only(source), 7), Reply)] == [
        1,
        None,
    ]


# ── rewinds ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", APART)
def test_a_reply_behind_a_rewind_has_its_own_usage_and_place(form):
    """The messages of run 2 were deleted, and run 3 follows run 1. Events of deleted messages remain."""
    into, of_form = MemoryStore(), APART[form]
    imported(into, of_form([*FIRST[0], *SECOND[0]], [*FIRST[1], *SECOND[1]]))
    rewound = of_form([*FIRST[0], *THIRD[0]], [*FIRST[1], *SECOND[1], *THIRD[1]])
    imported(into, rewound)
    assert shown(into) == ["ask 1", "answer 1", "ask 3", "answer 3"]
    assert usages(into) == {"answer 1": 1, "answer 2": 2, "answer 3": 3}
    assert imported(into, rewound).added == 0
    events = [*FIRST[1], *SECOND[1], *THIRD[1], *FOURTH[1]]
    imported(into, of_form([*FIRST[0], *THIRD[0], *FOURTH[0]], events))
    assert shown(into) == ["ask 1", "answer 1", "ask 3", "answer 3", "ask 4", "answer 4"]
    assert usages(into)["answer 4"] == 4
    assert read_log(into, SESSION).damage == ()


def test_a_prompt_that_is_sent_again_gets_a_reply_of_its_own():
    into = MemoryStore()
    imported(into, database_of([*FIRST[0], *SECOND[0]], [*FIRST[1], *SECOND[1]]))
    again = [SECOND[0][0], entry("assistant", [{"type": "text", "text": "better"}])]
    end = done(at=50, input_tokens=7, output_tokens=1)
    imported(into, database_of([*FIRST[0], *again], [*FIRST[1], *SECOND[1], end]))
    assert shown(into) == ["ask 1", "answer 1", "ask 2", "better"]
    assert usages(into) == {"answer 1": 1, "answer 2": 2, "better": 7}


def test_a_rewind_alone_moves_the_head():
    into = MemoryStore()
    imported(into, database_of([*FIRST[0], *SECOND[0]], [*FIRST[1], *SECOND[1]]))
    rewound = database_of(FIRST[0], [*FIRST[1], *SECOND[1]])
    assert [type(each) for each in bodies_of(list(only(rewound).items))][-1] is Head
    imported(into, rewound)
    assert imported(into, rewound).added == 0
    imported(into, database_of([*FIRST[0], *THIRD[0]], [*FIRST[1], *SECOND[1], *THIRD[1]]))
    assert shown(into) == ["ask 1", "answer 1", "ask 3", "answer 3"]


def test_a_session_that_is_rewound_to_its_beginning():
    into = MemoryStore()
    imported(into, database_of(FIRST[0], FIRST[1]))
    imported(into, database_of(SECOND[0], [*FIRST[1], *SECOND[1]]))
    assert shown(into) == ["ask 2", "answer 2"]
    assert usages(into) == {"answer 1": 1, "answer 2": 2}


def test_a_new_run_behind_a_compaction_waits_for_its_events():
    """The stored events are those of the run before it."""
    into = MemoryStore()
    row = {"archive": "n-1", "summary": "Sum"}
    imported(into, database_of(SECOND[0], [*FIRST[1], *SECOND[1]], **row))
    imported(into, database_of([*SECOND[0], *THIRD[0]], [*FIRST[1], *SECOND[1]], **row))
    assert shown(into) == ["Sum", "ask 2", "answer 2", "ask 3", "answer 3"]
    assert usages(into) == {"answer 2": 2, "answer 3": None}


def test_a_compaction_that_a_rewind_writes_again_is_the_same():
    mark = {"archive_name": "n-1", "archived_at": "2026-08-10T10:04:00+00:00"}
    later = {**mark, "archived_at": "2026-08-11T10:04:00+00:00"}
    ids = [
        [body.id for body in of_type(bodies_of(list(only(folder_of([entry("user", "a"), each])).items)), Compaction)]
        for each in (mark, later)
    ]
    assert ids[0] == ids[1]


def test_runs_are_compared_once_each():
    """The time to match runs does not grow with the square of their calls."""
    compared = 0

    class Calls(set[str]):
        def isdisjoint(self, other):
            nonlocal compared
            compared += min(len(self), len(other))
            return super().isdisjoint(other)

        def __and__(self, other):
            nonlocal compared
            compared += min(len(self), len(other))
            return super().__and__(other)

    many = 300
    names = [f"c{number}" for number in range(many)]
    ours = [Run(records=1, calls=Calls(names))]
    theirs = [*(Run(records=1, calls=Calls([f"{name}x"])) for name in names), Run(records=1, calls=Calls(names))]
    pairs = matched(ours, theirs, from_end=False)
    assert pairs[-1] == (ours[0], theirs[-1])
    assert compared <= 5 * many


# ── calls in places where there are none ─────────────────────────────────────────────────────────


def test_prompts_and_results_hold_no_calls():
    use = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    asked = [{"type": "text", "text": "x"}, use, {"type": "thinking", "thinking": "t"}]
    result = {"type": "tool_result", "tool_use_id": "c", "content": [use]}
    found = checked(only(file_of([entry("user", asked), entry("assistant", [use]), entry("user", [result])])), 4)
    assert messages(found, Prompt)[0].parts[1:] == tuple(UnknownPart(part=part) for part in asked[1:])
    assert messages(found, ToolResult)[0].parts == (UnknownPart(part=use),)


def test_other_fields_of_a_call_are_kept():
    signed = {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
        "extra_content": {"s": "SIG"},
    }
    found = checked(only(file_of([entry("user", "x"), {"role": "assistant", "tool_calls": [signed]}])), 3)
    assert of_type(found, Custom)[-1].data == {"tool_calls": {"0": {"extra_content": {"s": "SIG"}}}}


# ── files without metadata ───────────────────────────────────────────────────────────────────────

BODY = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "hi"},
    {"compact": "Sum"},
    {"role": "user", "content": "what?"},
]


@pytest.mark.parametrize("start", [b"", jsonl(META)[:30] + b"\n"])
def test_a_file_that_lost_its_metadata_is_the_same_session(start):
    source = MemoryFile(start + jsonl(*BODY), "/h/sessions/crab_user_1.jsonl")
    assert reader.is_crabtalk(BODY)
    session = only(source)
    assert session.origin.id == only(file_of(BODY)).origin.id
    found = checked(session, len(BODY) + bool(start))
    assert context_texts(found) == ["Sum", "what?"]


@pytest.mark.parametrize(
    "head",
    [
        [BODY[0], BODY[1]],
        [BODY[2]],
        [{"type": "user", "message": BODY[0]}, BODY[2]],
        [{**BODY[0], "type": "message"}, BODY[2]],
        [BODY[0], {"event": "click"}],
        [BODY[0], BODY[2], {"x": 1}],
        [BODY[0], BODY[2], 7],
    ],
)
def test_other_records_are_not_taken_for_a_session_without_metadata(head):
    assert not reader.is_crabtalk(head)


def test_messages_with_an_event_are_a_session():
    assert reader.is_crabtalk([*FIRST[0], *FIRST[1]])


# ── store ────────────────────────────────────────────────────────────────────────────────────────


class LongLine(MemoryFile):
    """A file whose first line is longer than a line that is decoded."""

    def lines(self):
        yield SourceLine(1, 0, None, len(self.content()))


def test_a_store_may_have_no_newline():
    raw = store_bytes(session_puts(*FIRST))
    assert said(checked(only(LongLine(raw, "store.crmem")), 5)) == ["Prompt: ask 1", "Reply: answer 1"]


def test_keys_of_no_session_are_counted():
    others = [put("local/other", b"{}"), put("local/idx/sess/A/user/x/GONE", b"")]
    items = list(only(store_of([*session_puts(*FIRST), *others])).items)
    assert account_of(items)["skipped"] == 3


@pytest.mark.parametrize("snapshot_after", [None, 3])
def test_a_store_has_a_largest_number_of_keys(monkeypatch, snapshot_after):
    monkeypatch.setattr(store, "KEYS_MAX", 4)
    source = store_of([*session_puts(*FIRST), put("local/memory/n", b"{}", 2)], snapshot_after=snapshot_after)
    with pytest.raises(UsageError, match="more than 4 keys"):
        list(reader.read_sessions(source))
    less = store_of(session_puts(FIRST[0][:1], []) + [put(f"k{number}", b"", 3) for number in range(9)])
    assert len(list(only(less).items)) == 3
