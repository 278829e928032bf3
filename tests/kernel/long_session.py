"""A program that may be killed anywhere and started again: a session with every feature in it.

Two turns, three tools side by side (one of each replay word), an approval, a steer that comes while a tool runs, a
sub-agent, a key that is taken out, a fold, and a fork to a second branch. Every line of `drive` is what a person or a
program would do, done once: what is in the log already is not done again. Whatever the agent itself had begun, `wake`
sees to.
"""

import asyncio

from tests.kernel.outside import Outside
from tests.kernel.plays import Play
from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import Head, Message, Queued, Terminated
from wakelog.questions import PersonDecision, open_questions, resolve_question
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.tools.subagent import SubagentTool

SESSION = "s"
# Has the shape of a key, and is not one.
KEY = "gh" + "p_" + "0aB1" * 9
LONG = "a long story, told at length " * 40
PLAY = Play(
    {
        "Begin.": [
            {
                "thinking": "Three things at once.",
                "text": "I look, pay and book.",
                "toolCalls": [
                    {"name": "look", "input": {"where": "north"}},
                    {"name": "pay", "input": {"amount": 7}},
                    {"name": "book", "input": {"seat": "4a"}},
                ],
                "deltaChars": 6,
            },
            {"text": "All three are done.", "deltaChars": 8},
        ],
        "Hurry.": [
            {"text": "I hand this on.", "toolCalls": [{"name": "agent", "input": {"prompt": "Help out."}}]},
            {"text": LONG, "deltaChars": 400},
        ],
        "Help out.": [
            {"text": "Paying for it.", "toolCalls": [{"name": "pay", "input": {"amount": 1}}]},
            {"text": "Helped."},
        ],
        "Go on.": [
            {
                "text": "I look again.",
                "toolCalls": [
                    {"name": "look", "input": {"where": "south"}},
                    {"name": "look", "input": {"where": KEY}},
                ],
            },
            {"text": "That was all."},
        ],
        "Otherwise?": [{"text": "Another way."}],
        "And then?": [{"text": "Then this."}],
        "Try.": [{"text": "It worked."}],
        "Wait for it.": [
            {"text": "I wait.", "toolCalls": [{"name": "look", "input": {"where": "for ever"}}]},
        ],
    },
    summary="They looked, paid and booked; a helper helped.",
)
POLICY = Policy(approvals={"pay": "ask"}, compact_at=250, keep=60, faults_max=1_000)


def agent(outside):
    """The agent of the session."""
    tools = (*outside.tools(), SubagentTool())
    return Agent(model="scripted:play", name="crab", system="Be brief.", tools=tools, policy=POLICY)


def drive(store, outside, rows=None, *, ends=True, raises=()):
    """Do everything that is not done yet; return the idle session, ended unless it is to stay open.

    The channel raises once for the replies named by `raises`.
    """
    session = Session.create(store, agent="crab", sender="user", session_id=SESSION, model="play", provider="scripted")
    agent(outside).enter(session)
    tools = (*outside.tools(_Interrupter(store)), SubagentTool())
    provider = outside.fragile(PLAY, "Try.")
    runtime = LiveRuntime(store, tools=tools, channels=[outside.channel(raises=raises)], provider=provider)
    _say(store, runtime, "u1", "Begin.", rows)
    _say(store, runtime, "u2", "Go on.", rows)
    _move(session, "h1", session.read().tree.children("u1")[0])
    _wake(store, runtime, rows)
    _move(session, "h2", "u1")
    _say(store, runtime, "u3", "Otherwise?", rows)
    _say(store, runtime, "u4", "Try.", rows)
    _once(session, Queued(id="q4", mode="compact", keep="u4"))
    _wake(store, runtime, rows)
    _say(store, runtime, "u5", "Wait for it.", rows)
    if ends:
        _once(session, Terminated(id="z1", reason="enough"))
    _wake(store, runtime, rows)
    return session


class _Interrupter:
    """A person who writes while a tool runs; a call returns how long the tool then takes."""

    def __init__(self, store):
        self._store = store

    def __call__(self, where):
        session = Session(self._store, SESSION)
        if where == "north":
            _once(session, Queued(id="q1", message=_prompt("Hurry."), mode="steer"))
            _once(session, Queued(id="q2", message=_prompt("And then?"), mode="followUp"))
        if where != "for ever":
            return 0
        _once(session, Queued(id="q3", mode="cancel"))
        return 3_600


def _move(session, entry_id, target):
    if session.read().tree.entry(entry_id) is None:
        session.append(Head(id=entry_id, target_id=target), at=target)


def _say(store, runtime, entry_id, text, rows):
    _once(Session(store, SESSION), Message(id=entry_id, message=_prompt(text)))
    _wake(store, runtime, rows)


def _wake(store, runtime, rows):
    while True:
        report = asyncio.run(wake(runtime, SESSION))
        if rows is not None:
            rows += report.rules
        if not _answered(store):
            return


def _answered(store):
    """Approve all open questions, here and in sub-agents; return whether there were any."""
    waiting = False
    for stat in list(store.sessions()):
        session = Session(store, stat.name)
        for question in open_questions(session):
            word: PersonDecision = "approve" if question.attention.reason == "approve" else "did not run"
            resolve_question(session, question.attention.id, word)
            waiting = True
    return waiting


def _prompt(text):
    return Prompt(content=(Text(text=text),))


def _once(session, body):
    if session.read().tree.entry(body.id) is None:
        session.append(body)


def main(folder, outside):
    """The same in a process of its own."""
    drive(JsonlStore(folder), Outside(outside))
