"""RUN-13: a name in `approvals` that is no tool ends the turn before any tool runs: nothing runs unasked."""

import asyncio
from collections import Counter

import msgspec
import pytest

from tests.kernel.plays import Play
from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy, stored_policy
from wakelog.errors import UsageError
from wakelog.log.content import ToolResult
from wakelog.log.entry import ContextEntry, Failed, Message, ModelCall, ToolStarted
from wakelog.projections.branch_state import branch_state
from wakelog.runtime.replay.verification import replay
from wakelog.runtime.user_actions import retry_turn
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.tools import SubagentTool, tool
from wakelog.tools.subagent import SubagentProfile

TYPO = Policy(approvals={"pya": "ask"})
REPLIES = {"Go.": [{"toolCalls": [{"name": "pay", "input": {}}]}, {"text": "Done."}]}
SERVER = {"name": "bank", "command": ["bank-server"]}
PROMPT = {"type": "object", "properties": {"prompt": {"type": "string"}}}


class Bench:
    """An agent with the tool `pay`, which counts its runs, and a store."""

    def __init__(self, replies=None, **settings):
        self.paid = Counter[str]()
        self.store = MemoryStore()

        @tool
        def pay() -> str:
            """Pays."""
            self.paid["pay"] += 1
            return "paid"

        self.pay = pay
        self.play = Play(replies or REPLIES)
        self.settings = settings

    def agent(self, policy=None, **changes):
        settings = {"tools": [self.pay], **self.settings, **changes}
        return Agent("scripted:m", policy=policy or Policy(), provider=self.play, **settings)

    def begun(self):
        """Return a session of the agent with a good policy, to which no prompt was given."""
        return self.agent().begin(self.store)

    def wake(self, session, **more):
        return asyncio.run(self.agent().wake(self.store, session, **more))

    def values(self, session, *kinds):
        return [entry.value for entry in Session(self.store, session.name).entries() if isinstance(entry.value, kinds)]


def put(session, policy, **changes):
    """Write a policy into the log, as an older version or another program may have done."""
    context = branch_state(session.branch()).context.without_envelope
    session.append(msgspec.structs.replace(context, policy=stored_policy(policy), **changes))


def test_a_program_is_told_before_anything_is_written():
    bench = Bench()
    with pytest.raises(UsageError) as raised:
        asyncio.run(bench.agent(TYPO).run(bench.store, "Go."))
    assert raised.value.message == "approvals names a tool 'pya' that does not exist"
    assert raised.value.hint == "did you mean 'pay'?"
    assert list(bench.store.sessions()) == []
    session = bench.begun()
    before = session.last_seq
    with pytest.raises(UsageError, match="'pya'"):
        asyncio.run(bench.agent(TYPO).run(bench.store, "Go.", session=session))
    assert Session(bench.store, session.name).last_seq == before


@pytest.mark.parametrize("how", ["ask", "deny", "auto"])
def test_a_name_in_the_log_ends_the_turn_before_the_model_is_called(how):
    """Law 11: replay does it again, from the log alone."""
    bench = Bench()
    session = bench.begun()
    put(session, Policy(approvals={"pya": how}))
    session.say("Go.")
    result = bench.wake(session)
    assert (result.state, result.error.kind) == ("failed", "approvals")
    assert result.error.message == "approvals names a tool 'pya' that does not exist: did you mean 'pay'?"
    assert [value.reason for value in bench.values(session, Failed)] == ["approvals"]
    assert bench.values(session, ModelCall, ToolStarted) == []
    assert bench.wake(session).state == "failed"
    with pytest.raises(UsageError, match="'pya'"):
        retry_turn(Session(bench.store, session.name))
    assert len(bench.values(session, Failed)) == 1
    assert asyncio.run(replay(bench.store, session.name)).ok


def test_calls_that_are_open_when_the_name_enters_the_log_are_not_run():
    """Law 7: each gets its result, then the turn ends; the corrected policy continues the session."""
    bench = Bench()
    session = bench.begun()
    session.say("Go.")
    bench.wake(session, steps=1)
    assert len(bench.values(session, ModelCall)) == 1
    put(Session(bench.store, session.name), TYPO)
    assert bench.wake(session).state == "failed"
    (result,) = [value.message for value in bench.values(session, Message) if isinstance(value.message, ToolResult)]
    assert result.effective_status == "denied"
    assert result.text == "Not run: approvals names a tool 'pya' that does not exist: did you mean 'pay'?"
    assert bench.paid["pay"] == 0
    put(Session(bench.store, session.name), Policy())
    retry_turn(Session(bench.store, session.name))
    assert bench.wake(session).text == "Done."
    assert asyncio.run(replay(bench.store, session.name)).ok


def test_a_question_about_a_call_does_not_run_it_either():
    """A person approved the call before; the policy that is in force now cannot be applied."""
    bench = Bench()
    session = bench.agent(Policy(approvals={"pay": "ask"})).begin(bench.store)
    session.say("Go.")
    result = bench.wake(session)
    (question,) = result.questions
    put(Session(bench.store, session.name), TYPO)
    question.answer("approve")
    assert bench.wake(session).state == "failed"
    assert bench.paid["pay"] == 0


def test_names_of_a_server_that_is_not_connected_are_known():
    """Decision 027: its tools are unknown until it answers; the names of all other servers are checked."""
    names = Policy(approvals={"mcp__bank__transfer": "ask"})
    bench = Bench(absent=(SERVER,))
    assert asyncio.run(bench.agent(names).run(bench.store, "Go.")).text == "Done."
    with pytest.raises(UsageError, match="'mcp__banc__transfer'"):
        bench.agent(Policy(approvals={"mcp__banc__transfer": "ask"})).begin(bench.store)
    session = bench.begun()
    put(session, names)
    session.say("Go.")
    assert bench.wake(session).state == "idle"
    # The server has answered meanwhile, and has no such tool.
    put(Session(bench.store, session.name), names, environment={})
    session.say("Go.")
    assert bench.wake(session).error.kind == "approvals"


def test_built_in_tools_that_were_not_selected_are_known():
    """The command line names read, list and grep for every agent, and may be given fewer tools, or others later."""
    policy = Policy(approvals={"shell": "ask", "read": "auto"})
    shipped = Bench({"Go.": [{"text": "Done."}]}, tools=[SubagentTool()])
    assert asyncio.run(shipped.agent(policy).run(shipped.store, "Go.")).state == "idle"
    # Beside tools of a program such a name may be meant for one of them.
    with pytest.raises(UsageError, match="'shell'"):
        Bench().agent(policy).begin(MemoryStore())


# ── sub-agents ───────────────────────────────────────────────────────────────────────────────────


def _parent(policy, *, servers=(), tools=("shell",)):
    """A parent that starts the agent `aide`, which has a policy of its own."""
    declared = tuple({"name": name, "description": "", "schema": PROMPT, "replay": "never"} for name in tools)
    aide = SubagentProfile(tools=declared, servers=servers, policy=stored_policy(policy))
    call = {"name": "agent", "input": {"prompt": "Help.", "agent": "aide"}}
    replies = {"Go.": [{"toolCalls": [call]}, {"text": "Done."}], "Help.": [{"text": "Helped."}]}
    return Bench(replies, tools=[SubagentTool({"aide": aide})])


def _helped(bench):
    session = asyncio.run(bench.agent().run(bench.store, "Go.")).session
    (result,) = [value.message for value in bench.values(session, Message) if isinstance(value.message, ToolResult)]
    assert asyncio.run(replay(bench.store, session.name)).ok
    return result.text


def test_a_sub_agent_fails_and_its_parent_is_told():
    """TREE-6: the child has its own policy; nothing of it runs under a misspelt name."""
    text = _helped(_parent(Policy(approvals={"shel": "ask"})))
    assert text == "The sub-agent failed: approvals names a tool 'shel' that does not exist: did you mean 'shell'?"


def test_a_sub_agent_has_no_approvals_for_servers_that_its_parent_lacks():
    """It never gets their tools, so the names are left out of its settings."""
    bench = _parent(Policy(approvals={"mcp__bank__transfer": "ask", "shell": "ask"}), servers=("bank",))
    assert _helped(bench) == "Helped."
    child = next(stat.name for stat in bench.store.sessions() if stat.name.startswith("aide"))
    (context,) = [
        entry.value for entry in Session(bench.store, child).entries() if isinstance(entry.value, ContextEntry)
    ]
    assert context.policy["approvals"] == {"shell": "ask"}
