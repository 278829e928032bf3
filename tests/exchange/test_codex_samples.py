"""ST-9: the Codex sessions among the samples, compared with facts that were counted independently."""

import sqlite3
from collections import Counter

import pytest

from tests.exchange.codex_records import checked, messages, replies, results
from tests.exchange.samples import EXPECTED, SAMPLES, account_of, needs_samples, sample
from tests.exchange.test_codex_trees import Database
from wakelog.errors import UsageError
from wakelog.exchange.codex.reader import is_codex, read_sessions, titles_from_state
from wakelog.exchange.records import BadRecord, json_records
from wakelog.exchange.sessions import ImportedEntry
from wakelog.log.content import Note, Prompt, Usage
from wakelog.log.entry import Cancelled, Compaction, Custom

pytestmark = needs_samples

NAMES = (
    sorted(
        str(path.relative_to(SAMPLES))
        for folder in ("codex", "made-here/codex-0.166.0")
        for path in (SAMPLES / folder if SAMPLES else []).rglob("*.jsonl")
        if "history" not in path.name
    )
    if SAMPLES
    else []
)
MADE_HERE = "made-here/codex-0.166.0"
BASE = f"{MADE_HERE}/rollout-2026-11-16T18-09-22-01a1e58c-a4a7-7f43-a864-f2fbb0bd7fbc.jsonl"
FORK = f"{MADE_HERE}/rollout-2026-11-16T18-09-47-01a1e58d-0903-7933-be73-2f41487b1ddb.jsonl"
REAL = "codex/rollout-2026-03-05T22-50-24-019cc1e9-6537-70a3-a8cd-d2957e043dd4.jsonl"
ZOO = "codex/as-codex-record-zoo-0.146.jsonl"
# prompts, tool calls, results and answers of MANIFEST.md; the fork has those of its base, too.
MANIFEST = {
    BASE: (2, 1, 1, 2),
    FORK: (3, 1, 1, 3),
    f"{MADE_HERE}/crash-in-tool/rollout-2026-11-16T18-10-59-01a1e58e-22f2-7700-a78d-f75dd2702f2d.jsonl": (1, 1, 0, 0),
    f"{MADE_HERE}/crash-in-stream/rollout-2026-11-16T18-11-09-01a1e58e-47ec-76d2-a84e-4109cc6e4869.jsonl": (1, 0, 0, 0),
}
DIFFERENCES = {
    # Facts count distinct call ids of function and custom calls. All trimmed calls of this sample have one id.
    (ZOO, "tool_calls"): "6: two calls with the trimmed id are counted each, and two calls of tool_search are calls",
    (ZOO, "tool_results"): "5: both results with the trimmed id are counted, and the result of a tool_search",
    (ZOO, "dangling_calls"): "1: a call of tool_search without a result",
    (ZOO, "orphan_results"): "1: the first result with the trimmed id stands before every call",
}


def _read(name):
    (session,) = read_sessions(sample(name))
    return session


def _record_count(name):
    return sum(1 for _ in json_records(sample(name).lines()))


def _facts(items):
    bodies = [item.body for item in items if isinstance(item, ImportedEntry)]
    calls = sum(len(reply.tool_calls) for reply in replies(bodies))
    orphans = [body for body in bodies if isinstance(body, Custom) and body.custom_type.endswith("_output")]
    return {
        "records": sum(account_of(items).values()),
        "bad_lines": sum(isinstance(item, BadRecord) for item in items),
        "tool_calls": calls,
        "tool_results": len(results(bodies)),
        "dangling_calls": calls - len(results(bodies)),
        "orphan_results": len(orphans),
    }


def test_there_are_samples():
    assert len(NAMES) >= 11


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_recognised(name):
    assert is_codex([record.value for record in json_records(sample(name).lines())][:20])


@pytest.mark.parametrize("name", [name for name in NAMES if name in EXPECTED])
def test_facts(name):
    """Record counts, calls, results, dangling calls and bad lines; each difference has its reason."""
    found = _facts(list(_read(name).items))
    for fact, expected in EXPECTED[name].items():
        if fact not in found:
            continue
        difference = DIFFERENCES.get((name, fact))
        assert found[fact] == (expected if difference is None else int(difference.partition(":")[0])), fact


@pytest.mark.parametrize("name", NAMES)
def test_every_record_is_accounted_for(name):
    checked(_read(name), _record_count(name) + (29 if name == FORK else 0))


@pytest.mark.parametrize("name", MANIFEST)
def test_sessions_made_by_the_real_tool(name):
    bodies = [item.body for item in _read(name).items if isinstance(item, ImportedEntry)]
    answers = [reply for reply in replies(bodies) if reply.text]
    calls = sum(len(reply.tool_calls) for reply in replies(bodies))
    prompts = [message for message in messages(bodies) if isinstance(message, Prompt)]
    assert (len(prompts), calls, len(results(bodies)), len(answers)) == MANIFEST[name]


def test_a_fork_begins_with_its_base():
    base, fork = _read(BASE), _read(FORK)
    assert fork.origin.parent == base.origin.id
    own = [item.body for item in base.items if isinstance(item, ImportedEntry)]
    inherited = [item.body for item in fork.items if isinstance(item, ImportedEntry)]
    assert inherited[: len(own)] == own
    assert messages(inherited)[-1].text == "fork answer"


def test_usage_adds_up_to_the_total_that_codex_counted():
    """The last `token_count` has the total of the session: 194,419 tokens of input, 163,712 of them cached."""
    bodies = [item.body for item in _read(REAL).items if isinstance(item, ImportedEntry)]
    total = sum((reply.usage for reply in replies(bodies) if reply.usage), Usage(cost_micros=0))
    assert (total.input_tokens + total.cache_read_tokens, total.cache_read_tokens) == (194_419, 163_712)
    assert total.output_tokens == 1_709
    assert len(replies(bodies)) == 7


def test_a_real_session():
    bodies = [item.body for item in _read(REAL).items if isinstance(item, ImportedEntry)]
    kinds = Counter(type(message).__name__ for message in messages(bodies))
    assert kinds == {"Prompt": 1, "Note": 4, "Reply": 7, "ToolResult": 11}
    assert [type(body) for body in bodies if isinstance(body, Cancelled)] == [Cancelled]
    assert {reply.model for reply in replies(bodies)} == {"gpt-5.3-codex"}
    assert all(reply.parts[0].signature for reply in replies(bodies))
    assert [result.status for result in results(bodies)][-3:] == ["interrupted"] * 3
    assert {note.custom_type for note in messages(bodies) if isinstance(note, Note)} == {
        "codex:developer",
        "codex:agents_md",
        "codex:turn_aborted",
    }


def test_compactions():
    bodies = [item.body for item in _read("codex/kv-codex-compaction.jsonl").items if isinstance(item, ImportedEntry)]
    (compaction,) = [body for body in bodies if isinstance(body, Compaction)]
    assert compaction.summary.startswith("**Progress + Plan Status**")
    zoo = [item.body for item in _read(ZOO).items if isinstance(item, ImportedEntry)]
    assert sum(isinstance(body, Compaction) for body in zoo) == 6


def test_the_prompt_history_is_refused():
    source = sample("codex/kv-codex-history.jsonl")
    assert not is_codex([record.value for record in json_records(source.lines())])
    with pytest.raises(UsageError, match="not a transcript"):
        list(read_sessions(source))


def test_state_databases():
    assert SAMPLES is not None
    folder = SAMPLES / "codex/rs-s-cod-01-state-generation-selection/root"
    found = {}
    for number in (9, 10):
        connection = sqlite3.connect(f"file:{folder}/state_{number}.sqlite?mode=ro&immutable=1", uri=True)
        found[number] = titles_from_state(Database(connection))
        connection.close()
    assert found == {9: {"0493207e-6039-5026-81d4-e75c0efff76a": "Synthetic DB title"}, 10: {}}
