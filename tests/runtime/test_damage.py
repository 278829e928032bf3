"""Laws 6 and 9: a turn whose reply was lost is not repeated silently: the model, or a person first, is told."""

import asyncio
import contextlib
from typing import Any

import pytest

from tests.laws.forgetful import WARNING, Forgetful
from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy
from wakelog.log.entry import Custom
from wakelog.projections.losses import DAMAGE_NOTICE
from wakelog.questions import open_questions, resolve_question
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.testing.crashing_store import CrashingStore, SimulatedCrash
from wakelog.tools.function_tool import tool


class Rig:
    """A session whose worker was killed in or after `publish`."""

    def __init__(self, *, in_tool=True, **policy):
        self.store = MemoryStore()
        self.model = Forgetful()
        self.published = 0
        self._life: Any = None

        @tool(replay="never")
        def publish(version: int) -> str:
            """Publishes a version."""
            self.published += 1
            if self._life is not None:
                self._life.end()
            return f"version {version} is out"

        @tool(replay="safe")
        def look() -> str:
            """Looks around."""
            return "all quiet"

        self.tools = (publish, look)
        session = Agent(model="scripted:x", tools=self.tools, policy=Policy(**policy)).begin(self.store)
        self.name, self.id = session.name, session.id
        session.say("publish 1")
        dying = CrashingStore(self.store)
        self._life = dying.life if in_tool else None
        self.wake(dying)
        self._life = None

    def wake(self, store=None):
        runtime = LiveRuntime(store or self.store, tools=self.tools, provider=lambda _, __: self.model, lease_s=0.0)
        with contextlib.suppress(SimulatedCrash):
            return asyncio.run(wake(runtime, self.name))

    def lines(self):
        return b"".join(line.bytes for line in self.store.load(self.name)).split(b"\n")[:-1]

    def change(self, word, change):
        lines = [change(line) if word in line else line for line in self.lines()]
        raw = b"".join(line + b"\n" for line in lines if line is not None)
        self.store.replace(self.id, self.name, raw)

    def notices(self):
        entries = Session(self.store, self.name).read().entries
        return [entry.value for entry in entries if isinstance(entry.value, Custom)]


def _overwritten(line):
    return b"\0" * len(line)


def _removed(line):
    return None


def _flipped(line):
    return line.replace(b'"On it."', b'"On it!"')


HURTS = pytest.mark.parametrize("hurt", [_overwritten, _removed, _flipped], ids=lambda hurt: hurt.__name__.strip("_"))


@HURTS
def test_the_model_is_told_which_tools_a_lost_reply_had_started(hurt):
    """Law 6: the worker is killed in the tool, then the reply is damaged; the effect happens once."""
    rig = Rig()
    rig.change(b'"On it."', hurt)
    rig.wake()
    assert rig.published == 1
    (notice,) = rig.notices()
    assert notice.custom_type == DAMAGE_NOTICE
    text = notice.content[0].text
    assert WARNING in text
    assert "publish (call p): its input is lost; it had started and its outcome is unknown" in text
    assert all({"offset", "bytes", "digest", "kind"} <= set(hole) for hole in notice.data["damage"])
    assert any(WARNING in part.text for message in rig.model.requests[-1].messages for part in message.content)


@HURTS
def test_the_model_is_told_a_readable_result_of_a_lost_reply(hurt):
    """Law 6: killed just after the result; the output of the tool is not lost with the reply."""
    rig = Rig(in_tool=False)
    last = next(at for at, line in enumerate(rig.lines()) if b"dealt with" in line)
    rig.store.replace(rig.id, rig.name, b"".join(line + b"\n" for line in rig.lines()[: last - 1]))
    rig.change(b'"On it."', hurt)
    rig.wake()
    assert rig.published == 1
    assert "version 1 is out" in rig.notices()[0].content[0].text


@HURTS
def test_reply_and_tool_started_damaged(hurt):
    """Law 6: with `tool_started` damaged too, the damaged lines still count as a started tool."""
    rig = Rig()
    rig.change(b'"On it."', hurt)
    rig.change(b'"tool_started"', _overwritten)
    rig.wake()
    assert rig.published == 1
    assert len(rig.notices()) == 1


def test_reply_and_tool_started_removed():
    """Law 6: where both lines were removed, the seal of the next line shows it."""
    rig = Rig()
    Session(rig.store, rig.name).rename("something stands behind them")
    rig.change(b'"On it."', _removed)
    rig.change(b'"tool_started"', _removed)
    rig.wake()
    assert rig.published == 1
    assert [hole["kind"] for hole in rig.notices()[0].data["damage"]] == ["missing"]


def test_each_damage_is_reported_once():
    """Law 9: a later turn and a later wake do not report the same damage again."""
    rig = Rig()
    rig.change(b'"On it."', _overwritten)
    for version in (2, 3):
        rig.wake()
        Session(rig.store, rig.name).say(f"publish {version}")
    rig.wake()
    assert len(rig.notices()) == 1
    assert rig.published == 3


def test_a_person_decides_first():
    """RUN-13: with `unknown = ask` the model is told only after a person has decided.

    Running it again is not offered.
    """
    rig = Rig(unknown="ask")
    rig.change(b'"On it."', _overwritten)
    calls = len(rig.model.requests)
    rig.wake()
    assert len(rig.model.requests) == calls
    (question,) = open_questions(Session(rig.store, rig.name))
    assert question.choices == ("ran", "did not run", "unknown", "result")
    rig.wake()
    assert len(open_questions(Session(rig.store, rig.name))) == 1
    resolve_question(Session(rig.store, rig.name), question.attention.id, "result", result="it is out, I looked")
    rig.wake()
    assert "it is out, I looked" in rig.notices()[0].content[0].text
    assert (rig.published, open_questions(Session(rig.store, rig.name))) == (1, [])


def test_live_output_of_a_lost_replys_tool_does_not_stop_waking():
    """Law 15: a journal whose reply cannot be read still becomes an entry."""
    rig = Rig()
    started = next(line for line in rig.lines() if b'"tool_started"' in line)
    entry_id = started.split(b'"id":"')[1].split(b'"')[0].decode()
    rig.change(b'"On it."', _overwritten)
    rig.store.journal(rig.name, entry_id, b'{"text":"half"}')
    rig.wake()
    assert (rig.published, len(rig.notices())) == (1, 1)
