"""Laws 6 and 7: open tool calls that this session did not make are settled, never run, and the next request is valid.

Each shape is a log as it may come to us: written by another program, copied, forked, cut off, cancelled. Whoever
wakes it has every tool at hand that its calls name, and may not touch one of them.
"""

import asyncio
import json
import os

import pytest

from tests.kernel.judging import judge
from tests.kernel.outside import Outside
from wakelog.app.agent import Agent
from wakelog.decide.decisions import Idle
from wakelog.forking import fork
from wakelog.log.content import Prompt, Reply, Text, ToolCall, ToolResult, ToolStatus
from wakelog.log.entry import Cancelled, Message, ModelCall, Origin, ToolStarted
from wakelog.log.seal import find_seal
from wakelog.providers.scripted import ScriptedProvider
from wakelog.reading import read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.tools import builtin_tools

NAME = "crab_user_1"
CALLS = (
    ToolCall(id="t1", name="pay", input={"amount": 7}),
    ToolCall(id="t2", name="book", input={"seat": "4a"}),
    ToolCall(id="t3", name="look", input={"where": "north"}),
    ToolCall(id="t4", name="shell", input={"command": "touch ran"}),
)


class Here:
    """A store with one hand-made log in it, and a worker that has all the tools of the log."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.store = JsonlStore(os.path.join(self.folder, "store"))
        self.outside = Outside(os.path.join(self.folder, "outside"))
        self.requests = []
        self.name = ScriptedProvider.name
        self.can_resume = False

    def session(self, session_id="s", **more):
        """A session of an agent that has all the tools."""
        session = Session.create(self.store, session_id=session_id, agent="crab", cwd=self.folder, **more)
        self.enter(session)
        return session

    def enter(self, session):
        """Append a context entry: a model and declared tools."""
        tools = (*self.outside.tools(), *builtin_tools(self.folder, ["shell"]))
        Agent(model="scripted:here", name="crab", tools=tools).enter(session)

    def write(self, *lines):
        """Write a log as another program would."""
        with open(os.path.join(self.folder, "store", f"{NAME}.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        return Session(self.store, NAME)

    def wake(self, session):
        """Wake the session."""
        runtime = LiveRuntime(
            self.store, tools=self.outside.tools(), channels=[self.outside.channel()], provider=lambda _, __: self
        )
        return asyncio.run(wake(runtime, session.name))

    def stream(self, request):
        """A model that accepts every request and calls no tool."""
        self.requests.append(request)
        return ScriptedProvider([{}] * request.answers + [{"text": "Understood."}]).stream(request)


def _prompt(text, **more):
    return Message(message=Prompt(content=(Text(text=text),)), **more)


def _reply(**more):
    return Message(message=Reply(content=(Text(text="I do it all."), *CALLS), **more))


def _foreign(kind, at, parent, **more):
    return {"type": kind, "id": at, "parentId": parent, "timestamp": "2026-01-01T10:00:00.000Z", **more}


def _foreign_lines(*, parents=True, started=False):
    parts = [{"type": "toolCall", "id": call.id, "name": call.name, "input": call.input} for call in CALLS]
    said = {"role": "assistant", "content": [{"type": "text", "text": "I do it all."}, *parts]}
    lines = [
        {"type": "session", "id": "s", "timestamp": "2026-01-01T10:00:00.000Z", "version": 1, "agent": "crab"},
        _foreign("message", "u1", "s", message={"role": "user", "content": "Do it all."}),
        _foreign("message", "r1", "u1", message=said),
    ]
    if started:
        more = {"replyId": "r1", "toolCallId": "t1", "name": "pay", "replay": "safe", "attempt": 1}
        lines.append(_foreign("tool_started", "st1", "r1", **more))
    return [{key: value for key, value in line.items() if parents or key != "parentId"} for line in lines]


# ── the shapes ───────────────────────────────────────────────────────────────────────────────────


def foreign_lines(here):
    """Lines without seq, version and seal."""
    os.makedirs(os.path.join(here.folder, "store"))
    return here.write(*_foreign_lines())


def foreign_lines_without_parents(here):
    os.makedirs(os.path.join(here.folder, "store"))
    return here.write(*_foreign_lines(parents=False))


def foreign_lines_that_say_begun(here):
    """Another program started one of the tools, and declared it `safe`; its declaration does not count here."""
    os.makedirs(os.path.join(here.folder, "store"))
    return here.write(*_foreign_lines(started=True))


def foreign_call_for_the_reply(here):
    """A reply whose `call` entry names another position: the call was not made for this reply."""
    session = here.session()
    session.append(_prompt("Do it all."))
    session.append(ModelCall(call_id="c1", reply_id="r1"), at=session.tree.root)
    session.append(Message(id="r1", message=_reply(call_id="c1").message))
    return session


def reply_without_a_call(here):
    session = here.session()
    session.append(_prompt("Do it all."))
    session.append(_reply())
    return session


def reply_that_only_claims_a_call(here):
    session = here.session()
    session.append(_prompt("Do it all."))
    session.append(_reply(call_id="made-by-no-call"))
    return session


def cancelled_turn(here):
    session = _made_here(here)
    session.append(Cancelled(reason="asked by a person"))
    return session


def cancelled_turn_with_a_tool_begun(here):
    session = _made_here(here)
    session.append(ToolStarted(reply_id="r1", tool_call_id="t1", name="pay", replay="safe"), at="r1")
    session.append(Cancelled(reason="asked by a person"))
    return session


def later_prompt(here):
    session = _made_here(here)
    session.append(_prompt("Never mind."))
    return session


def fork_that_was_settled(here):
    return _with_agent(here, fork(_made_here(here)))


def fork_that_was_cut_off(here):
    """A fork whose process was killed between its first line and settling the open calls."""
    parent = _made_here(here)
    origin = Origin(session="s", entry="r1", h=find_seal(parent.tree.nodes["r1"].raw))
    return _with_agent(here, Session.create(here.store, agent="crab", session_id="f", cwd=here.folder, parent=origin))


def fork_of_a_call_that_was_begun(here):
    parent = _made_here(here)
    parent.append(ToolStarted(reply_id="r1", tool_call_id="t1", name="pay", replay="safe"), at="r1")
    origin = Origin(session="s", entry="r1", h=find_seal(parent.tree.nodes["r1"].raw))
    return Session.create(here.store, agent="crab", session_id="f", cwd=here.folder, parent=origin)


def _made_here(here):
    """A reply that this session made, with no tool started."""
    session = here.session()
    session.append(_prompt("Do it all."))
    prompt = session.tree.head
    session.append(ModelCall(id="c1", call_id="c1", reply_id="r1"), at=prompt)
    session.append(Message(id="r1", message=_reply(call_id="c1").message))
    return session


def _with_agent(here, session):
    here.enter(session)
    return session


SHAPES = (
    foreign_lines,
    foreign_lines_without_parents,
    foreign_lines_that_say_begun,
    foreign_call_for_the_reply,
    reply_without_a_call,
    reply_that_only_claims_a_call,
    cancelled_turn,
    cancelled_turn_with_a_tool_begun,
    later_prompt,
    fork_that_was_settled,
    fork_that_was_cut_off,
    fork_of_a_call_that_was_begun,
)
BEGUN = (foreign_lines_that_say_begun, cancelled_turn_with_a_tool_begun, fork_of_a_call_that_was_begun)
# Replies that no model call of the log made: the log cannot prove that their tools never ran.
RECORDED = (
    foreign_lines,
    foreign_lines_without_parents,
    foreign_lines_that_say_begun,
    foreign_call_for_the_reply,
    reply_without_a_call,
    reply_that_only_claims_a_call,
)


@pytest.fixture
def here(tmp_path):
    return Here(tmp_path)


@pytest.mark.parametrize("entered", [False, True], ids=["as it is", "agent entered"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_open_call_of_another_program_is_never_run(here, shape, entered):
    """Laws 6 and 7, RUN-5, RUN-6: no tool runs, each call gets one result, and the next request is valid."""
    session = shape(here)
    if entered:
        here.enter(session)
    assert isinstance(here.wake(session).decision, Idle)
    session = Session(here.store, session.name)
    _nothing_was_run(here)
    session.say("And now?")
    assert here.wake(session).decision == Idle()
    _nothing_was_run(here)
    results = _results(here, session.name)
    other = "unknown" if shape in RECORDED else "skipped"
    first = "unknown" if shape in BEGUN else other
    assert results == {"t1": [first], "t2": [other], "t3": [other], "t4": [other]}
    assert here.requests, "the model was asked"
    assert all(_is_valid(request.messages) for request in here.requests)
    # A fork does not change its parent, which still has open calls of its own that are not run here.
    if session.id == "s":
        judge(here.store, here.outside, delivered=())


def _nothing_was_run(here):
    assert here.outside.ledger == []
    assert here.outside.bookings == []
    assert not os.path.exists(os.path.join(here.folder, "ran"))


def _results(here, name):
    found: dict[str, list[ToolStatus | None]] = {}
    for node in read_log(here.store, name).tree.branch().nodes:
        if isinstance(node.value, Message) and isinstance(node.value.message, ToolResult):
            result = node.value.message
            found.setdefault(result.tool_call_id, []).append(result.status)
    return found


def _is_valid(messages):
    """Whether a provider accepts it: every call of a reply has one result directly after the reply."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "toolResult":
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(message.tool_call_id)
            continue
        if waiting:
            return False
        waiting = [part.id for part in message.content if isinstance(part, ToolCall)]
    return not waiting


def test_control_the_validity_check_refuses_invalid_requests():
    """The check of the test above refuses what it should."""

    class BaseMessage:
        def __init__(self, role, content=(), tool_call_id=None):
            self.role, self.content, self.tool_call_id = role, content, tool_call_id

    asks, answers = BaseMessage("assistant", CALLS[:1]), BaseMessage("toolResult", tool_call_id="t1")
    assert _is_valid([asks, answers, BaseMessage("user")])
    assert not _is_valid([asks, BaseMessage("user"), answers])
    assert not _is_valid([asks])
    assert not _is_valid([asks, answers, answers])
