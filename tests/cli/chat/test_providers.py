"""A chat on each store with each wire format: streams, parallel tools, a question, a drop, a kill (RUN-8)."""

import json
import os
import signal
import threading

import pytest

from tests.cli.chat.inspection import READY
from tests.loopback import CUT, Answer, Hold, Loopback, events
from tests.providers.anthropic import speaking
from tests.providers.openai import wire
from tests.replays import everything_replays
from wakelog.log.entry import Message
from wakelog.session import Session
from wakelog.stores import open_store


def anthropic(text, *calls, thought=""):
    blocks = [speaking.thought(0, thought)] if thought else []
    blocks.append(speaking.text(len(blocks), text))
    blocks += [speaking.call(len(blocks) + at, *call) for at, call in enumerate(calls)]
    return events(*speaking.reply(*blocks, stop="tool_use" if calls else "end_turn"))


def openai(text, *calls, thought=""):
    items = [wire.reasoning("rs_1", thought)] if thought else []
    items.append(wire.message("msg_1", text))
    items += [wire.call(f"fc_{at}", *call) for at, call in enumerate(calls)]
    return events(*wire.response_events(*items))


def openai_chat(text, *calls, thought=""):
    return list(wire.chat_reply(text, calls=calls, thoughts=thought).acts)


WIRES = {"anthropic": anthropic, "openai": openai, "openai-chat": openai_chat}


@pytest.fixture(params=[("anthropic", "sqlite"), ("openai", "postgres"), ("openai-chat", "files")], ids="-".join)
def place(request, shell, monkeypatch):
    """A provider, and a store that is not the shell's own; the sessions are replayed at the end."""
    provider, kind = request.param
    url = {"sqlite": f"sqlite:{shell.folder}/sessions.db", "files": f"{shell.folder}/others"}.get(kind)
    url = url or request.getfixturevalue("postgres_url")
    monkeypatch.setenv("WAKELOG_STORE", url)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, speaking.KEY)
    store = open_store(url)
    yield provider, store
    everything_replays(store, [stat.name for stat in store.sessions()])
    store.close()


@pytest.fixture
def server(monkeypatch):
    with Loopback() as opened:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", opened.url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{opened.url}/v1")
        yield opened


def up_to(acts, word):
    """Return the acts of a reply up to the one with this word."""
    last = next(at for at, act in enumerate(acts) if word in act)
    return acts[: last + 1]


def call(number, tool, **given):
    return f"call_{number}", tool, json.dumps(given)


def test_a_whole_conversation(place, server, shell, chat):
    """Laws 5 and 15: displayed text is kept, whatever happens, and each tool runs once."""
    provider, store = place
    say, gate = WIRES[provider], threading.Event()
    for name in ("a", "b"):
        (shell.folder / f"{name}.txt").write_text(f"{name}\n")
    reads = [call(number, "read", path=f"{name}.txt") for number, name in enumerate("ab")]
    touch = call(3, "shell", command="echo ran >> ran")
    half = up_to(say("Half an answer and its end."), b"Half an a")
    cut = up_to(say("A long answer and its end."), b"A long a")
    told = (
        say("I look.", *reads, thought="Let me see."),
        [*half, CUT],
        say("A whole answer.", touch),
        [*cut, Hold(gate)],
        say("Recovered."),
    )
    server.play(*(Answer(acts) for acts in told))
    pane = chat("--model", f"{provider}:m")
    pane.expect(READY)
    pane.say("go")
    pane.expect("∴ thought, 3 words: Let me see.", "I look.", "✓ read a.txt", "✓ read b.txt", "Half an a")
    pane.expect("the model call failed: ", "retrying (attempt 2)", "A whole answer.", "shell: Run it?  [y] once")
    pane.say("y")
    pane.expect("✓ shell echo ran", "A long a")
    os.kill(pane.pid(), signal.SIGKILL)
    gate.set()
    pane.ended(137)
    again = chat("-c")
    again.expect("› go", "A long a", "reply interrupted; starting over", "Recovered.")
    again.press("C-d")
    assert "`wakelog chat agent_user_1` continues this session" in again.ended(0)
    assert (shell.folder / "ran").read_text() == "ran\n"
    nodes = Session(store, "agent_user_1").branch().nodes
    assert [node.value.message.text for node in nodes if isinstance(node.value, Message)][-1] == "Recovered."
    assert len(server.asked) == len(told)
