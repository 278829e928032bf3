"""Laws 4 and 5, RUN-3, RUN-8, RUN-12: the order in which a reply is requested, displayed, written and delivered."""

import asyncio

import pytest

from tests.kernel.plays import Play
from tests.runtime.rigs import Rig
from wakelog.decide.decisions import Idle
from wakelog.decide.wording import CLIP_BYTES
from wakelog.log.content import Finished, Prompt, Reply, TextDelta
from wakelog.log.entry import Cancelled, Failed, Message, ModelCall, Partial, Queued, Resumed
from wakelog.projections.context import build_context
from wakelog.runtime.replay.verification import replay
from wakelog.runtime.wake import wake
from wakelog.testing.crashing_store import SimulatedCrash

HELLO = {"Hi.": [{"text": "Hello there.", "deltaChars": 5}]}


def _replies(rig):
    return [value for value in rig.values(Message) if isinstance(value.message, Reply)]


def test_the_order_of_a_reply():
    """Laws 4 and 5: a piece is journaled, then displayed; the reply is written before its journal is dropped."""
    rig = Rig(HELLO)
    rig.kinds()
    rig.say("Hi.")
    assert rig.events.index(("call", "not synced")) < rig.events.index(("journal", "Hello"))
    shown = [event for event in rig.events if event[0] in ("journal", "shown")]
    # A full stop is held back until it cannot be the beginning of a key.
    assert shown[:8] == [(kind, text) for text in ("Hello", " ther", "e", ".") for kind in ("journal", "shown")]
    kinds = [kind for kind in rig.kinds() if kind not in ("journal", "shown", "activity")]
    assert kinds == ["message", "call", "message", "drop", "flushed", "sent"]


def test_the_prompt_is_durable_before_the_model_is_asked():
    """RUN-3: the prompt is synced before the request is sent.

    The runtime appends only entries that it produced itself.
    """
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


def test_prompt_reply_and_sent_are_synced():
    """Law 4: a call entry is not synced, since it can be made again."""
    rig = Rig(HELLO)
    rig.say("Hi.")
    synced = {kind for kind, how in rig.events if how == "synced"}
    assert {"message", "sent"} <= synced
    assert ("call", "not synced") in rig.events


def test_a_reply_that_was_not_flushed_is_delivered_again():
    """RUN-9: `sent` is written only after the flush.

    After a broken channel the same reply is delivered under the same id.
    """
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
def test_a_crash_at_any_write_of_a_reply(at, cut):
    """RUN-8, law 5: displayed text is a prefix of the recovered text.

    `resume` continues it, `replace` starts visibly anew.
    """
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
        # The reply is not in the log: its displayed text is kept as an annotation.
        assert all(not text or any(part.startswith(text) for part in kept) for text in shown.values())
    for resumed, partial in zip(rig.values(Resumed), rig.values(Partial), strict=False):
        assert resumed.strategy == cut
        assert resumed.prior_chars == len(partial.content[0].text)
        assert any(event[0] == "reset" for event in rig.events) == (cut == "replace")
    assert rig.store.journals("s") == {}


def test_a_partial_is_written_once():
    """RUN-8: a worker that crashes between writing the partial and dropping the journal leaves one partial, not two."""
    rig = Rig(HELLO)
    rig.session.say("Hi.")
    rig.die(4)
    assert rig.store.journals("s")
    rig.die(1, after=True)
    rig.wake()
    assert len(rig.values(Partial)) == 1


def test_a_fault_is_an_entry_and_is_retried():
    """RUN-12: received text is kept as an annotation, the fault as a node; the retry wait is in the log."""
    rig = Rig(
        {"Hi.": [{"text": "Hello", "error": {"kind": "overload", "retryable": True, "delayMs": 50}}]}, faults_max=3
    )
    report = rig.say("Hi.")
    assert report.decision == Idle("failed")
    faults = rig.values(Failed)
    assert [fault.reason for fault in faults] == ["call", "call", "call", "faults"]
    assert [partial.content[0].text for partial in rig.values(Partial)] == ["Hello"] * 3
    assert set(rig.outside.channel.replies.values()) == {""}


def test_a_stream_without_an_end_event_is_a_fault():
    """RUN-12: a reply without an end event counts as cut off."""
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


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (KeyError("choices"), "call"),
        (KeyError("choices"), "stream"),
        (ConnectionError("gone"), "stream"),
        (asyncio.CancelledError(), "stream"),
    ],
)
def test_an_unexpected_exception_of_a_provider_is_a_fault_of_its_type(error, place):
    """RUN-12: an exception that a provider should not raise does not escape; it is an entry that replay reproduces."""
    rig = Rig(HELLO, faults_max=2)

    class Broken:
        name, can_resume = "broken", False

        def __call__(self, *_):
            return self

        def stream(self, request):
            if place == "call":
                raise error
            return self._stream()

        async def _stream(self):
            yield TextDelta("Hel")
            raise error

    rig.provider = Broken()
    assert rig.say("Hi.").decision == Idle("failed")
    first = rig.values(Failed)[0].error
    assert (first.kind, first.retryable) == (type(error).__name__, isinstance(error, OSError))
    assert asyncio.run(replay(rig.store, rig.session.name)).ok


def test_a_cancel_while_streaming_keeps_the_text_and_ends_the_turn():
    """RUN-12: the received text is kept, the turn ends, and no later wake recovers the reply."""
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


def test_text_of_a_cancelled_reply_stays_in_the_context():
    """RUN-12: the next request includes the text that was displayed before the cancel."""
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


def test_text_of_a_reply_cancelled_after_a_crash_stays_in_the_context():
    """RUN-8, RUN-12: the same where the process crashed first and a person cancelled afterwards."""
    rig = Rig(HELLO)
    rig.session.say("Hi.")
    rig.die(6)
    rig.session.append(Queued(mode="cancel"))
    assert rig.wake().decision == Idle("cancelled")
    (partial,) = rig.values(Partial)
    assert _model_sees(rig) == [("user", "Hi."), ("assistant", partial.content[0].text)]


class _Talking:
    """A model whose stream records whether it was closed."""

    name, can_resume = "scripted", False

    def __init__(self):
        self.is_open = None

    async def stream(self, request):
        self.is_open = True
        try:
            yield TextDelta("Hello there. ")
            yield Finished()
        finally:
            # The stream is closed in a later iteration of the event loop.
            await asyncio.sleep(0)
            self.is_open = False


def test_a_worker_that_ends_closes_its_stream():
    """RUN-8: a worker that ends in the middle of a reply leaves no stream open."""
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
    """RUN-12: a provider may answer with a page of any length, and with broken characters."""
    page = "<html>" + "x" * 20_000_000 + "\ud800"
    rig = Rig({"Hi.": [{"error": {"kind": "server", "message": page}}]})
    assert rig.say("Hi.").decision == Idle("failed")
    (failed,) = rig.values(Failed)
    assert failed.error.message.startswith("<html>")
    assert len(failed.error.message.encode()) <= CLIP_BYTES


def test_a_call_says_by_how_much_it_exceeds_its_budget():
    """VIEW-1: where the newest prompt alone is larger than the budget; the calls before and after stay within it."""
    long = "x" * 600
    rig = Rig({**HELLO, long: [{"text": "Long."}]}, strategy="budget:100")
    for text in ("Hi.", long, "Hi."):
        assert rig.say(text).decision == Idle()
    assert [(call.tokens_estimate, call.over_limit) for call in rig.values(ModelCall)] == [
        (1, None),
        (150, 50),
        (3, None),
    ]
    assert asyncio.run(replay(rig.store, rig.session.name)).ok
