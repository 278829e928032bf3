"""The callback channel passes the suite, reports every event, and lets exceptions through."""

import asyncio

import pytest

from wakelog.channels.in_process import Begin, CallbackChannel, DeltaText, End, ReplyEvent, Reset
from wakelog.testing.channel_suite import ChannelSuite, single_delivery


class CallbackStage:
    """A reader that applies every event."""

    def __init__(self):
        self.texts = {}
        self.channel = CallbackChannel(self.take)

    def take(self, event):
        match event:
            case DeltaText(reply_id, _, offset, text):
                assert offset == len(self.texts.get(reply_id, ""))
                self.texts[reply_id] = self.texts.get(reply_id, "") + text
            case Reset(reply_id, _):
                self.texts[reply_id] = ""

    def shown(self):
        return "".join(self.texts.values())


class TestCallback(ChannelSuite):
    @pytest.fixture
    def stage(self):
        return CallbackStage


async def play(channel):
    await channel.begin("r1", 1)
    await channel.delta("r1", 0, "Hel")
    await channel.delta("r1", 0, "Hel")
    await channel.begin("r1", 2)
    await channel.reset("r1")
    await channel.delta("r1", 0, "Good ")
    await channel.delta("r1", 2, "od day")
    await channel.end("r1")


EVENTS = [
    Begin("r1", 1),
    DeltaText("r1", 1, 0, "Hel"),
    Begin("r1", 2),
    Reset("r1", 2),
    DeltaText("r1", 2, 0, "Good "),
    DeltaText("r1", 2, 5, "day"),
    End("r1", 2, 8),
]


def test_a_plain_function():
    """Every event carries the reply, the attempt and the position in the reply."""
    events: list[ReplyEvent] = []
    asyncio.run(play(CallbackChannel(events.append)))
    assert events == EVENTS


def test_an_async_function_is_waited_for():
    """Returning from `end` means delivered, so the function has returned, too."""
    events = []

    async def take(event):
        await asyncio.sleep(0)
        events.append(event)

    asyncio.run(play(CallbackChannel(take)))
    assert events == EVENTS


@pytest.mark.parametrize("bad", [DeltaText, End])
def test_a_failed_event_is_given_again(bad):
    """RUN-9: the exception reaches the sender, and the event that failed is delivered again."""
    events = []
    failing = True

    def take(event):
        if failing and isinstance(event, bad):
            raise ConnectionError("gone")
        events.append(event)

    channel = CallbackChannel(take)
    with pytest.raises(ConnectionError):
        asyncio.run(single_delivery("Hello")(channel))
    failing = False
    asyncio.run(single_delivery("Hello")(channel))
    assert [event for event in events if isinstance(event, DeltaText)] == [DeltaText("r1", 1, 0, "Hello")]
    assert events[-1] == End("r1", 1, 5)


def test_a_reset_reaches_the_function_from_another_process():
    """RUN-25: a new object does not know what an earlier process passed, so the function is told that it is void."""
    stage, events = CallbackStage(), []
    asyncio.run(stage.channel.begin("r1", 1))
    asyncio.run(stage.channel.delta("r1", 0, "Hel"))

    def take(event):
        events.append(event)
        stage.take(event)

    asyncio.run(CallbackChannel(take).reset("r1"))
    assert (events, stage.shown()) == ([Reset("r1", 1)], "")
