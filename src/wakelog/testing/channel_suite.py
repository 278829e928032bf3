"""Conformance suite for channels. Subclass it in a test class with one fixture, `stage`.

    class TestMyChannel(ChannelSuite):
        @pytest.fixture
        def stage(self): return MyStage

A new stage is created for each delivery: a channel and the output its reader has received. The suite does not prescribe
the format of the output; it compares the outputs of two equivalent deliveries. The loss of a reader is covered by
separate tests of each channel.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakelog.errors import UsageError
from wakelog.ports.runtime import Channel


class Stage(Protocol):
    """A channel under test, and its reader."""

    channel: Channel

    def shown(self) -> str:
        """Return all output so far, as the reader sees it now."""
        ...


NewStage = Callable[[], Stage]
Play = Callable[[Channel], Coroutine[Any, Any, None]]
# Text that changes its meaning if cut in the wrong place: escapes, CRLF, variation selectors, a long line.
HOSTILE = "one\r\ntwo \x1b[31mred\x1b[0m\r three\t\u2764\ufe0f\ufe0f\u202efour\n\n\x9b5n" + "long " * 20 + "end"


def output_of(new: NewStage, play: Play) -> str:
    """Return the output of a delivery."""
    stage = new()
    asyncio.run(play(stage.channel))
    return stage.shown()


def single_delivery(text: str, reply_id: str = "r1") -> Play:
    """Return the plain delivery: one reply, in one piece."""

    async def play(channel: Channel) -> None:
        await channel.begin(reply_id, 1)
        await channel.delta(reply_id, 0, text)
        await channel.end(reply_id)

    return play


class ChannelSuite:
    """Subclass it and provide a `stage` fixture: a callable that returns a new `Stage`."""

    def test_text_comes_out(self, stage: NewStage) -> None:
        """RUN-10: delivered text is shown immediately."""
        made = stage()

        async def play(channel: Channel) -> None:
            await channel.begin("r1", 1)
            await channel.delta("r1", 0, "Hello, ")
            assert made.shown().endswith("Hello, ")
            await channel.delta("r1", 7, "world")
            assert made.shown().endswith("Hello, world")
            await channel.end("r1")

        asyncio.run(play(made.channel))
        assert "Hello, world" in made.shown()

    def test_a_reply_without_text_shows_nothing(self, stage: NewStage) -> None:
        """A reply with tool calls only shows nothing."""

        async def play(channel: Channel) -> None:
            await channel.begin("r1", 1)
            await channel.delta("r1", 0, "")
            await channel.end("r1")

        assert output_of(stage, play) == ""

    def test_cuts_and_repeats_leave_no_trace(self, stage: NewStage) -> None:
        """Law 13: however a reply is cut and however often a piece is repeated, the reader gets it once."""
        plain = output_of(stage, single_delivery(HOSTILE))
        place = st.integers(0, len(HOSTILE))

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(st.tuples(place, place), max_size=30))
        def check(pieces: list[tuple[int, int]]) -> None:
            async def play(channel: Channel) -> None:
                await channel.begin("r1", 1)
                there = 0
                for one, other in pieces:
                    start, stop = min(one, other, there), max(one, other)
                    await channel.delta("r1", start, HOSTILE[start:stop])
                    there = max(there, stop)
                await channel.delta("r1", there, HOSTILE[there:])
                await channel.end("r1")

            assert output_of(stage, play) == plain

        check()

    def test_every_cut_in_two(self, stage: NewStage) -> None:
        """Law 13: the output does not depend on where the text is cut."""
        plain = output_of(stage, single_delivery(HOSTILE))
        for cut in range(len(HOSTILE) + 1):

            async def play(channel: Channel, cut: int = cut) -> None:
                await channel.begin("r1", 1)
                await channel.delta("r1", 0, HOSTILE[:cut])
                await channel.delta("r1", cut, HOSTILE[cut:])
                await channel.end("r1")

            assert output_of(stage, play) == plain, cut

    def test_a_reply_delivered_again(self, stage: NewStage) -> None:
        """RUN-9: a reply that may not have been sent is delivered again with the same id, and not shown twice."""

        async def play(channel: Channel) -> None:
            for attempt in (1, 2, 3):
                await channel.begin("r1", attempt)
                await channel.delta("r1", 0, "Hello, ")
                await channel.delta("r1", 7, "world")
                await channel.end("r1")

        assert output_of(stage, play) == output_of(stage, single_delivery("Hello, world"))

    def test_a_later_attempt_goes_on(self, stage: NewStage) -> None:
        """RUN-8: a new attempt discards nothing; a resumed reply continues where it was interrupted."""

        async def play(channel: Channel) -> None:
            await channel.begin("r1", 1)
            await channel.delta("r1", 0, "Hello, ")
            await channel.begin("r1", 2)
            await channel.delta("r1", 7, "world")
            await channel.end("r1")

        assert output_of(stage, play) == output_of(stage, single_delivery("Hello, world"))

    def test_reset_starts_from_nothing(self, stage: NewStage) -> None:
        """RUN-8: a reset discards the text shown before, and the new text is shown from its start."""

        async def play(channel: Channel) -> None:
            await channel.begin("r1", 1)
            await channel.delta("r1", 0, "Hello, wor")
            await channel.begin("r1", 2)
            await channel.reset("r1")
            await channel.delta("r1", 0, "Good morning")
            await channel.end("r1")

        assert output_of(stage, play).endswith(output_of(stage, single_delivery("Good morning")))

    def test_reset_after_the_end(self, stage: NewStage) -> None:
        """A reply that was delivered completely can still be replaced."""

        async def play(channel: Channel) -> None:
            await single_delivery("Hello")(channel)
            await channel.reset("r1")
            await single_delivery("Good morning")(channel)

        assert output_of(stage, play).endswith(output_of(stage, single_delivery("Good morning")))

    def test_reset_of_nothing_shows_nothing(self, stage: NewStage) -> None:
        """A reset of a reply without output shows nothing."""

        async def play(channel: Channel) -> None:
            await channel.begin("r1", 1)
            await channel.reset("r1")
            await single_delivery("Hello")(channel)

        assert output_of(stage, play) == output_of(stage, single_delivery("Hello"))

    def test_a_reset_may_be_the_end(self, stage: NewStage) -> None:
        """RUN-25: a reply that is reset and never comes again leaves nothing behind for the next one."""

        async def play(channel: Channel) -> None:
            await channel.begin("r1", 1)
            await channel.delta("r1", 0, "Hello, wor")
            await channel.reset("r1")
            await single_delivery("Good morning", "r2")(channel)

        assert output_of(stage, play).endswith(output_of(stage, single_delivery("Good morning", "r2")))

    def test_a_reset_of_an_unknown_reply_shows_nothing(self, stage: NewStage) -> None:
        """RUN-25: a worker resets what its predecessor may have shown, more than once if need be."""

        async def play(channel: Channel) -> None:
            await channel.reset("r0")
            await channel.reset("r0")
            await single_delivery("Hello")(channel)

        assert output_of(stage, play) == output_of(stage, single_delivery("Hello"))

    def test_an_interrupted_reply_may_end_with_its_text(self, stage: NewStage) -> None:
        """RUN-25: the end of a cancelled reply brings the text that was displayed, and adds nothing to it."""

        async def play(channel: Channel) -> None:
            await channel.begin("r1", 1)
            await channel.delta("r1", 0, "Hello, ")
            await channel.delta("r1", 7, "wor")
            await channel.begin("r1", 1)
            await channel.delta("r1", 0, "Hello, wor")
            await channel.end("r1")

        assert output_of(stage, play) == output_of(stage, single_delivery("Hello, wor"))

    def test_replies_count_for_themselves(self, stage: NewStage) -> None:
        """Offsets are per reply: a second one begins at 0, and a repetition of the first changes nothing."""

        async def play(channel: Channel) -> None:
            await single_delivery("Hello, world", "r1")(channel)
            await single_delivery("Hello", "r2")(channel)
            await single_delivery("Hello, world", "r1")(channel)

        both = output_of(stage, play)
        assert both == output_of(stage, single_delivery("Hello, world", "r1")) + output_of(
            stage, single_delivery("Hello", "r2")
        )

    @pytest.mark.parametrize("offset", [-1, 6, 100])
    def test_a_gap_is_refused(self, stage: NewStage, offset: int) -> None:
        """A delta whose offset leaves a gap is refused."""

        async def play(channel: Channel) -> None:
            await channel.begin("r1", 1)
            await channel.delta("r1", 0, "Hello")
            with pytest.raises(UsageError):
                await channel.delta("r1", offset, ", world")
            await channel.delta("r1", 5, ", world")
            await channel.end("r1")

        assert output_of(stage, play) == output_of(stage, single_delivery("Hello, world"))

    def test_a_contradiction_is_refused(self, stage: NewStage) -> None:
        """A repetition with different text is refused; replacing text needs a reset."""

        async def play(channel: Channel) -> None:
            await channel.begin("r1", 1)
            await channel.delta("r1", 0, "Hello")
            for offset, text in ((0, "Jello, world"), (4, "a"), (1, "ellO")):
                with pytest.raises(UsageError):
                    await channel.delta("r1", offset, text)
            await channel.delta("r1", 5, ", world")
            await channel.end("r1")

        assert output_of(stage, play) == output_of(stage, single_delivery("Hello, world"))

    def test_a_whole_reply_does_not_grow(self, stage: NewStage) -> None:
        """A delta after `end` is refused."""

        async def play(channel: Channel) -> None:
            await single_delivery("Hello")(channel)
            with pytest.raises(UsageError):
                await channel.delta("r1", 5, ", world")

        assert output_of(stage, play) == output_of(stage, single_delivery("Hello"))
