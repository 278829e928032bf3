"""ST-9: the tree of a pi session: branches, compactions, and ids that stay the same."""

import pytest
from hypothesis import given, settings

from tests.exchange.pi_records import (
    Chain,
    bodies,
    context_texts,
    conversation,
    first_version,
    header,
    mutated,
    only,
    own,
    read,
    stamp,
    tree_of,
)
from tests.exchange.samples import entries_of
from wakelog.log.entry import Compaction, Head, Message

# ── the tree ─────────────────────────────────────────────────────────────────────────────────────


def test_branches_are_where_pi_has_them_and_the_last_record_is_the_head():
    records = conversation()
    entries = bodies(*records)
    tree = tree_of(entries)
    assert tree.damage == []
    assert tree.head == own("u3", records)
    by_id = {entry.id: entry for entry in entries}
    assert by_id[own("u2", records)].parent_id in {e.id for e in entries if e.parent_id == own("t1", records)}
    assert by_id[own("b1", records)].parent_id == own("u1", records)
    assert [body.target_id for body in entries if isinstance(body, Head)] == [
        by_id[own("u2", records)].parent_id,
        own("u1", records),
    ]
    assert context_texts(entries) == ["So far…", "Two are open", "From a hook", *context_texts(entries)[3:4], "Go on"]


def test_a_branch_from_the_root():
    chain = Chain(header()).say("u1", "user", "A").say("u2", "user", "B", parent=None)
    entries = bodies(*chain.records)
    assert context_texts(entries) == ["B"]
    assert [entry.parent_id for entry in entries if isinstance(entry, Message)] == [entries[0].id] * 2


def test_a_summary_of_a_branch_is_in_the_context():
    chain = Chain(header()).say("u1", "user", "A").say("u2", "user", "B")
    chain.add("branch_summary", "b1", parent="u1", fromId="u2", summary="B was tried")
    entries = bodies(*chain.records)
    assert context_texts(entries)[0] == "A"
    assert context_texts(entries)[1].endswith("B was tried")
    assert entries[-1].data == {"fromId": "u2"}


def test_a_lost_parent_is_bridged():
    chain = Chain(header()).say("u1", "user", "A").say("u2", "user", "B", parent="lost")
    entries = bodies(*chain.records)
    assert entries[-1].parent_id == entries[-2].id


def test_a_record_without_an_id_makes_no_branch():
    chain = Chain(header()).say("u1", "user", "A")
    chain.records.append({"type": "ui_state", "open": True})
    chain.say("r1", "assistant", "B")
    entries = bodies(*chain.records)
    assert [entry.parent_id for entry in entries[1:]] == [entry.id for entry in entries[:-1]]
    assert entries[2].data == {"type": "ui_state", "open": True}


def test_an_id_that_is_used_twice():
    chain = Chain(header()).say("u1", "user", "A").say("u1", "user", "B").say("r", "assistant", "C")
    entries = bodies(*chain.records)
    assert context_texts(entries) == ["A", "B", "C"]


def test_a_leaf_record_moves_the_head():
    """Newer versions record where a session goes on."""
    chain = Chain(header()).say("u1", "user", "A").say("r1", "assistant", "B").add("leaf", "f", targetId="u1")
    assert context_texts(bodies(*chain.records)) == ["A"]
    chain.say("r2", "assistant", "C")
    assert context_texts(bodies(*chain.records)) == ["A", "C"]


def test_a_side_record_leaves_the_head():
    chain = Chain(header()).say("u1", "user", "A").add("custom", "x", customType="y", appendMode="side")
    entries = bodies(*chain.records)
    assert tree_of(entries).head == own("u1", chain.records)


# ── compaction ───────────────────────────────────────────────────────────────────────────────────


def test_a_compaction_keeps_what_pi_keeps():
    records = conversation()
    compaction = only(bodies(*records), Compaction)
    assert (compaction.summary, compaction.tokens_before, compaction.state) == ("So far…", 900, None)
    assert compaction.first_kept_entry_id == own("n1", records)


def test_the_first_kept_record_is_a_label():
    chain = Chain(header()).say("u1", "user", "A").add("label", "l1", targetId="u1", label="x").say("u2", "user", "B")
    chain.add("compaction", "p", summary="S", firstKeptEntryId="l1").say("u3", "user", "C")
    assert context_texts(bodies(*chain.records)) == ["S", "B", "C"]


def test_a_first_kept_record_that_is_lost():
    chain = Chain(header()).say("u1", "user", "A").add("compaction", "p", summary="S", firstKeptEntryId="gone")
    assert context_texts(bodies(*chain.records)) == ["S"]


def test_a_retained_tail_is_found_among_the_messages():
    chain = Chain(header()).say("u1", "user", "A").say("u2", "user", "B")
    chain.add("compaction", "p", summary="S", retainedTail=[chain.records[-1]["message"]]).say("u3", "user", "C")
    assert context_texts(bodies(*chain.records)) == ["S", "B", "C"]


def test_a_retained_tail_that_is_nowhere_else_stays_in_the_context():
    tail = [{"role": "user", "content": "kept words", "timestamp": 5}]
    chain = Chain(header()).say("u1", "user", "A").add("compaction", "p", summary="S", retainedTail=tail)
    texts = context_texts(bodies(*chain.records))
    assert texts[0] == "S"
    assert "user: kept words" in texts[1]


def test_version_1_is_a_chain_and_counts_records_with_the_header():
    entries = bodies(*first_version())
    assert [entry.parent_id for entry in entries[1:]] == [entry.id for entry in entries[:-1]]
    assert only(entries, Compaction).first_kept_entry_id == entries[2].id
    assert context_texts(entries) == ["S", "B", "C", "C"]


# ── ids ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("records", [conversation(), first_version()], ids=["version 3", "version 1"])
def test_records_copied_into_a_fork_keep_their_ids(records):
    """Rule 2: a record that a fork copied has the same id in both sessions."""
    fork = [{**records[0], "id": "fork", "timestamp": stamp(50)}, *records[1:]]
    assert [entry.id for entry in bodies(*fork)[1:]] == [entry.id for entry in bodies(*records)[1:]]
    assert bodies(*fork)[0].id != bodies(*records)[0].id


def test_entries_do_not_depend_on_the_path():
    assert bodies(*conversation()) == entries_of(read(*conversation(), path="/other/place.jsonl"))


@pytest.mark.parametrize("records", [conversation(), first_version()], ids=["version 3", "version 1"])
def test_a_grown_file_gives_the_same_entries_and_new_ones(records):
    whole = bodies(*records)
    for size in range(1, len(records)):
        part = bodies(*records[:size])
        assert part == whole[: len(part)]


@given(mutated(conversation()))
@settings(max_examples=80)
def test_a_grown_damaged_file_gives_the_same_entries_and_new_ones(records):
    if not records:
        return
    whole = bodies(*records)
    part = bodies(*records[: len(records) // 2 + 1])
    assert part == whole[: len(part)]
