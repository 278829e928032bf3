"""ST-9: the samples of Gemini CLI have the counted facts."""

import json

import pytest

from tests.exchange.pi_records import check_entries, messages
from tests.exchange.samples import EXPECTED, SAMPLES, MemoryFile, account_of, entries_of, needs_samples, sample
from wakelog.exchange.claude_code.reader import is_claude_code
from wakelog.exchange.codex.reader import is_codex
from wakelog.exchange.gemini.reader import is_gemini, read_sessions
from wakelog.exchange.openclaw import is_openclaw
from wakelog.exchange.opencode.reader import is_opencode
from wakelog.exchange.pi.reader import is_pi
from wakelog.exchange.records import Record, json_records
from wakelog.log.content import Note, Prompt, Reply, ToolResult
from wakelog.log.entry import Custom

pytestmark = needs_samples

MADE = "made-here/gemini-cli-0.61.0"
LOGS = sorted(name for name in EXPECTED if name.startswith("gemini-cli/") and name.endswith(".jsonl"))
DOCUMENTS = sorted(name for name in EXPECTED if name.startswith("gemini-cli/") and "messages" in EXPECTED[name])
# Messages of type `model` are none of Gemini CLI's: they are kept verbatim.
DIFFERENCES: dict[str, dict[str, int]] = {"gemini-cli/as-gemini-large.json": {"kept verbatim": 2}}


def sample_bytes(name):
    assert SAMPLES is not None
    return (SAMPLES / name).read_bytes()


def _main(name):
    return next(iter(read_sessions(sample(name))))


@pytest.mark.parametrize("name", LOGS)
def test_logs_of_operations(name):
    facts = EXPECTED[name]
    raw = sample(name).content()
    assert is_gemini([json.loads(line) for line in raw.splitlines()][:20])
    items = list(_main(name).items)
    assert sum(account_of(items).values()) == facts["records"]
    entries = entries_of(_main(name))
    check_entries(entries)
    found = len(messages(entries, Prompt)), len(messages(entries, Reply))
    assert found == (facts["types"]["user"], facts["types"]["gemini"])
    calls = [call for reply in messages(entries, Reply) for call in reply.tool_calls]
    assert len(calls) == len(messages(entries, ToolResult)) == raw.count(b'"args":')


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(name):
    facts = EXPECTED[name]
    kinds = facts["messages"]
    assert is_gemini([json.loads(sample(name).content())])
    items = list(_main(name).items)
    assert sum(account_of(items).values()) == 1 + sum(kinds.values())
    entries = entries_of(_main(name))
    check_entries(entries)
    assert (len(messages(entries, Prompt)), len(messages(entries, Reply))) == (kinds["user"], kinds["gemini"])
    calls = [call for reply in messages(entries, Reply) for call in reply.tool_calls]
    assert len(calls) == len(messages(entries, ToolResult)) == facts["tool_calls"]
    kept = [entry.data for entry in entries if isinstance(entry, Custom) and entry.custom_type == "gemini-cli:model"]
    assert len(kept) == kinds.get("model", 0) == DIFFERENCES.get(name, {}).get("kept verbatim", 0)


def test_logged_prompts():
    name = "gemini-cli/kv-gemini-logs.json"
    facts = EXPECTED[name]
    assert is_gemini(json.loads(sample(name).content()))
    sessions = [list(session.items) for session in read_sessions(sample(name))]
    assert sum(sum(account_of(items).values()) for items in sessions) == facts["items"]
    entries = [item.body for items in sessions for item in items]
    assert (len(messages(entries, Prompt)), len(messages(entries, Reply))) == (
        facts["types"]["user"],
        facts["types"]["gemini"],
    )


def test_a_sub_agent_is_found_below_its_session():
    [name] = [name for name in LOGS if "/chats/session-" in name]
    parent, child = read_sessions(sample(name))
    assert (child.origin.parent, child.origin.is_subagent) == (parent.origin.id, True)
    [alone] = read_sessions(sample(next(name for name in LOGS if "bbbb" in name)))
    assert alone.origin.parent == parent.origin.id


# Prompts, tool calls, results and replies with words, from MANIFEST.md; and records.
_MANIFEST = {
    "session-2026-11-16T18-19-bb744043.jsonl": (3, 1, 1, 3, 28),
    "crash-in-tool/session-2026-11-16T18-21-b97f5415.jsonl": (1, 0, 0, 0, 6),
    "crash-in-stream/session-2026-11-16T18-21-6b38e7e7.jsonl": (1, 0, 0, 0, 4),
}


@pytest.mark.parametrize("name", sorted(_MANIFEST))
def test_sessions_made_by_the_real_tool(name):
    entries = entries_of(_main(f"{MADE}/{name}"))
    check_entries(entries)
    replies = messages(entries, Reply)
    facts = (
        len(messages(entries, Prompt)),
        sum(len(reply.tool_calls) for reply in replies),
        len(messages(entries, ToolResult)),
        sum(bool(reply.text) for reply in replies),
        sum(account_of(_main(f"{MADE}/{name}").items).values()),
    )
    assert facts == _MANIFEST[name]
    assert len(messages(entries, Note)) == 1


def test_a_crash_in_a_tool_leaves_a_trace():
    """The call is not on disk; the reply without text shows that there was one."""
    name = "crash-in-tool/session-2026-11-16T18-21-b97f5415.jsonl"
    assert entries_of(_main(f"{MADE}/{name}"))[-1].custom_type == "gemini-cli:lost_call"


def test_title_and_folder_of_the_real_session():
    session = _main(f"{MADE}/session-2026-11-16T18-19-bb744043.jsonl")
    assert (session.title, session.cwd) == ("Short title", "/scratch/a/proj-gemini")


@pytest.mark.parametrize("name", sorted(name for name in EXPECTED if name.endswith((".jsonl", ".json"))))
def test_only_its_own_samples_are_recognised(name):
    """A file of one agent is never taken for one of another."""
    raw = sample_bytes(name)
    try:
        document = json.loads(raw)
    except ValueError:
        document = [record.value for record in json_records(MemoryFile(raw).lines()) if isinstance(record, Record)]
    found = document[:20] if isinstance(document, list) else [document]
    assert is_gemini(found) == name.startswith("gemini-cli/")
    if name.startswith("gemini-cli/"):
        assert not any(test(found) for test in (is_claude_code, is_codex, is_openclaw, is_opencode, is_pi))
