"""ST-9: every sample of OpenCode imports without loss; calls, results and records are those counted in the samples."""

import json
import os
from collections import Counter

import pytest

from tests.exchange.samples import (
    EXPECTED,
    SAMPLES,
    MemoryFile,
    account_of,
    entries_of,
    needs_samples,
    sample_database,
)
from wakelog.exchange.opencode.reader import is_opencode, is_opencode_database, read_sessions, refusal
from wakelog.exchange.sessions import ImportedEntry
from wakelog.log.content import Prompt, Reply, ToolResult
from wakelog.log.entry import Compaction, Message, Spawned

pytestmark = needs_samples
_MADE = "made-here/opencode-1.18.33"


def _facts(sessions):
    """Return prompts, tool calls, results and replies with words of sessions."""
    messages = [body.message for each in sessions for body in entries_of(each) if isinstance(body, Message)]
    replies = [message for message in messages if isinstance(message, Reply)]
    return {
        "prompts": sum(isinstance(message, Prompt) for message in messages),
        "calls": sum(len(reply.tool_calls) for reply in replies),
        "results": sum(isinstance(message, ToolResult) for message in messages),
        "answers": sum(bool(reply.text) for reply in replies),
    }


def _file(name):
    assert SAMPLES is not None
    return MemoryFile((SAMPLES / name).read_bytes(), name)


def _tree(name):
    """Return a session file with the whole `storage` folder that it is in."""
    assert SAMPLES is not None
    path = SAMPLES / name
    storage = path.parents[2]
    files = [each for each in storage.rglob("*") if each.is_file() and each != path]
    others = {os.path.relpath(each, path.parent): each.read_bytes() for each in files}
    return MemoryFile(path.read_bytes(), str(path), others)


def _records(sessions):
    return sum(sum(account_of(session.items).values()) for session in sessions)


# Prompts, tool calls, results and replies with words, from MANIFEST.md. The counts of the fork are added.
_MANIFEST = {
    "opencode.db": (5, 2, 2, 5),
    "export-first.json": (2, 1, 1, 2),
    "export-crash-in-tool.json": (1, 1, 0, 0),
    "export-crash-in-stream.json": (1, 0, 0, 0),
}


@pytest.mark.parametrize("name", sorted(_MANIFEST))
def test_sessions_made_by_the_real_tool(name):
    path = f"{_MADE}/{name}"
    source = sample_database(path) if name.endswith(".db") else _file(path)
    assert tuple(_facts(read_sessions(source)).values()) == _MANIFEST[name]


def test_every_row_of_the_database_is_accounted_for():
    """2 sessions, 12 messages, 26 parts and 72 events."""
    source = sample_database(f"{_MADE}/opencode.db")
    assert is_opencode_database(source)
    assert _records(read_sessions(source)) == 2 + 12 + 26 + 72


def test_the_export_of_a_session_has_the_entries_of_its_rows():
    rows = {each.origin.id: entries_of(each) for each in read_sessions(sample_database(f"{_MADE}/opencode.db"))}
    (exported,) = read_sessions(_file(f"{_MADE}/export-first.json"))
    assert entries_of(exported) == rows[exported.origin.id]


def test_the_event_log_of_the_database_leads_to_the_same_messages():
    """The event log is a check of the rows: folded, it gives the same messages."""

    class EventsOnly:
        def __init__(self, source):
            self.path, self.columns, self._source = source.path, source.columns, source

        def rows(self, table, columns, *, where=None, order=()):
            if table not in ("message", "part"):
                yield from self._source.rows(table, columns, where=where, order=order)

    source = sample_database(f"{_MADE}/opencode.db")
    for whole, folded in zip(read_sessions(source), read_sessions(EventsOnly(source)), strict=True):
        expected = [body for body in entries_of(whole) if isinstance(body, Message)]
        assert [body for body in entries_of(folded) if isinstance(body, Message)] == expected


def test_a_synthetic_database():
    name = "opencode/rs-s-ope-01/root/opencode.db"
    facts = EXPECTED[name]
    sessions = list(read_sessions(sample_database(name)))
    assert _records(sessions) == sum(facts["rows"].values())
    # Its tool part has no status but an output, which is kept as the result.
    found = _facts(read_sessions(sample_database(name)))
    assert found == {"prompts": 1, "calls": facts["parts"]["tool"], "results": 1, "answers": 1}


def test_the_other_opencode_is_refused():
    source = sample_database("opencode/NOT-sst-legacy-go-opencode.db")
    assert not is_opencode_database(source)
    assert "Go program opencode-ai/opencode" in (refusal(source) or "")


_EVENTS = sorted(name for name in EXPECTED if name.startswith("opencode/ocn-events"))


def _parts(name):
    """Return the last value of each part of a capture."""
    assert SAMPLES is not None
    events = json.loads((SAMPLES / name).read_bytes())
    return {
        each["properties"]["part"]["id"]: each["properties"]["part"] for each in events if "part" in each["properties"]
    }


@pytest.mark.parametrize("name", _EVENTS)
def test_captured_events(name):
    """Every event is accounted for; each tool part is one call, and one result if it ended."""
    assert is_opencode(json.loads(_file(name).content())[:20])
    assert _records(read_sessions(_file(name))) == EXPECTED[name]["items"]
    states = [part["state"]["status"] for part in _parts(name).values() if part["type"] == "tool"]
    found = _facts(read_sessions(_file(name)))
    assert (found["calls"], found["results"]) == (len(states), states.count("completed") + states.count("error"))


def test_a_captured_sub_agent_is_linked_both_ways():
    parent, child = read_sessions(_file("opencode/ocn-events-explore.json"))
    (spawned,) = [body for body in entries_of(parent) if isinstance(body, Spawned)]
    assert (child.origin.parent, child.origin.parent_call) == (parent.origin.id, spawned.tool_call_id)
    assert (child.agent, child.origin.is_subagent) == ("explore", True)


def test_a_captured_compaction():
    (session,) = read_sessions(_file("opencode/ocn-events-compaction-after-messages.json"))
    (found,) = [body for body in entries_of(session) if isinstance(body, Compaction)]
    # The marker names a message behind the compaction as the first kept one: there is nothing older to keep.
    assert (found.summary, found.first_kept_entry_id) == ("Rendered compaction summary should render.", None)


def test_a_synthetic_export():
    name = "opencode/rs-s-ope-06/root/exports/session.json"
    assert is_opencode([json.loads(_file(name).content())])
    assert _records(read_sessions(_file(name))) == 1 + 2 + 2
    assert _facts(read_sessions(_file(name))) == {"prompts": 1, "calls": 0, "results": 0, "answers": 1}


@pytest.mark.parametrize(
    ("name", "files", "facts"),
    [
        ("opencode/rs-s-ope-02/root/storage/session/project/ses-file.json", 5, (1, 0, 0, 1)),
        ("opencode/as-storage_v2/session/proj_test/ses_s_stage0_small.json", 6, (1, 1, 1, 1)),
        ("opencode/as-storage_v2/session/proj_test/ses_s_stage0_large.json", 16, (2, 1, 1, 2)),
    ],
)
def test_file_trees(name, files, facts):
    """Every file of a session is accounted for. The last reply of two of them has not ended, and is taken as it is."""
    assert is_opencode([json.loads(_tree(name).content())])
    assert _records(read_sessions(_tree(name))) == files
    assert tuple(_facts(read_sessions(_tree(name))).values()) == facts


def test_the_files_of_the_trees_are_all_of_sessions():
    """Together with the migration mark, the sessions of a tree hold all its files."""
    names = [name for name in EXPECTED if name.startswith("opencode/as-storage_v2/")]
    assert len(names) == 6 + 16 + 1


def test_parts_without_a_counterpart_are_kept():
    (session,) = read_sessions(_tree("opencode/as-storage_v2/session/proj_test/ses_s_stage0_large.json"))
    kinds = Counter(
        item.body.custom_type for item in session.items if isinstance(item, ImportedEntry) and item.is_verbatim
    )
    once = {f"opencode:{kind}": 1 for kind in ("session", "file", "compaction", "patch")}
    assert kinds == {**once, "opencode:fields": 4}
