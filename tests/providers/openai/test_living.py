"""Whole sessions on this wire through the real kernel: what goes wrong is in the log, and wake goes on."""

import json
import re
import threading

import pytest

from tests.kernel.watching import Watched, until
from tests.loopback import CUT, Answer, Hold, Loopback, events
from tests.patience import PATIENCE_S
from tests.providers.openai.living import SESSION, Place
from tests.providers.openai.validating import valid_chat, valid_responses
from tests.providers.openai.wire import (
    call,
    chat_acts,
    chat_reply,
    chunk,
    error_answer,
    message,
    reasoning,
    response_events,
    responses_answer,
)
from wakelog.decide.assembly import parts_from_journal
from wakelog.decide.decisions import Idle
from wakelog.log.content import Reply, ToolResult
from wakelog.log.entry import Cancelled, Failed, Message, ModelCall, Partial, Queued, Resumed
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

TURNS = 30


def _said(entries, kind):
    messages = [entry.value.message for entry in entries if isinstance(entry.value, Message)]
    return [each for each in messages if isinstance(each, kind)]


def _of(entries, kind):
    return [entry.value for entry in entries if isinstance(entry.value, kind)]


class Wire:
    """One of the two protocols: what a server says in it, and how its requests are read."""

    def __init__(self, provider):
        self.provider = provider
        self.is_chat = provider == "openai-chat"
        self.key = "messages" if self.is_chat else "input"

    def judge(self, body):
        (valid_chat if self.is_chat else valid_responses)(body)

    def looking(self, turn):
        """A reply that thinks and looks at two places at once."""
        where = [json.dumps({"where": f"{side}{turn}"}) for side in ("n", "s")]
        if self.is_chat:
            calls = [(f"call_{turn}_{at}", "look", given) for at, given in enumerate(where)]
            return chat_reply(f"I look ({turn}).", calls=calls, thoughts=f"Hm {turn}.")
        calls = [call(f"fc_{turn}_{at}", f"call_{turn}_{at}", "look", given) for at, given in enumerate(where)]
        thought = reasoning(f"rs_{turn}", f"Hm {turn}.", encrypted=f"sealed{turn}")
        return responses_answer(thought, message(f"msg_{turn}", f"I look ({turn}).", phase="commentary"), *calls)

    def saying(self, turn, text="Snow."):
        return chat_reply(text) if self.is_chat else responses_answer(message(f"msg_{turn}_end", text))

    def half(self):
        """The acts of a reply, up to the middle of its text."""
        if self.is_chat:
            return chat_acts(chunk({"role": "assistant", "content": ""}), chunk({"content": "So far"}), done=False)
        return events(*response_events(message("msg_1", "So farther"))[:5])

    def error(self):
        """An error in the middle of a reply."""
        if self.is_chat:
            return chat_acts({"error": {"message": "it broke", "type": "server_error"}})
        return events({"type": "error", "code": "server_error", "message": "it broke"})

    def __call__(self, asked):
        """A model that looks before it answers."""
        *told, last = asked.json[self.key]
        # What is injected ends the user's own message, where that is the last one.
        told += [last] if self.is_chat and not last["content"].startswith("Now: run") else []
        prompts = [each for each in told if each.get("role") == "user"]
        is_answered = told[-1].get("role") == "tool" or told[-1].get("type") == "function_call_output"
        return self.saying(len(prompts)) if is_answered else self.looking(len(prompts))


@pytest.fixture(params=["openai", "openai-chat"])
def wire(request):
    return Wire(request.param)


# ── law 8 ────────────────────────────────────────────────────────────────────────────────────────


def test_a_long_session_keeps_its_prefix(wire, tmp_path):
    """Law 8, VIEW-5, VIEW-7: over 30 turns with tools and injected context, in the very bytes that were sent."""
    place = Place(tmp_path, MemoryStore())
    with Loopback(wire) as server:
        session = place.begin(wire.provider, server.url)
        for turn in range(TURNS):
            session.say(f"Turn {turn}, Grüße 🙂")
            assert place.wake().decision == Idle()
        asked = server.asked
    assert len(asked) == 2 * TURNS
    assert len(place.looks) == 2 * TURNS
    before = None
    for each in asked:
        wire.judge(each.json)
        stable, injected, _ = re.split(wire_tail(wire), each.body, maxsplit=1)
        assert injected, "the injected context stands at the very end"
        assert b"Now: run" not in stable, "it never becomes history"
        if before is not None:
            assert stable.startswith(before)
            assert len(stable) > len(before)
        before = stable
    around = [{key: value for key, value in each.json.items() if key != wire.key} for each in asked]
    assert all(each == around[0] for each in around), "all else stays as it was"
    _everything_went_back(wire, asked[-1].json)


def wire_tail(wire):
    """Where the injected context begins: a message of its own, or the end of the user's."""
    if wire.is_chat:
        return rb'(,\{"role":"user","content":"Now: run|\\n\\nNow: run)'
    return rb'(,\{"role":"user","content":\[\{"type":"input_text","text":"Now: run)'


def _everything_went_back(wire, body):
    """The model's own reasoning, as it came, in every turn."""
    told = body[wire.key]
    if wire.is_chat:
        assert [each["reasoning_content"] for each in told if "reasoning_content" in each] == [
            f"Hm {turn}." for turn in range(1, TURNS + 1)
        ]
    else:
        sealed = [each["encrypted_content"] for each in told if each.get("type") == "reasoning"]
        assert sealed == [f"sealed{turn}" for turn in range(1, TURNS + 1)]
        assert [each["phase"] for each in told if "phase" in each] == ["commentary"] * TURNS


# ── faults ───────────────────────────────────────────────────────────────────────────────────────

FAULTS = {
    "rate_limited": lambda wire: error_answer(429, "rate_limit_exceeded", headers={"retry-after-ms": "1234"}),
    "overloaded": lambda wire: error_answer(503),
    "server": lambda wire: Answer([*wire.half(), *wire.error()]),
    "cut": lambda wire: Answer([*wire.half(), CUT]),
    "malformed": lambda wire: Answer([*wire.half(), b"data: {oops\n\n"]),
}
FINAL = {
    "auth": lambda wire: error_answer(401, "invalid_api_key"),
    "quota": lambda wire: error_answer(429, "insufficient_quota"),
    "bad_request": lambda wire: error_answer(400),
    "not_found": lambda wire: error_answer(404, "model_not_found"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_in_the_log_and_wake_goes_on(wire, kind, tmp_path):
    """RUN-12: the right entry with the right retry word, what had been said kept, and then the reply."""
    place = Place(tmp_path)
    with Loopback() as server:
        session = place.begin(wire.provider, server.url)
        session.say("Go.")
        server.play(FAULTS[kind](wire), wire.looking(1), wire.saying(1))
        assert place.wake().decision == Idle()
        bodies = [each.json for each in server.asked]
    entries = session.read().entries
    (failed,) = _of(entries, Failed)
    assert (failed.error.kind, failed.error.retryable) == (kind, True)
    if kind == "rate_limited":
        assert (failed.error.delay_ms, place.clock.waits) == (1234, [pytest.approx(1234, abs=1234)])
    partials = ["".join(part.text for part in each.content) for each in _of(entries, Partial)]
    assert [text[:2] for text in partials] == (["So"] if kind in ("server", "cut", "malformed") else [])
    assert [reply.text for reply in _said(entries, Reply)] == ["I look (1).", "Snow."]
    assert [result.status for result in _said(entries, ToolResult)] == ["ok", "ok"]
    assert bodies[0] == bodies[1], "it is the same question: nothing of what failed is in it"


@pytest.mark.parametrize("kind", FINAL)
def test_a_fault_that_waiting_does_not_cure(wire, kind, tmp_path):
    place = Place(tmp_path)
    with Loopback() as server:
        session = place.begin(wire.provider, server.url)
        session.say("Go.")
        server.play(FINAL[kind](wire))
        place.wake()
        (failed,) = _of(session.read().entries, Failed)
        assert (failed.error.kind, failed.error.retryable, len(server.asked)) == (kind, False, 1)
        session.say("Again.")
        server.play(wire.saying(1))
        assert place.wake().text == "Snow."


def test_replies_are_kept_whole(wire, tmp_path):
    """LOG-13: safe metadata, the usage in one meaning, and no more of the wire than has to go back."""
    place = Place(tmp_path)
    with Loopback() as server:
        session = place.begin(wire.provider, server.url)
        session.say("Go.")
        server.play(wire.looking(1), wire.saying(1))
        place.wake()
    first, last = _said(session.read().entries, Reply)
    assert (first.stop_reason, last.stop_reason, last.request_id) == ("tools", "stop", "req_1")
    used = last.usage
    assert used.input_tokens + used.cache_read_tokens + used.cache_write_tokens == 100
    assert used.output_tokens == 20


def test_a_refusal_and_a_length_stop_end_the_turn(wire, tmp_path):
    place = Place(tmp_path)
    if wire.is_chat:
        told = [chat_reply("So", finish="length"), Answer(chat_acts(chunk({"refusal": "I will not."}, "stop")))]
    else:
        cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        told = [
            responses_answer(message("msg_1", "So"), **cut),
            responses_answer(message("msg_2", refusal="I will not.")),
        ]
    with Loopback() as server:
        server.play(*told)
        session = place.begin(wire.provider, server.url)
        for _ in told:
            session.say("Go.")
            assert place.wake().decision == Idle()
    replies = _said(session.read().entries, Reply)
    assert [(reply.text, reply.stop_reason) for reply in replies] == [("So", "length"), ("I will not.", "refusal")]


def test_a_person_cancels_a_slow_reply(wire, tmp_path):
    """A held stream is let go at once; what had been said is kept."""
    place, gate, reached = Place(tmp_path, MemoryStore()), threading.Event(), threading.Event()
    with Loopback() as server:
        session = place.begin(wire.provider, server.url)
        session.say("Go.")
        server.play(Answer([*wire.half(), Hold(gate, reached)]))
        person = threading.Thread(target=_cancel, args=(place, reached))
        person.start()
        place.wake()
        person.join()
        gate.set()
    entries = session.read().entries
    assert [each.reason for each in _of(entries, Cancelled)] == ["asked by a person"]
    assert len(_of(entries, Partial)) == 1
    assert _of(entries, Failed) == []


def _cancel(place, reached):
    assert reached.wait(PATIENCE_S)
    until(lambda: _shown(place).startswith("So "))
    Session(place.store, SESSION).append(Queued(mode="cancel"))


# ── kill -9 ──────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_is_killed_in_a_reply(wire, tmp_path):
    """Law 5, law 6, RUN-8: the journal is kept as `partial`, the reply is replaced, and its tools run once."""
    place, gate, reached = Place(tmp_path), threading.Event(), threading.Event()
    with Loopback() as server:
        session = place.begin(wire.provider, server.url)
        session.say("Go.")
        server.play(Answer([*wire.half(), Hold(gate, reached)]))
        # The worker has no hook at hand of its own but the same one, which says the same in its first run.
        with Watched(tmp_path, module="tests.providers.openai.living") as worker:
            assert reached.wait(PATIENCE_S)
            until(lambda: _shown(place).startswith("So "))
            worker.kill()
        gate.set()
        assert place.looks == []
        server.play(wire.looking(1), wire.saying(1))
        assert place.wake().decision == Idle()
        bodies = [each.json for each in server.asked]
    entries = session.read().entries
    assert len(_of(entries, Partial)) == 1
    assert [each.strategy for each in _of(entries, Resumed)] == ["replace"]
    first, second, third = _of(entries, ModelCall)
    assert first.reply_id == second.reply_id != third.reply_id
    assert bodies[0] == bodies[1], "it is the same question"
    assert [reply.text for reply in _said(entries, Reply)] == ["I look (1).", "Snow."]
    assert sorted(place.looks) == ["n1", "s1"]
    assert place.store.journals(SESSION) == {}


def _shown(place):
    (pieces,) = list(place.store.journals(SESSION).values()) or [()]
    return "".join(part.text for part in parts_from_journal(pieces))
