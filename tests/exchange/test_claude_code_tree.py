"""ST-9: the tree of a Claude Code session: rewinds and what only looks like one, compactions, sub-agents."""

import pytest

from tests.exchange.claude_code_files import (
    SESSION,
    branch_points,
    call,
    chained,
    check_sessions,
    entries,
    line,
    messages,
    named,
    progress,
    result,
    source,
    text,
    user,
)
from tests.exchange.samples import account_of, entries_of, jsonl
from wakelog.exchange.claude_code import entries as conversation
from wakelog.exchange.claude_code import sidechains
from wakelog.exchange.claude_code.generations import Generations
from wakelog.exchange.claude_code.reader import read_sessions
from wakelog.exchange.claude_code.records import fingerprint_of
from wakelog.exchange.sessions import session_id
from wakelog.log.content import Prompt, Reply, ToolResult
from wakelog.log.entry import Compaction, Spawned

FIRST_TURN = (user("u1", None, "first"), line("a1", "u1", "m1", text("one")))
SECOND_TURN = (user("u2", "a1", "second"), line("a2", "u2", "m2", text("two")))


def _by_text(found):
    return {entry.message.text: entry for entry in (*messages(found, Prompt), *messages(found, Reply))}


# ── environment ──────────────────────────────────────────────────────────────────────────────────


def _folders(found, leaf):
    """Return the folders that the environments on the path to an entry name, from the first on."""
    by_id = {entry.id: entry for entry in found}
    folders = []
    while leaf is not None:
        if getattr(leaf, "custom_type", "") == "claude-code:environment":
            folders.append(leaf.data["cwd"])
        leaf = by_id.get(leaf.parent_id)
    return folders[::-1]


def test_another_folder_after_a_rewind_is_on_the_new_branch():
    other = [
        {**user("u3", "a1", "instead"), "cwd": "/other"},
        {**line("a3", "u3", "m3", text("three")), "cwd": "/other"},
    ]
    back = {**user("u4", "a2", "back"), "cwd": "/other"}
    found = entries(*FIRST_TURN, *SECOND_TURN, *other, back)
    by_text = _by_text(found)
    assert _folders(found, by_text["three"]) == ["/repo", "/other"]
    assert _folders(found, by_text["two"]) == ["/repo"]
    assert _folders(found, by_text["back"]) == ["/repo", "/other"]


# ── branches ─────────────────────────────────────────────────────────────────────────────────────


def test_results_off_different_lines_are_no_branches():
    found = entries(
        user("u1", None, "hi"),
        line("a1", "u1", "m1", call("c1")),
        line("a2", "a1", "m1", call("c2")),
        progress("p1", "a2"),
        result("r1", "a1", "c1"),
        progress("p2", "a2"),
        result("r2", "a2", "c2"),
        line("a3", "r1", "m2", text("done")),
    )
    assert branch_points(found) == []
    assert [entry.parent_id for entry in found[1:]] == [entry.id for entry in found[:-1]]


def test_a_rewind_is_a_branch():
    found = entries(*FIRST_TURN, *SECOND_TURN, user("u3", "a1", "other second"), line("a3", "u3", "m3", text("three")))
    by_text = _by_text(found)
    assert branch_points(found) == [by_text["one"].id]
    assert by_text["other second"].parent_id == by_text["one"].id
    assert by_text["three"].parent_id == by_text["other second"].id


@pytest.mark.parametrize("between", [progress("p1", "a1"), chained("attachment", "p1", "a1", attachment={"type": "x"})])
def test_a_rewind_behind_a_record_that_is_no_message(between):
    """A hook runs before the new prompt: its record hangs off the old place, and the prompt off that record."""
    found = entries(*FIRST_TURN, *SECOND_TURN, between, user("u3", "p1", "other second"))
    by_text = _by_text(found)
    assert by_text["other second"].parent_id == by_text["one"].id
    assert branch_points(found) == [by_text["one"].id]


def test_a_rewind_to_the_beginning():
    found = entries(*FIRST_TURN, user("u9", None, "anew"))
    by_text = _by_text(found)
    assert by_text["anew"].parent_id == by_text["first"].parent_id


def test_records_without_any_parents_are_a_chain():
    """Old files have no parents at all."""
    found = entries(user("u1", None, "a"), line("a1", None, "m1", text("b")), user("u2", None, "c"))
    assert branch_points(found) == []


def test_a_retry_of_the_model_is_a_branch():
    found = entries(*FIRST_TURN, line("a9", "u1", "m9", text("another")))
    by_text = _by_text(found)
    assert by_text["another"].parent_id == by_text["one"].parent_id == by_text["first"].id


def test_a_late_result_goes_to_the_branch_of_its_call():
    found = entries(
        *FIRST_TURN,
        user("u2", "a1", "second"),
        line("a2", "u2", "m2", call("c1")),
        user("u3", "a1", "other second"),
        result("r1", "a2", "c1"),
        line("a3", "u3", "m3", text("three")),
    )
    (late,) = messages(found, ToolResult)
    assert late.parent_id == late.message.reply_id
    assert _by_text(found)["three"].parent_id == _by_text(found)["other second"].id


def test_a_result_behind_a_prompt_stays_on_the_branch():
    """A person typed while the tool ran."""
    found = entries(
        line("a1", None, "m1", call("c1")), user("u2", "a1", "wait"), result("r1", "a1", "c1"), line("a2", "r1", "m2")
    )
    assert named(found) == ["environment", "reply", "prompt", "result", "reply"]
    assert branch_points(found) == []


# ── compactions ──────────────────────────────────────────────────────────────────────────────────


def _boundary(parent, **metadata):
    return chained(
        "system",
        "b1",
        None,
        logicalParentUuid=parent,
        subtype="compact_boundary",
        compactMetadata={"trigger": "auto", "preTokens": 174_247, "postTokens": 900, **metadata},
    )


SUMMARY = user("s1", "b1", "What was done.", isCompactSummary=True, isVisibleInTranscriptOnly=True)


def test_a_boundary_and_its_summary_are_a_compaction():
    found = entries(*FIRST_TURN, _boundary("a1"), SUMMARY, user("u2", "s1", "go on"))
    assert named(found)[-3:] == ["system:compact_boundary", "compaction", "prompt"]
    compaction = found[-2]
    assert (compaction.summary, compaction.trigger) == ("What was done.", "auto")
    assert (compaction.tokens_before, compaction.tokens_after) == (174_247, 900)
    assert compaction.first_kept_entry_id is None
    assert branch_points(found) == []


def test_a_compaction_names_the_first_record_that_it_keeps():
    kept = {"headUuid": "a2", "anchorUuid": "s1", "tailUuid": "a2"}
    found = entries(*FIRST_TURN, *SECOND_TURN, _boundary("a2", preservedSegment=kept), SUMMARY)
    assert found[-1].first_kept_entry_id == _by_text(found)["two"].id


def test_a_kept_result_is_kept_with_its_call():
    records = (user("u1", None, "hi"), line("a1", "u1", "m1", call("c1")), result("r1", "a1", "c1"))
    found = entries(*records, _boundary("r1", preservedSegment={"headUuid": "r1"}), SUMMARY)
    assert found[-1].first_kept_entry_id == messages(found, Reply)[0].id


def test_records_written_again_after_a_compaction_are_in_the_context_again():
    """Some versions repeat the records that a compaction keeps. Their usage is counted once."""
    file = source(*FIRST_TURN, *SECOND_TURN, _boundary("a2"), SUMMARY, *SECOND_TURN)
    ((_, items),) = check_sessions(file)
    found = [item.body for item in items]
    (at,) = [number for number, entry in enumerate(found) if isinstance(entry, Compaction)]
    assert [entry.message.text for entry in found[at + 1 :]] == ["second", "two"]
    assert found[-1].message.usage is None
    assert found[-2].parent_id == found[at].id


def test_a_summary_without_a_boundary_is_a_compaction():
    (compaction,) = [entry for entry in entries(*FIRST_TURN, SUMMARY) if isinstance(entry, Compaction)]
    assert compaction.trigger == "unknown"


# ── sub-agents ───────────────────────────────────────────────────────────────────────────────────


def _agent(*records):
    return [{**record, "isSidechain": True, "agentId": "a0ad"} for record in records]


AGENT = _agent(user("x1", None, "Search"), line("x2", "x1", "mx", call("cx")), result("x3", "x2", "cx"))
PARENT = (user("u1", None, "hi"), line("a1", "u1", "m1", call("task1", "Task", prompt="Search")))
TASK_RESULT = result("r1", "a1", "task1", "found", toolUseResult={"agentId": "a0ad"})
PATH = f"/p/{SESSION}.jsonl"
OWN_FILE = {f"{SESSION}/subagents/agent-a0ad.jsonl": jsonl(*AGENT)}


def _spawned(found):
    return [entry for entry in found if isinstance(entry, Spawned)]


def _check_child(parent, child):
    """Check that both sessions know each other."""
    found = entries_of(parent)
    (spawned,) = _spawned(found)
    (reply,) = messages(found, Reply)
    assert spawned.child_session == session_id("claude-code", child.origin.id)
    assert (spawned.parent_id, spawned.reply_id, spawned.tool_call_id) == (reply.id, reply.id, "task1")
    origin = child.origin
    assert (origin.is_subagent, origin.parent, origin.parent_call) == (True, parent.origin.id, "task1")
    assert named(entries_of(child))[-3:] == ["prompt", "reply", "result"]


def test_a_subagent_in_a_file_of_its_own():
    """The result of the call names the sub-agent."""
    parent, child = read_sessions(source(*PARENT, TASK_RESULT, path=PATH, others=OWN_FILE))
    _check_child(parent, child)


def test_a_subagent_whose_call_has_no_result_is_known_by_its_sidecar_file():
    meta = b'{"agentType": "explorer", "toolUseId": "task1"}'
    others = {**OWN_FILE, f"{SESSION}/subagents/agent-a0ad.meta.json": meta}
    parent, child = read_sessions(source(*PARENT, path=PATH, others=others))
    _check_child(parent, child)
    assert child.agent == "explorer"


def test_a_subagent_in_a_file_beside_the_session():
    """The older layout. Files of other sessions' sub-agents are left alone."""
    others = {"agent-a0ad.jsonl": jsonl(*AGENT), "agent-ffff.jsonl": jsonl(*AGENT)}
    parent, child = read_sessions(source(*PARENT, TASK_RESULT, path=PATH, others=others))
    _check_child(parent, child)


def test_a_running_subagent_is_known_by_its_progress():
    data = {"type": "agent_progress", "agentId": "a0ad"}
    running = chained("progress", "p1", "a1", data=data, parentToolUseID="task1")
    parent, child = read_sessions(source(*PARENT, running, path=PATH, others={"agent-a0ad.jsonl": jsonl(*AGENT)}))
    _check_child(parent, child)


def test_a_subagent_inside_the_file_of_its_session():
    """The oldest layout: records marked as a sidechain, between those of the session."""
    marked = [{key: value for key, value in record.items() if key != "agentId"} for record in AGENT]
    file = source(*PARENT, *marked[:2], progress("p1", "a1"), marked[2], TASK_RESULT, path=PATH)
    parent, child = read_sessions(file)
    _check_child(parent, child)
    check_sessions(file)


def test_a_subagents_file_alone_gives_the_same_session():
    _, child = read_sessions(source(*PARENT, TASK_RESULT, path=PATH, others=OWN_FILE))
    (alone,) = read_sessions(source(*AGENT, path="agent-a0ad.jsonl"))
    assert (alone.origin.id, alone.started_ms, alone.origin.parent) == (child.origin.id, child.started_ms, SESSION)
    assert entries_of(alone) == entries_of(child)


def test_a_subagent_of_a_subagent():
    inner = [{**record, "agentId": "b1b1", "uuid": f"i{record['uuid']}"} for record in AGENT]
    others = {
        **OWN_FILE,
        f"{SESSION}/subagents/agent-b1b1.jsonl": jsonl(*inner),
        f"{SESSION}/subagents/agent-b1b1.meta.json": b'{"parentAgentId": "a0ad", "toolUseId": "cx"}',
        f"{SESSION}/subagents/journal.jsonl": b'{"type": "started"}\n',
    }
    _, outer, nested = read_sessions(source(*PARENT, TASK_RESULT, path=PATH, others=others))
    assert nested.origin.parent == outer.origin.id
    (spawned,) = _spawned(entries_of(outer))
    assert spawned.child_session == session_id("claude-code", nested.origin.id)


@pytest.mark.parametrize("agent_id", ["../../x", "a/b", "", 7, None, "x" * 500])
def test_a_hostile_agent_id_opens_nothing(agent_id):
    record = result("r1", "a1", "task1", toolUseResult={"agentId": agent_id})
    assert len(list(read_sessions(source(*PARENT, record, path=PATH, others={"x.jsonl": jsonl(*AGENT)})))) == 1


UNNAMED_AGENT = (
    {**user("s1", None, "do it"), "isSidechain": True},
    {**line("s2", "s1", "m9", text("sub done")), "isSidechain": True},
)


def test_a_file_of_a_sub_agent_is_known_by_its_name():
    """Also if its records do not name the sub-agent."""
    started = result("r1", "a1", "t1", "sub done", toolUseResult={"agentId": "ab12"})
    main = (user("u1", None, "go"), line("a1", "u1", "m1", call("t1", "Task", prompt="do it")), started)
    others = {f"{SESSION}/subagents/agent-ab12.jsonl": jsonl(*UNNAMED_AGENT)}
    sessions = check_sessions(source(*main, path=f"{SESSION}.jsonl", others=others))
    assert [session.origin.id for session, _ in sessions] == [SESSION, f"{SESSION}:agent-ab12"]
    alone = check_sessions(source(*UNNAMED_AGENT, path="agent-ab12.jsonl"))
    for (session, items), count in zip([sessions[1], *alone], (2, 2), strict=True):
        assert (session.origin.id, session.origin.is_subagent) == (f"{SESSION}:agent-ab12", True)
        assert sum(account_of(items).values()) == count


def test_sub_agents_of_a_workflow():
    others = {
        f"{SESSION}/workflows/wf_1.json": b"{}",
        f"{SESSION}/subagents/workflows/wf_1/agent-ab12.jsonl": jsonl(*UNNAMED_AGENT),
        f"{SESSION}/subagents/workflows/wf_1/agent-ab12.meta.json": b'{"agentType": "worker"}',
    }
    sessions = [session for session, _ in check_sessions(source(*FIRST_TURN, path=f"{SESSION}.jsonl", others=others))]
    assert [(session.origin.id, session.agent) for session in sessions[1:]] == [(f"{SESSION}:agent-ab12", "worker")]


# ── growth of the work with the file ─────────────────────────────────────────────────────────────


def _sidechains(count):
    roots = [{**user(f"s{at}", None, f"task {at}"), "isSidechain": True} for at in range(count)]
    return (*FIRST_TURN, *roots)


@pytest.mark.parametrize(("limit", "passes_max"), [(1 << 20, 1), (2_000, 20), (1, 40)])
def test_sub_agents_in_a_file_are_read_together(limit, passes_max, monkeypatch):
    """As many as fit into memory; one that does not fit is read from the file."""
    monkeypatch.setattr(sidechains, "_LINES_BYTES", limit)
    file = source(*_sidechains(40))
    passes, lines = 0, file.lines

    def counted():
        nonlocal passes
        passes += 1
        return lines()

    monkeypatch.setattr(file, "lines", counted)
    found = [[entry.message.text for entry in messages(entries_of(each), Prompt)] for each in read_sessions(file)]
    assert found == [["first"], *([f"task {at}"] for at in range(40))]
    # Besides: the kind of the file, the plan, and the session itself.
    assert passes <= passes_max + 3


def test_a_record_with_many_results_is_hashed_once(monkeypatch):
    hashed = 0

    def counted(value):
        nonlocal hashed
        hashed += 1
        return fingerprint_of(value)

    monkeypatch.setattr(conversation, "fingerprint_of", counted)
    calls = [call(f"t{at}") for at in range(50)]
    blocks = [{"type": "tool_result", "tool_use_id": made["id"], "content": "x"} for made in calls]
    found = entries(line("a1", None, "m1", *calls), user("r1", "a1", blocks))
    assert len(messages(found, ToolResult)) == 50
    assert hashed <= 4


def test_a_generation_far_back_is_found_in_few_steps(monkeypatch):
    steps = 0
    nearer = Generations._nearer

    def counted(tree, generation, depth):
        nonlocal steps
        steps += 1
        return nearer(tree, generation, depth)

    monkeypatch.setattr(Generations, "_nearer", counted)
    tree = Generations()
    for at in range(5_000):
        tree.begin(f"e{at}", tree.current)
    main = tree.current
    tree.begin("other", 17)
    for generation in range(5_001):
        assert tree.is_on_branch(generation, main)
        assert tree.is_on_branch(generation, tree.current) == (generation <= 17)
    assert steps < 2 * 5_001 * 2 * 13
