"""Laws 4 and 5, RUN-3, RUN-8, RUN-12: the order in which a reply is asked for, shown, kept and given."""

import asyncio

import pytest

from tests.kernel.plays import Play
from tests.runtime.rigs import Rig
from wakelog.decide.decisions import Idle
from wakelog.decide.wording import CLIP_BYTES
from wakelog.log.content import Finished, Prompt, Reply, TextDelta
from wakelog.log.entry import Cancelled, Failed, Message, ModelCall, Partial, Queued, Resumed
from wakelog.projections.context import build_context
from wakelog.runtime.wake import wake
from wakelog.testing.crashing_store import SimulatedCrash

HELLO = {"Hi.": [{"text": "Hello there.", "deltaChars": 5}]}


def _replies(rig):
    return [value for value in rig.values(Message) if isinstance(value.message, Reply)]


def test_the_order_of_a_reply():
    """Laws 4 and 5: each piece is in the journal before it is shown, the reply before its journal goes, sent last."""
    rig = Rig(HELLO)
    rig.kinds()
    rig.say("Hi.")
    assert rig.events.index(("call", "not synced")) < rig.events.index(("journal", "Hello"))
    shown = [event for event in rig.events if event[0] in ("journal", "shown")]
    # A full stop is held back until it is plain that no key begins there.
    assert shown[:8] == [(kind, text) for text in ("Hello", " ther", "e", ".") for kind in ("journal", "shown")]
    kinds = [kind for kind in rig.kinds() if kind not in ("journal", "shown", "activity")]
    assert kinds == ["message", "call", "message", "drop", "flushed", "sent"]


def test_the_prompt_is_durable_before_the_model_is_asked():
    """RUN-3: the prompt is synced before the request goes out; the runtime appends only what it produced itself."""
    rig = Rig(HELLO)
    rig.kinds()
    play = Play(HELLO)
    stream = play.stream

    def spied(request):
        rig.events.append(("request", request.messages[-1].content[0].text))
        return stream(request)

    play.stream = spied  # type: ignore[method-assign]
    rig.provider = play
    rig.say("Hi.")
    assert rig.events.index(("message", "synced")) < rig.events.index(("request", "Hi."))
    prompts = [value.message for value in rig.values(Message) if isinstance(value.message, Prompt)]
    assert [prompt.text for prompt in prompts] == ["Hi."]


def test_what_is_synced():
    """Law 4: prompt, reply and sent are durable; a call need not be, since it can be told again."""
    rig = Rig(HELLO)
    rig.say("Hi.")
    synced = {kind for kind, how in rig.events if how == "synced"}
    assert {"message", "sent"} <= synced
    assert ("call", "not synced") in rig.events


def test_a_reply_that_was_not_flushed_is_given_again():
    """RUN-9: sent only behind the flush; after a broken channel the same reply is delivered under the same id."""
    rig = Rig(HELLO)
    rig.channel.breaks = True
    assert rig.say("Hi.").decision == Idle()
    assert "sent" not in rig.kinds()
    rig.channel.breaks = False
    assert rig.wake().rules == ("owed", "rest")
    assert len(_replies(rig)) == 1
    assert rig.outside.channel.replies == {_replies(rig)[0].id: "Hello there."}
    rig.kinds()
    rig.wake()
    assert rig.kinds() == []


@pytest.mark.parametrize("cut", ["replace", "resume"])
@pytest.mark.parametrize("at", range(2, 14))
def test_a_death_at_any_write_of_a_reply(at, cut):
    """RUN-8, law 5: what was shown is a prefix of what is recovered; resume goes on, replace begins anew, visibly."""
    rig = Rig(HELLO, can_resume=True, cut=cut)
    rig.session.say("Hi.")
    rig.die(at)
    shown = dict(rig.outside.channel.replies)
    rig.events.clear()
    assert rig.wake().decision == Idle()
    (reply,) = _replies(rig)
    assert reply.message.text == "Hello there."
    assert rig.outside.channel.replies == {reply.id: "Hello there."}
    kept = [partial.content[0].text for partial in rig.values(Partial)]
    if rig.values(Resumed):
        # The reply had not come into the log: whatever anybody saw of it is kept as an annotation.
        assert all(not text or any(part.startswith(text) for part in kept) for text in shown.values())
    for resumed, partial in zip(rig.values(Resumed), rig.values(Partial), strict=False):
        assert resumed.strategy == cut
        assert resumed.prior_chars == len(partial.content[0].text)
        assert any(event[0] == "reset" for event in rig.events) == (cut == "replace")
    assert rig.store.journals("s") == {}


def test_a_partial_is_sealed_once():
    """RUN-8: a worker that dies between sealing and dropping a journal leaves one partial, not two."""
    rig = Rig(HELLO)
    rig.session.say("Hi.")
    rig.die(4)
    assert rig.store.journals("s")
    rig.die(1, after=True)
    rig.wake()
    assert len(rig.values(Partial)) == 1


def test_a_fault_is_an_entry_and_is_tried_again():
    """RUN-12: what came is kept as an annotation, the fault as a node; the wait is in the log."""
    rig = Rig(
        {"Hi.": [{"text": "Hello", "error": {"kind": "overload", "retryable": True, "delayMs": 50}}]}, faults_max=3
    )
    report = rig.say("Hi.")
    assert report.decision == Idle("failed")
    faults = rig.values(Failed)
    assert [fault.reason for fault in faults] == ["call", "call", "call", "faults"]
    assert [partial.content[0].text for partial in rig.values(Partial)] == ["Hello"] * 3
    assert set(rig.outside.channel.replies.values()) == {""}


def test_a_stream_that_just_ends_is_a_fault():
    """RUN-12: a reply without an end was cut, whoever cut it."""
    rig = Rig(HELLO, faults_max=1)

    class Mute:
        name, can_resume = "mute", False

        def __call__(self, *_):
            return self

        async def stream(self, request):
            for _ in ():
                yield

    rig.provider = Mute()
    assert rig.say("Hi.").decision == Idle("failed")
    assert rig.values(Failed)[0].error.kind == "cut"


def test_a_cancel_while_it_streams():
    """RUN-12: what was said is kept, the turn has ended, and nobody mends it afterwards."""
    rig = Rig({"Hi.": [{"text": "a long story " * 20, "deltaChars": 4, "delayMs": 20}]})
    rig.session.say("Hi.")

    rig.channel.on_delta = lambda: rig.values(Queued) or rig.session.append(Queued(mode="cancel"))
    assert rig.wake().decision == Idle("cancelled")
    (partial,) = rig.values(Partial)
    assert ("a long story " * 20).startswith(partial.content[0].text)
    assert len(rig.values(Cancelled)) == 1
    calls = len(rig.values(ModelCall))
    assert rig.wake().decision == Idle("cancelled")
    assert len(rig.values(ModelCall)) == calls


def _model_sees(rig):
    messages = build_context(rig.session.branch()).messages
    return [(message.role, message.content[0].text) for message in messages]


def test_what_was_stopped_stays_part_of_the_talk():
    """RUN-12: the model knows what a person had read when they stopped it, and what they say next is about that."""
    story = {"text": "a long story " * 20, "deltaChars": 4, "delayMs": 20}
    rig = Rig({"Hi.": [story], "Shorter.": [{"text": "Fine."}]})
    rig.session.say("Hi.")
    rig.channel.on_delta = lambda: rig.values(Queued) or rig.session.append(Queued(mode="cancel"))
    rig.wake()
    (shown,) = rig.outside.channel.replies.values()
    assert shown
    assert _model_sees(rig) == [("user", "Hi."), ("assistant", shown)]
    rig.channel.on_delta = lambda: None
    rig.say("Shorter.")
    assert _model_sees(rig)[1:] == [("assistant", shown), ("user", "Shorter."), ("assistant", "Fine.")]


def test_what_was_cut_and_then_stopped_stays_part_of_the_talk():
    """RUN-8, RUN-12: the same where the process died first, and a person had enough of it then."""
    rig = Rig(HELLO)
    rig.session.say("Hi.")
    rig.die(6)
    rig.session.append(Queued(mode="cancel"))
    assert rig.wake().decision == Idle("cancelled")
    (partial,) = rig.values(Partial)
    assert _model_sees(rig) == [("user", "Hi."), ("assistant", partial.content[0].text)]


class _Talking:
    """A model whose stream knows whether it was closed."""

    name, can_resume = "scripted", False

    def __init__(self):
        self.is_open = None

    async def stream(self, request):
        self.is_open = True
        try:
            yield TextDelta("Hello there. ")
            yield Finished()
        finally:
            # Hanging up takes a moment.
            await asyncio.sleep(0)
            self.is_open = False


def test_whoever_stops_listening_hangs_up():
    """RUN-8: a worker that ends in the middle of a reply leaves no stream open behind it."""
    rig, talking = Rig(HELLO), _Talking()
    rig.provider = lambda *_: talking
    rig.channel.on_delta = _break
    rig.session.say("Hi.")

    async def wake_up():
        with pytest.raises(SimulatedCrash) as error:
            await wake(rig.runtime(), "s")
        return error, talking.is_open

    assert asyncio.run(wake_up())[1] is False


def _break():
    raise SimulatedCrash


def test_the_message_of_a_fault_is_clipped():
    """RUN-12: a provider may answer with a page of any length, and with halves of characters."""
    page = "<html>" + "x" * 20_000_000 + "\ud800"
    rig = Rig({"Hi.": [{"error": {"kind": "server", "message": page}}]})
    assert rig.say("Hi.").decision == Idle("failed")
    (failed,) = rig.values(Failed)
    assert failed.error.message.startswith("<html>")
    assert len(failed.error.message.encode()) <= CLIP_BYTES
