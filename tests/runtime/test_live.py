"""TREE-6, RUN-12, RUN-19: the live runtime: sub-agents as sessions of their own, cancels, and the tools in reach."""

import asyncio

import pytest

from tests.runtime.rigs import Rig
from wakelog.decide import wording
from wakelog.decide.decisions import Await, Idle
from wakelog.decide.policy import Policy, policy_in_force, stored_policy
from wakelog.errors import Conflict
from wakelog.log.codec import canonical_json
from wakelog.log.content import BlobRef, Reply, ToolResult
from wakelog.log.entry import ContextEntry, Message, Queued, Spawned
from wakelog.projections.branch_state import branch_state
from wakelog.questions import open_questions, resolve_question
from wakelog.reading import read_log
from wakelog.runtime import live
from wakelog.runtime.interface import SubagentTask
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.model_request import declared_tools
from wakelog.runtime.subagents import cancel_subagent, is_subagent_blocked, run_subagent
from wakelog.runtime.user_actions import request_cancel
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.tools.subagent import SubagentProfile, SubagentTool
from wakelog.watcher import Subscription


def _hand_over(*prompts):
    return {"text": "I hand it on.", "toolCalls": [{"name": "agent", "input": {"prompt": each}} for each in prompts]}


def _pay(n):
    return {"toolCalls": [{"name": "pay", "input": {"n": n}}]}


FAMILY = {
    "Go.": [_hand_over("Help."), {"text": "Done."}],
    "Both.": [_hand_over("Help.", "Pay."), {"text": "Done."}],
    "Help.": [{"text": "Helped."}],
    "Pay.": [_pay(1), {"text": "Paid."}],
    "Deep.": [_hand_over("Deep."), {"text": "Deep enough."}],
    "Fail.": [{"error": {"kind": "broken", "message": "out of order"}}],
    "Ask to fail.": [_hand_over("Fail."), {"text": "Oh well."}],
    "Silent.": [{}],
    "Ask silent.": [_hand_over("Silent."), {"text": "Oh well."}],
    "Empty.": [_hand_over(""), {"text": "Oh well."}],
}


def _results(rig):
    return [value.message for value in rig.values(Message) if isinstance(value.message, ToolResult)]


def _children(rig):
    return [spawned.child_session for spawned in rig.values(Spawned)]


def test_a_child_is_a_session_whose_last_reply_is_the_result():
    """TREE-6: it has its own log, its parent's context with one level of depth less, and no channels."""
    rig = Rig(FAMILY)
    rig.say("Go.")
    (child,) = _children(rig)
    assert [result.text for result in _results(rig)] == ["Helped."]
    log = read_log(rig.store, child)
    assert log.header.value.parent.kind == "subagent"
    state = branch_state(log.tree.branch())
    assert policy_in_force(state.context).children == rig.policy.children - 1
    said = [node.id for node in log.tree.branch().nodes if _is_reply(node)]
    assert not set(said) & set(rig.outside.channel.replies)


def _is_reply(node):
    return isinstance(node.value, Message) and isinstance(node.value.message, Reply)


def test_two_children_of_one_reply_have_each_their_own_result():
    """Law 7: they run concurrently, and each call gets the result of its own child."""
    rig = Rig(FAMILY)
    rig.say("Both.")
    results = {result.tool_call_id: result.text for result in _results(rig)}
    assert sorted(results.values()) == ["Helped.", "Paid."]
    spawned = {value.tool_call_id: value.child_session for value in rig.values(Spawned)}
    for call, child in spawned.items():
        said = [node.value.message.text for node in read_log(rig.store, child).tree.branch().nodes if _is_reply(node)]
        assert results[call] == said[-1]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(4, 24, 2))
def test_a_crash_anywhere_makes_no_second_child(at, after):
    """TREE-6, law 6: the child is named in the log before it exists, and its payment happens once."""
    rig = Rig({"Go.": [_hand_over("Pay."), {"text": "Done."}], "Pay.": FAMILY["Pay."]})
    rig.session.say("Go.")
    rig.die(at, after=after)
    assert rig.wake().decision == Idle()
    assert len(_children(rig)) == 1
    assert len(list(rig.store.sessions())) == 2
    assert all(count == 1 for count in rig.outside.effects.values())
    assert len(_results(rig)) == 1


def test_a_parent_waits_while_its_child_waits_for_a_person():
    """TREE-6, RUN-13: the question is in the child's log; once it is answered there, both continue."""
    rig = Rig({**FAMILY, "Go.": [_hand_over("Pay."), {"text": "Done."}]}, approvals={"pay": "ask"})
    assert isinstance(rig.say("Go.").decision, Await)
    child = Session(rig.store, _children(rig)[0], clock=rig.clock)
    assert is_subagent_blocked(rig.runtime(), child.id)
    before = len(rig.entries)
    assert isinstance(rig.wake().decision, Await)
    assert len(rig.entries) == before
    (question,) = open_questions(child)
    resolve_question(child, question.attention.id, "approve")
    assert not is_subagent_blocked(rig.runtime(), child.id)
    assert rig.wake().decision == Idle()
    assert [result.text for result in _results(rig)] == ["Paid."]


def test_cancelling_a_parent_cancels_its_child():
    """RUN-12: the child's turn ends too, and its tool does not run."""
    rig = Rig({**FAMILY, "Go.": [_hand_over("Pay."), {"text": "Done."}]}, approvals={"pay": "ask"})
    rig.say("Go.")
    request_cancel(rig.session)
    assert rig.wake().decision == Idle("cancelled")
    child = Session(rig.store, _children(rig)[0], clock=rig.clock)
    assert branch_state(child.branch()).ends_in == "cancelled"
    assert rig.outside.effects == {}
    # The child was started: its effects until then stay.
    assert [result.status for result in _results(rig)] == ["interrupted"]
    asyncio.run(cancel_subagent(rig.runtime(), "never-was"))


def test_a_failed_or_silent_child_gives_an_error_result():
    """RUN-7: a failed child and one without text give errors; a child without a task is not created."""
    for prompt, text in [
        ("Ask to fail.", wording.CHILD_FAILED.format(message="out of order")),
        ("Ask silent.", wording.CHILD_WITHOUT_REPLY),
        ("Empty.", wording.NO_PROMPT),
    ]:
        rig = Rig(FAMILY)
        rig.say(prompt)
        assert [(result.status, result.text) for result in _results(rig)] == [("error", text)]


def test_children_are_limited_in_depth():
    """RUN-16: reaching the limit gives an error result."""
    rig = Rig(FAMILY, children=2)
    rig.say("Deep.")
    assert len(list(rig.store.sessions())) == 3
    last = read_log(rig.store, max(stat.name for stat in rig.store.sessions()))
    said = [entry.value.message.text for entry in last.entries if type(entry.value) is Message]
    assert wording.TOO_DEEP in said


def test_a_child_held_by_another_worker_is_left_alone():
    """Law 6: the worker that holds the lease of the child continues it."""
    rig = Rig({**FAMILY, "Go.": [_hand_over("Pay."), {"text": "Done."}]}, approvals={"pay": "ask"})
    rig.say("Go.")
    child = Session(rig.store, _children(rig)[0], clock=rig.clock)
    resolve_question(child, open_questions(child)[0].attention.id, "approve")
    child.acquire("another", ttl_s=60)
    assert is_subagent_blocked(rig.runtime(), child.id)
    assert isinstance(rig.wake().decision, Await)
    with pytest.raises(Conflict):
        child.acquire("me", ttl_s=60)


def test_cancels_of_other_processes_are_seen():
    """RUN-12: cancels before the position of the watcher are ignored."""
    store = MemoryStore()
    session = Session.create(store)
    session.append(Queued(mode="cancel"))
    seen = session.last_seq

    async def watched():
        watching = asyncio.ensure_future(LiveRuntime(session.store).wait_for_cancel(session, seen))
        await asyncio.sleep(0)
        other = Session(store, session.id)
        other.append(Queued(mode="steer"))
        wanted = other.append(Queued(mode="cancel"))
        return (await watching).id, wanted.id

    found, wanted = asyncio.run(watched())
    assert found == wanted


def test_work_that_ends_at_once_starts_no_watch(monkeypatch):
    """RUN-12: watching a session takes a thread; work that needs less time than that does not wait for it."""
    monkeypatch.setattr(live, "_UNWATCHED_S", 3_600.0)
    monkeypatch.setattr(Subscription, "start", lambda *_: pytest.fail("a watch was started"))
    session = Session.create(MemoryStore())

    async def worked():
        watching = asyncio.ensure_future(LiveRuntime(session.store).wait_for_cancel(session, session.last_seq))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not watching.done()
        watching.cancel()

    asyncio.run(worked())


def test_tools_of_the_caller_replace_built_in_ones(tmp_path):
    """RUN-19: by name, in the working folder of the session."""
    rig = Rig(FAMILY)
    (mine,) = [each for each in rig.outside.tools if each.name == "look"]
    mine.name = "read"
    at_hand = LiveRuntime(MemoryStore(), tools=[mine]).tools(str(tmp_path), [])
    assert at_hand["read"] is mine
    assert {"write", "edit", "list", "grep", "shell", "agent"} <= set(at_hand)


def test_a_child_with_a_profile_has_its_own_context_and_less_depth():
    """TREE-6, VIEW-12: its own tools and environment, and its parent's servers, sub-agents and working folder."""
    store = MemoryStore()
    sends = SubagentTool({"other": SubagentProfile()}).declared()
    theirs = [{"name": f"mcp__{name}__x", "from": {"mcp": {"name": name}}} for name in ("search", "secret")]
    sender = ContextEntry(
        tools=store.blobs.put(canonical_json([sends, *theirs, {"name": "odd", "from": 7}]), "application/json"),
        environment={"cwd": "/", "model": "parent", "provider": "p", "reasoning": "low", "approvalPolicy": "ask"},
        params={"endpoint": "http://here", "effort": "low"},
        policy={"children": 2},
    )
    policy = stored_policy(Policy(approval="deny", children=9))
    other = SubagentProfile(system="Be strict.", tools=({"name": "agent"},), servers=("search",), policy=policy)
    subagent_task = SubagentTask(
        child_session="c", prompt="Look.", parent_session="s", reply_id="r", tool_call_id="t", agent="other",
        sender="me", cwd="/repo", model="demo", provider="demo", context=sender, profile=other,
    )  # fmt: skip
    asyncio.run(run_subagent(LiveRuntime(store), subagent_task))
    made = branch_state(read_log(store, "c").tree.branch()).context
    assert declared_tools(store.blobs, made.tools, made.id) == [sends, theirs[0]]
    assert isinstance(made.system, BlobRef)
    assert (store.blobs.get(made.system), made.params) == (b"Be strict.", {"endpoint": "http://here"})
    assert made.environment == {
        "cwd": "/repo",
        "git": "",
        "model": "demo",
        "provider": "demo",
        "reasoning": "default",
        "capabilities": {"canResume": True, "needsReasoningBack": False},
        "approvalPolicy": "deny",
        "sandboxPolicy": "none",
        "network": "allowed",
    }
    assert policy_in_force(made) == Policy(approval="deny", children=1)


def test_a_child_inherits_the_context_of_its_parent():
    """RUN-19: instructions, tools and parameters."""
    rig = Rig(FAMILY)
    rig.say("Go.")
    (record,) = rig.values(ContextEntry)
    handed = branch_state(read_log(rig.store, _children(rig)[0]).tree.branch()).context
    assert (handed.tools, handed.params) == (record.tools, record.params)
