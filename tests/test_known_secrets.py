"""Law 14, LOG-20: a value that was recognised as a secret is replaced in everything that is written from then on."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.plays import Play
from tests.runtime.rigs import Rig, asks
from wakelog.app.agent import Agent
from wakelog.channels.in_process import CallbackChannel, DeltaText
from wakelog.decide.policy import Policy
from wakelog.errors import Conflict
from wakelog.forking import fork
from wakelog.known_secrets import FAMILIES_MAX, known_values, note_provider_key
from wakelog.log.content import BlobRef, Prompt, Reply, Text, Thinking, ToolCall, ToolResult
from wakelog.log.entry import Compaction, Message, Partial, Queued
from wakelog.ports.runtime import ToolOutcome
from wakelog.redaction.known_values import NO_KNOWN_VALUES
from wakelog.runtime.replay.verification import replay
from wakelog.session import Session
from wakelog.stores import open_catalog, open_store
from wakelog.stores.memory import MemoryStore
from wakelog.tools.function_tool import tool
from wakelog.tools.subagent import SubagentTool

SECRET = "q7Zk2Vw9Xr4Tb8Lm3Np6"
GIVEN = f"SERVICE_TOKEN={SECRET}"
MARK = "[redacted: assignment]"
BARE = f"It is {SECRET}, or so."
CLEAN = f"It is {MARK}, or so."
KNOWN = "[redacted: known-value]"


@tool(replay="safe")
def configure() -> str:
    """Return the one text that says that the value is a secret."""
    return f"HOME=/root\n{GIVEN}\n"


@tool(replay="safe")
def look(text: str = "") -> str:
    """Return the bare value."""
    return BARE


REPLIES = {
    "Look.": [{"toolCalls": [{"name": "configure"}]}, {"text": "Seen."}],
    CLEAN: [
        {
            "text": BARE,
            "thinking": BARE,
            "deltaChars": 3,
            "toolCalls": [{"name": "look"}, {"name": "look", "input": {"text": BARE}}],
        },
        {"text": "Now the child.", "toolCalls": [{"name": "agent", "input": {"prompt": "Child."}}]},
        {"text": f"The end: {SECRET}", "deltaChars": 1},
    ],
    "Child.": [{"toolCalls": [{"name": "look"}]}, {"text": BARE, "deltaChars": 2}],
}


@pytest.fixture(params=["memory", "files", "sqlite", "postgresql"])
def url(request, tmp_path, monkeypatch):
    """The URL of an empty store of each kind; the index of a store without its own is in `tmp_path` too."""
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return {"memory": "memory:", "files": f"{tmp_path}/sessions", "sqlite": f"sqlite:{tmp_path}/s.db"}[request.param]


def stored(store):
    """Return all bytes that a store holds: names, logs, journals and blobs."""
    names = [stat.name for stat in store.sessions()]
    refs = [BlobRef(digest=blob.digest, bytes=blob.bytes) for blob in store.blobs.stored()]
    journals = [piece for name in names for pieces in store.journals(name).values() for piece in pieces]
    lines = [line.bytes for name in names for line in store.load(name)]
    return b"\n".join([*map(str.encode, names), *lines, *journals, *map(store.blobs.get, refs)])


def on_disk(folder):
    """Return the names and the bytes of all files below a folder."""
    paths = [Path(parent, file) for parent, _, files in os.walk(folder) for file in files]
    return b"\n".join(path.read_bytes() + bytes(path) for path in paths)


def messages(session, kind):
    found = [entry.value for entry in session.entries() if isinstance(entry.value, Message)]
    return [value.message for value in found if isinstance(value.message, kind)]


def learned(store=None):
    """Return a session in which a tool has put out the secret behind its name."""
    session = Session.create(store or MemoryStore())
    session.user("Look.")
    session.assistant(Reply(content=(ToolCall(id="c1", name="configure", input={}),)))
    session.tool_result("c1", GIVEN)
    return session


def test_nothing_of_a_recognised_value_is_written_again(url, tmp_path):
    """Law 14: in prompt, reply, thinking, tool input and output, title, queue, summary, fork, sub-agent and index."""
    store = open_store(url)
    shown: list[Any] = []
    agent = Agent(
        model="scripted:m",
        provider=Play(REPLIES, summary=BARE),
        tools=(configure, look, SubagentTool()),
        channels=(CallbackChannel(shown.append),),
        policy=Policy(children=1),
    )
    session = agent.begin(store)
    agent.run_sync(store, "Look.", session=session)
    assert MARK in messages(session, ToolResult)[0].text
    assert agent.run_sync(store, BARE, session=session).text == f"The end: {MARK}"
    _, first, second, from_child = messages(session, ToolResult)
    assert {(each.effective_status, each.text == CLEAN) for each in (first, second)} == {
        ("ok", True),
        ("denied", False),
    }
    assert from_child.text == CLEAN
    session.rename(BARE)
    session.label(session.branch().nodes[-1], BARE)
    lease = session.acquire("another", ttl_s=60, recording=True)
    assert isinstance(session.say(BARE).value, Queued)
    session.release(lease)
    forked = fork(session)
    forked.rename(BARE)
    forked.compact(BARE)
    with fork(forked) as again:
        again.user(BARE)
        again.assistant(Reply(content=(Thinking(thinking=BARE), Text(text=BARE))))
        assert again.branch().nodes[-1].value.message.parts == (Thinking(thinking=CLEAN), Text(text=CLEAN))
    catalog = open_catalog(url, store)
    catalog.refresh()
    assert not catalog.search(SECRET, limit=5)
    assert SECRET not in "".join(event.text for event in shown if isinstance(event, DeltaText))
    assert SECRET.encode() not in stored(store)
    store.close()
    assert SECRET.encode() not in on_disk(tmp_path)


@pytest.mark.parametrize("size", range(1, len(BARE) + 1))
def test_a_streamed_reply_is_searched_however_it_is_split(size):
    """Law 14: nothing of a known value is journaled or displayed, and the log has the same text."""
    rig = Rig({"Go.": [{"text": BARE, "deltaChars": size}]})
    known_values(rig.store, "s", None).learn(SECRET, "assignment")
    assert rig.say("Go.").text == CLEAN
    for kind in ("journal", "shown"):
        text = "".join(text for each, text in rig.events if each == kind)
        assert SECRET[:4] not in text
        assert text.startswith(CLEAN)


def test_a_complete_reply_is_searched_again():
    """Law 14: a value that became known at the end of a reply is replaced in its beginning; channels get that text."""
    rig = Rig({"Go.": [{"text": f"{BARE} {GIVEN}", "thinking": BARE, "deltaChars": 5}]})
    result = rig.say("Go.")
    assert result.text == f"{CLEAN} SERVICE_TOKEN={MARK}"
    assert list(rig.channel.replies.values()) == [result.text]
    assert SECRET.encode() not in stored(rig.store)
    found = asyncio.run(replay(rig.store, "s"))
    assert (found.ok, found.reason, found.divergence) == (True, "", None)


def test_a_run_shows_anew_what_was_displayed_before_it_was_known():
    """Law 5: after the pieces of a reply were displayed, its text in the log is displayed in their place."""

    async def shown():
        agent = Agent(model="scripted:m", provider=Play({"Go.": [{"text": f"{BARE} {GIVEN}", "deltaChars": 5}]}))
        text = ""
        async for event in agent.stream(MemoryStore(), "Go."):
            name = type(event).__name__
            text = "" if name == "Restarted" else text + (event.text if name == "TextDelta" else "")
        return text

    assert asyncio.run(shown()) == f"{CLEAN} SERVICE_TOKEN={MARK}"


def test_an_interrupted_reply_is_kept_without_the_value():
    """Law 14: what was displayed before the value was known is not written again when the call fails or ends."""
    fault = {"kind": "connection", "retryable": False}
    rig = Rig({"Go.": [{"text": f"{BARE} {GIVEN}\nAnd", "deltaChars": 5, "error": fault}]})
    rig.say("Go.")
    (partial,) = rig.values(Partial)
    assert partial.content == (Text(text=f"{CLEAN} SERVICE_TOKEN={MARK}\nAnd"),)
    assert SECRET.encode() not in stored(rig.store)


def test_a_crash_while_a_reply_is_streamed_keeps_it_out():
    """Laws 11 and 14: the next worker writes the journal without the value, and the log replays."""
    rig = Rig({"Go.": [{"text": f"{BARE} {GIVEN}\n{BARE} And more.", "deltaChars": 5}]}, can_resume=True)
    rig.session.say("Go.")
    for at in range(40):
        if not rig.die(at):
            break
    rig.now += 1e9
    rig.wake()
    assert SECRET.encode() not in b"".join(line.bytes for line in rig.store.load("s"))
    assert asyncio.run(replay(rig.store, "s")).ok


def test_a_message_that_was_queued_before_its_value_was_known():
    """Laws 1, 11 and 14: the queued entry stays as it is, the prompt made of it has a mark, and the log replays."""
    rig = Rig({"Go.": [{"text": "Going."}], CLEAN: [{"text": "Gone."}]})
    lease = rig.session.acquire("another", ttl_s=60, recording=True)
    rig.session.say(BARE)
    rig.session.release(lease)
    rig.session.append(Message(message=Prompt(content=(Text(text="Go."),))))
    known_values(rig.store, "s", None).learn(SECRET, "assignment")
    rig.wake()
    (queued,) = rig.values(Queued)
    prompts = [value.message.text for value in rig.values(Message) if isinstance(value.message, Prompt)]
    assert (queued.message.text, prompts) == (BARE, ["Go.", CLEAN])
    found = asyncio.run(replay(rig.store, "s"))
    assert (found.ok, found.reason, found.divergence) == (True, "", None)


def test_live_output_of_a_tool_is_searched(monkeypatch):
    """Law 14: what a tool puts out while it runs is in a journal without the value."""
    rig = Rig({"Look.": [asks(("look", 1)), {"text": "Seen."}]})

    async def leaking(tool, call):
        call.show(f"{BARE}\n{GIVEN}\n{BARE}\n")
        call.show(BARE)
        return ToolOutcome(f"{BARE}\n{GIVEN}")

    monkeypatch.setattr(type(rig.outside.tools[0]), "run", leaking)
    rig.say("Look.")
    assert SECRET not in "".join(text for kind, text in rig.events if kind == "journal")
    assert SECRET.encode() not in stored(rig.store)


def test_a_summary_of_the_model_is_searched():
    """Laws 11 and 14: the summary is counted and written without the value."""
    rig = Rig({"Go.": [{"text": "Going. " * 200}]}, summary=BARE, compact_at=100, keep=0)
    known_values(rig.store, "s", None).learn(SECRET, "assignment")
    rig.say("Go.")
    rig.say("Go.")
    assert CLEAN in rig.values(Compaction)[0].summary
    assert asyncio.run(replay(rig.store, "s")).ok


def test_entries_that_were_written_before_stay():
    """Laws 1 and 8: an entry is never changed, and is sent unchanged when its value has become known."""
    session = Session.create(MemoryStore())
    session.user(BARE)
    before = session.to_anthropic()
    session.assistant(GIVEN)
    session.user(BARE)
    after = session.to_anthropic()
    assert after[: len(before)] == before
    assert [BARE in str(message) for message in after] == [True, False, False]


def test_an_append_that_is_tried_again_is_the_same_though_more_is_known():
    """Rule 3 of the writer: an entry with an id is appended once, whichever values are known then."""
    session = Session.create(MemoryStore())
    first = session.append(Message(id="first", message=Prompt(content=(Text(text=BARE),))))
    session.append(Message(message=Prompt(content=(Text(text=GIVEN),))))
    second = session.append(Message(id="second", message=Prompt(content=(Text(text=BARE),))))
    unknowing = Session(session.store, session.name, known_secrets=NO_KNOWN_VALUES)
    for entry in (first, second):
        again = Message(id=entry.id, message=Prompt(content=(Text(text=BARE),)))
        assert session.append(again).seq == unknowing.append(again).seq == entry.seq
    with pytest.raises(Conflict, match="with other content"):
        session.append(Message(id="second", message=Prompt(content=(Text(text=f"{BARE} And more."),))))


def test_a_value_is_not_known_in_other_sessions():
    """LOG-20: values that were recognised are known to the session, its forks and sub-agents alone."""
    store = MemoryStore()
    learned(store)
    other = Session.create(store)
    other.user(BARE)
    assert messages(other, Prompt)[0].text == BARE


def test_what_a_fork_recognises_is_known_to_its_parent():
    """LOG-20: a session and all that were made from it share what is known."""
    session = Session.create(MemoryStore())
    session.user("Go.")
    fork(fork(session)).user(GIVEN)
    session.user(BARE)
    assert messages(session, Prompt)[-1].text == CLEAN


def test_the_number_of_families_is_bounded():
    """LOG-20: a process that runs for weeks keeps values for the sessions used last."""
    store = MemoryStore()
    first = known_values(store, "first", None)
    first.learn(SECRET, "assignment")
    for number in range(FAMILIES_MAX):
        assert known_values(store, "first", None) is first
        known_values(store, f"other-{number}", None)
    for number in range(FAMILIES_MAX):
        known_values(store, f"again-{number}", None)
    assert not known_values(store, "first", None).search.is_in(SECRET)


ANOTHER_PROCESS = """
import sys
from wakelog import Session, open_store
session = Session.get(open_store(sys.argv[1]), sys.argv[2])
session.user(sys.argv[3])
"""


def test_a_value_of_the_environment_is_known_after_a_restart(tmp_path, monkeypatch):
    """LOG-20: each process reads the variables again; their names decide, so other variables change no text."""
    monkeypatch.setenv("BILLING_TOKEN", SECRET)
    monkeypatch.setenv("BUILD_NUMBER", "x9Kd72Lm04Qp")
    store = open_store(f"{tmp_path}/sessions")
    session = Session.create(store, title=BARE)
    assert session.tree.header.title == f"It is {KNOWN}, or so."
    said = f"{BARE} In build x9Kd72Lm04Qp."
    command = [sys.executable, "-c", ANOTHER_PROCESS, f"{tmp_path}/sessions", session.id, said]
    subprocess.run(command, check=True)
    assert messages(session, Prompt)[0].text == f"It is {KNOWN}, or so. In build x9Kd72Lm04Qp."
    assert SECRET.encode() not in on_disk(tmp_path)


def test_a_provider_key_is_known_in_all_sessions(monkeypatch):
    """LOG-20: a key that is sent to a provider is known, wherever it came from."""
    monkeypatch.setattr("wakelog.known_secrets._provider_keys", {})
    session = Session.create(MemoryStore())
    session.user("Go.")
    note_provider_key(SECRET)
    session.user(BARE)
    assert messages(session, Prompt)[-1].text == f"It is {KNOWN}, or so."


def test_the_names_of_a_session_stay(monkeypatch):
    """LOG-9: agent and sender identify a session, so a process that knows other values finds it too."""
    monkeypatch.setenv("BILLING_TOKEN", SECRET)
    store = MemoryStore()
    session = Session.open(store, agent="bot", sender=SECRET)
    monkeypatch.delenv("BILLING_TOKEN")
    assert Session.open(store, agent="bot", sender=SECRET).id == session.id


def test_with_redaction_off_nothing_is_replaced(monkeypatch):
    """LOG-13: `redact: off` keeps all text."""
    monkeypatch.setenv("BILLING_TOKEN", SECRET)
    rig = Rig({"Go.": [{"text": f"{GIVEN} {BARE}"}]}, redact=False)
    assert rig.say("Go.").text == f"{GIVEN} {BARE}"
