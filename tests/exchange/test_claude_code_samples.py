"""ST-9: the Claude Code samples: tool calls, results, open calls, bad lines and records equal the counted facts."""

import pytest

from tests.exchange.claude_code_files import branch_points, check_sessions, messages
from tests.exchange.samples import EXPECTED, SAMPLES, account_of, needs_samples, sample
from wakelog.exchange.claude_code.reader import is_claude_code, read_sessions
from wakelog.exchange.records import Record, json_records
from wakelog.exchange.sessions import ImportedEntry
from wakelog.log.content import Prompt, Reply, ToolResult

pytestmark = needs_samples

NAMES = sorted(name for name in EXPECTED if name.startswith("claude-code/") and name.endswith(".jsonl"))
MADE = (
    sorted(str(path.relative_to(SAMPLES)) for path in SAMPLES.glob("made-here/claude-code*/**/*.jsonl"))
    if SAMPLES
    else []
)
ALL = [*NAMES, *MADE, "claude-code/sw-sample_session-web-api.json"]

# What differs from the facts, and why.
DIFFERENCES = {
    "claude-code/ccl-edge_cases.jsonl": {"bad_lines": 3},  # three lines are JSON values that are no records
    "claude-code/cc-2.1.7-2.1.12-bad-line.jsonl": {"bad_lines": 0},  # both records of the glued line are read
}
# Prompts, tool calls, results, replies with text: `made-here/MANIFEST.md`.
MADE_FACTS = {
    "7d2fab5f": (4, 1, 1, 4),
    "d242e721": (3, 1, 1, 3),
    "35a3839b": (1, 1, 0, 0),
    "6d4d8ee9": (1, 1, 0, 1),
    "fc28b615": (1, 0, 0, 0),
}


def _items(name):
    """Return the items of all sessions in one sample file."""
    file = sample(name)
    return [item for session, items in check_sessions(file) if session.origin.path == file.path for item in items]


def _facts(items):
    found = [item.body for item in items if isinstance(item, ImportedEntry)]
    account = account_of(items)
    calls = [made for reply in messages(found, Reply) for made in reply.message.tool_calls]
    results = messages(found, ToolResult)
    return {
        "records": account["mapped"] + account["verbatim"] + account["skipped"],
        "bad_lines": account["bad"],
        "tool_calls": len(calls),
        "tool_results": len(results),
        "dangling_calls": len(calls) - len(results),
    }


@pytest.mark.parametrize("name", NAMES)
def test_facts_of_a_sample(name):
    expected = {key: EXPECTED[name].get(key, 0) for key in ("tool_calls", "tool_results", "dangling_calls")}
    expected |= {key: EXPECTED[name][key] for key in ("records", "bad_lines")}
    assert _facts(_items(name)) == expected | DIFFERENCES.get(name, {})


@pytest.mark.parametrize("name", MADE)
def test_facts_of_a_session_made_with_the_real_tool(name):
    items = _items(name)
    found = [item.body for item in items if isinstance(item, ImportedEntry)]
    facts = _facts(items)
    spoken = [reply for reply in messages(found, Reply) if reply.message.text]
    counted = (len(messages(found, Prompt)), facts["tool_calls"], facts["tool_results"], len(spoken))
    assert counted == next(fact for name_part, fact in MADE_FACTS.items() if name_part in name)


@pytest.mark.parametrize("name", [name for name in NAMES if "/cc-" in name])
def test_real_sessions_have_one_reply_for_each_message_and_no_branches(name):
    """None of the recorded sessions was rewound; parallel results and progress are no branches."""
    found = [item.body for item in _items(name) if isinstance(item, ImportedEntry)]
    assert len(messages(found, Reply)) == EXPECTED[name]["api_messages"]
    assert branch_points(found) == []


def test_the_sample_with_a_rewind_has_one_branch():
    found = [item.body for item in _items("claude-code/kv-claude-forked.jsonl")]
    assert len(branch_points(found)) == 1


def test_a_fork_made_with_the_real_tool_shares_its_entries():
    fork, origin = (_items(next(name for name in MADE if part in name)) for part in ("7d2fab5f", "d242e721"))
    first, second = (
        [item.body for item in items if isinstance(item, ImportedEntry) and item.body.type == "message"]
        for items in (fork, origin)
    )
    assert [entry.id for entry in first[: len(second)]] == [entry.id for entry in second]
    assert [entry.message for entry in first[: len(second)]] == [entry.message for entry in second]


@pytest.mark.parametrize("name", ALL)
def test_samples_are_detected(name):
    file = sample(name)
    records = [record.value for record in json_records(file.lines()) if isinstance(record, Record)]
    assert is_claude_code(records[:20]) or name.endswith(".json")


def test_samples_of_other_tools_are_not_detected():
    assert SAMPLES is not None
    others = [path for path in SAMPLES.rglob("*.jsonl") if "claude" not in str(path)]
    assert others
    for path in others:
        records = json_records(sample(str(path.relative_to(SAMPLES))).lines())
        assert not is_claude_code([record.value for record in records if isinstance(record, Record)][:20]), path


def test_the_whole_subagent_sample():
    parent, child = read_sessions(
        sample(next(name for name in NAMES if "as-subagent" in name and "agent-" not in name))
    )
    assert (child.origin.parent, child.agent) == (parent.origin.id, "general-purpose")
