"""The reference channel passes the suite, and keeps the text it is given."""

import asyncio

import pytest

from wakelog.channels.in_process import MemoryChannel
from wakelog.testing.channel_suite import ChannelSuite, single_delivery


class HeldStage:
    def __init__(self):
        self.channel = MemoryChannel()

    def shown(self):
        return "".join(self.channel.replies.values())


class TestHeld(ChannelSuite):
    @pytest.fixture
    def stage(self):
        return HeldStage


def test_it_keeps_every_character():
    """Law 11: the channel has the text of each reply, character by character."""
    held = MemoryChannel()
    text = "a\r\nb\x1b[0m\u2764\ufe0f\U0001f600 \ud800"

    async def play():
        await single_delivery(text, "r2")(held)
        await held.begin("r1", 3)
        for offset, character in enumerate(text):
            await held.delta("r1", offset, character)

    asyncio.run(play())
    assert held.replies == {"r2": text, "r1": text}
    assert held.attempts == {"r2": 1, "r1": 3}
    assert held.ended == {"r2"}
