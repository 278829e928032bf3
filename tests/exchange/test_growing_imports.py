"""ST-9, LOG-8: a session that changes in its tool between imports: what is active there is active here, once."""

import pytest

from tests.exchange.test_importing import ITEMS, TIME, foreign, made, prompt, reply
from wakelog import Session, open_store
from wakelog.exchange import importing
from wakelog.exchange.importing import import_session
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import entry_id, verbatim
from wakelog.log.content import Reply, Text, Usage
from wakelog.log.entry import Compaction, Custom, Head, Message, SessionRenamed
from wakelog.projections.session_state import IMPORT_TYPE, session_state

TOOL = "other"
SPENT = Usage(input_tokens=7, output_tokens=3)


@pytest.fixture
def store():
    return open_store("memory:")


def imported(store, *items, **given):
    """Import items as one session, and return it."""
    return Session.get(store, import_session(store, foreign(list(items), **given)).session)


def texts(session):
    return [message.text for message in session.messages()]


def figures(session):
    return [
        entry.value
        for entry in session.entries()
        if isinstance(entry.value, Custom) and entry.value.custom_type == IMPORT_TYPE
    ]


FIRST = [prompt("u1", "One", None), reply("r1", "A", "u1")]


# ── the head ─────────────────────────────────────────────────────────────────────────────────────


def test_an_entry_that_the_source_has_no_more_is_left(store):
    """A half reply has another id when it is whole; an edited prompt replaces what was behind the one before."""
    imported(store, *FIRST, prompt("u2", "Two", "r1"), reply("half", "B", "u2"))
    session = imported(store, *FIRST, prompt("u2", "Two", "r1"), reply("whole", "Bee", "u2"))
    assert texts(session) == ["One", "A", "Two", "Bee"]
    session = imported(store, *FIRST, prompt("edit", "Three", "r1"), reply("r3", "C", "edit"))
    assert texts(session) == ["One", "A", "Three", "C"]
    session = imported(store, *FIRST, prompt("edit", "Three", "r1"), reply("r3", "C", "edit"), prompt("u4", "D", "r3"))
    assert texts(session) == ["One", "A", "Three", "C", "D"]


def test_what_was_undone_and_redone_is_active_again(store):
    second = [prompt("u2", "Two", "r1"), reply("r2", "B", "u2")]
    undone = made("undo", Head(target_id=entry_id(TOOL, "r1")), "r1")
    assert texts(imported(store, *FIRST, *second)) == ["One", "A", "Two", "B"]
    assert texts(imported(store, *FIRST, *second, undone)) == ["One", "A"]
    session = imported(store, *FIRST, *second)
    assert texts(session) == ["One", "A", "Two", "B"]
    count = sum(1 for _ in session.entries())
    imported(store, *FIRST, *second)
    assert sum(1 for _ in session.entries()) == count


def test_an_older_copy_of_the_source_moves_nothing(store):
    session = imported(store, *FIRST, prompt("u2", "Two", "r1"))
    count = sum(1 for _ in session.entries())
    imported(store, *FIRST)
    assert (texts(session), sum(1 for _ in session.entries())) == (["One", "A", "Two"], count)


def test_an_annotation_decides_nothing_about_the_head(store):
    """The first new entry is a title, behind which the tool has rewound the session."""
    imported(store, *FIRST)
    renamed = made("name", SessionRenamed(title="T"), "u1")
    session = imported(store, FIRST[0], renamed, reply("r2", "B", "u1"))
    assert texts(session) == ["One", "B"]


def test_a_move_of_the_head_is_not_followed_here(store):
    """Rule 3: the session was continued here. Importing it again and again adds nothing."""
    session = imported(store, *FIRST)
    session.say("Mine")
    undone = made("undo", Head(target_id=entry_id(TOOL, "u1")), "u1")
    done = [import_session(store, foreign([*FIRST, undone])) for _ in range(2)]
    assert [each.added for each in done] == [0, 0]
    assert done[0].account.skipped == {("move of the head", "the session was continued here"): 1}
    assert done[0].account.read == 3
    assert session.tree.find(session.tree.head) is not None
    assert len(figures(session)) == 1


def test_an_import_that_was_interrupted_behind_its_head_entry(store, monkeypatch):
    """The head was moved for a node that is missing: the next import goes on with it."""
    items = [*FIRST, prompt("u2", "Two", "r1"), prompt("u3", "Other", "r1"), reply("r3", "C", "u3")]
    monkeypatch.setattr(importing, "_GROUP_MAX", 1)
    add, stop = importing._SessionImport._add_to_group, {"now": False}

    def interrupted(self, body):
        if stop["now"]:
            raise KeyboardInterrupt
        add(self, body)
        stop["now"] = isinstance(body, Head)

    monkeypatch.setattr(importing._SessionImport, "_add_to_group", interrupted)
    monkeypatch.setattr(importing, "_HELD_ITEMS_MAX", 1)
    with pytest.raises(KeyboardInterrupt):
        imported(store, *items)
    monkeypatch.setattr(importing._SessionImport, "_add_to_group", add)
    session = imported(store, *items)
    assert texts(session) == ["One", "A", "Other", "C"]
    assert figures(session)[-1].data["read"] == len(items)


def test_a_compaction_of_the_source_stays_on_its_branch(store):
    """Rule 3: continued and compacted here; the compaction there goes under its own parent, and the head stays."""
    session = imported(store, *FIRST)
    session.say("Mine")
    session.compact("My summary")
    session.say("Still mine")
    folded = made("k", Compaction(summary="Their summary"), "r1")
    imported(store, *FIRST, folded, prompt("u2", "Theirs", "k"))
    assert texts(session) == ["My summary", "Still mine"]
    log = session.read()
    assert log.tree.nodes[entry_id(TOOL, "k")].value.parent_id == entry_id(TOOL, "r1")


# ── figures, usage, turns, titles ────────────────────────────────────────────────────────────────


def test_a_session_that_grows_has_one_branch(store):
    """The figures of later imports stand beside the first ones and are no branches."""
    items = list(FIRST)
    for number in range(2, 5):
        items += [prompt(f"u{number}", "Next", f"r{number - 1}"), reply(f"r{number}", "Yes", f"u{number}")]
        session = imported(store, *items)
    assert len(session.tree.branch_ends()) == 1
    assert [entry.data["read"] for entry in figures(session)] == [4, 6, 8]


def test_usage_that_comes_later_is_counted_once(store):
    def answer(usage):
        return made("r1", Message(message=Reply(content=(Text(text="A"),), usage=usage)), "u1")

    session = imported(store, FIRST[0], answer(None))
    assert session.usage().calls == 0
    would_add = import_session(store, foreign([FIRST[0], answer(SPENT)]), dry_run=True).added
    added = [import_session(store, foreign([FIRST[0], answer(SPENT)])).added for _ in range(2)]
    assert (would_add, added) == (1, [1, 0])
    total = session.usage()
    assert (total.calls, total.usage.input_tokens, total.usage.output_tokens) == (1, 7, 3)
    assert texts(session) == ["One", "A"]
    assert [row.kind for row in session.transcript() if row.text] == ["prompt", "reply"]
    assert session_state(session.tree).usage.input_tokens == 7


def test_a_session_that_had_usage_gets_none_twice(store):
    whole = made("r1", Message(message=Reply(content=(Text(text="A"),), usage=SPENT)), "u1")
    session = imported(store, FIRST[0], whole)
    imported(store, FIRST[0], whole, prompt("u2", "Two", "r1"))
    assert session.usage().calls == 1


def test_new_entries_belong_to_the_turn_of_their_parent(store):
    imported(store, *FIRST)
    session = imported(store, *FIRST, reply("r2", "More", "r1"))
    turns = [entry.value.turn_id for entry in session.branch().nodes if isinstance(entry.value, Message)]
    assert turns == [entry_id(TOOL, "u1")] * 3


def test_a_title_of_the_tool_does_not_replace_one_given_here(store):
    name = made("n1", SessionRenamed(title="Theirs"), "u1")
    session = imported(store, *FIRST, name)
    session.rename("Mine")
    imported(store, *FIRST, name, made("n2", SessionRenamed(title="Theirs too"), "u1"))
    assert session_state(session.tree).title == "Mine"
    assert any(
        isinstance(entry.value, SessionRenamed) and entry.value.title == "Theirs too" for entry in session.entries()
    )
    imported(store, *FIRST, title="A third")
    assert session_state(session.tree).title == "Mine"


def test_many_unreadable_records_are_counted_and_the_first_are_kept(store):
    bad = [BadRecord(number, number, 1, "not JSON") for number in range(500)]
    done = import_session(store, foreign([*FIRST, *bad]))
    assert (done.account.read, done.account.bad_count, len(done.account.bad)) == (502, 500, 100)
    [entry] = figures(Session.get(store, done.session))
    assert (entry.data["read"], entry.data["badCount"], len(entry.data["bad"])) == (502, 500, 100)


def test_large_items_are_not_held(store, monkeypatch):
    """Rule 4: the first items are held only up to a size; the figures then follow at the end."""
    monkeypatch.setattr(importing, "_HELD_BYTES_MAX", 10_000)
    big = [
        verbatim(TOOL, "big", {"x": "y" * 1_000}, key=f"b{n}", parent_id=entry_id(TOOL, "r1"), timestamp=TIME)
        for n in range(40)
    ]
    taken = []

    def items():
        for item in [*FIRST, *big]:
            taken.append(item)
            yield item

    held, is_all = importing._held(items())
    assert (is_all, len(held) < 15, len(taken) == len(held)) == (False, True, True)
    session = imported(store, *FIRST, *big)
    first, last = figures(session)
    assert ("read" in first.data, last.data["read"]) == (False, 42)


def test_compactions_are_not_read_again_without_end(store, monkeypatch):
    """The work for n compactions that keep everything does not grow with the square of n."""
    monkeypatch.setattr(importing, "_NODES_REREAD", 50)
    kept = entry_id(TOOL, "u1")
    items, tip = list(FIRST), "r1"
    for number in range(60):
        items.append(made(f"k{number}", Compaction(summary=f"S{number}", first_kept_entry_id=kept), tip))
        tip = f"k{number}"
    session = imported(store, *items)
    states = [entry.value.state for entry in session.entries() if isinstance(entry.value, Compaction)]
    assert states[0] is not None
    assert sum(state is not None for state in states) < 30
    assert texts(session)[0] == "S59"


def test_the_sessions_of_a_tool_name_their_parents(store):
    session = imported(store, *ITEMS, parent="mother", parent_call="c9")
    data = figures(session)[0].data
    assert (data["parent"], data["parentCall"]) == ("mother", "c9")
