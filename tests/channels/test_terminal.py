"""The terminal channel passes the suite, escapes what it prints, and reports a reader that is gone."""

import asyncio
import io
import os

import pytest

from tests.cli.payloads import PAYLOADS, SURROGATES
from wakelog.channels.terminal import TerminalChannel
from wakelog.cli.ui.safe_text import visible, visible_lines
from wakelog.errors import UsageError
from wakelog.testing.channel_suite import HOSTILE, ChannelSuite, single_delivery


class TerminalStage:
    def __init__(self, clean=visible):
        self.out = io.StringIO()
        self.channel = TerminalChannel(self.out, clean=clean)

    def shown(self):
        return self.out.getvalue()


class TestTerminal(ChannelSuite):
    @pytest.fixture
    def stage(self):
        return TerminalStage


def printed(text, cuts=(), clean=visible):
    stage = TerminalStage(clean)

    async def play():
        await stage.channel.begin("r1", 1)
        for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
            await stage.channel.delta("r1", start, text[start:stop])
        await stage.channel.end("r1")

    asyncio.run(play())
    return stage.shown()


@pytest.mark.parametrize("text", [*PAYLOADS, *SURROGATES, HOSTILE], ids=ascii)
def test_hostile_text_becomes_visible(text):
    """Law 13: a terminal gets the escaped text of `show`, also when a sequence comes one character at a time."""
    seen = "\n".join(visible_lines(text)) + "\n"
    assert printed(text) == seen
    assert printed(text, range(1, len(text))) == seen


def test_a_line_is_finished_once():
    """A text that ends with a line end gets no second one."""
    assert printed("one\ntwo") == printed("one\ntwo\n") == "one\ntwo\n"
    assert printed("one\n\n") == "one\n\n"
    assert printed("one\r\n", [4]) == "one\n"
    assert printed("one\r") == "one␍\n"


def test_a_restarted_reply_begins_on_its_own_line():
    """RUN-8: a replaced reply says that it starts again, once for each time something was shown."""
    stage = TerminalStage()

    async def play(channel):
        await channel.begin("r1", 1)
        await channel.delta("r1", 0, "Hello, w")
        for text in ("Good", "Good morning\n"):
            await channel.begin("r1", 2)
            await channel.reset("r1")
            await channel.reset("r1")
            await channel.delta("r1", 0, text)
        await channel.end("r1")

    asyncio.run(play(stage.channel))
    assert stage.shown() == "Hello, w\n(starting over)\nGood\n(starting over)\nGood morning\n"


def test_an_interrupted_reply_does_not_run_into_the_next():
    """The next reply begins on a new line, with and without a `begin`."""
    for first in ("Hello, w", "Hello, w\r"):
        for begins in (True, False):
            stage = TerminalStage()

            async def play(channel, first=first, begins=begins):
                await channel.delta("r1", 0, first)
                if begins:
                    await channel.begin("r2", 1)
                await channel.delta("r2", 0, "Good morning")
                await channel.end("r2")

            asyncio.run(play(stage.channel))
            assert stage.shown() == visible(first) + "\nGood morning\n"


def test_a_closed_pipe_is_an_error():
    """RUN-9, law 4: a reply that could not be written is not sent: the error reaches the sender, every time."""
    reader, writer = os.pipe()
    os.close(reader)
    out = os.fdopen(writer, "w")
    channel = TerminalChannel(out, clean=visible)
    for _ in range(2):
        with pytest.raises(BrokenPipeError):
            asyncio.run(single_delivery("Hello")(channel))
    with pytest.raises(BrokenPipeError):
        out.close()


def test_unwritten_text_is_still_undelivered():
    """RUN-9: text counts as shown once it is written, and not before."""

    class FlakyStream(io.StringIO):
        full = True

        def write(self, text):
            if self.full:
                raise OSError(28, "No space left on device")
            return super().write(text)

    out = FlakyStream()
    channel = TerminalChannel(out, clean=visible)
    with pytest.raises(OSError, match="No space"):
        asyncio.run(single_delivery("Hello")(channel))
    with pytest.raises(UsageError):
        asyncio.run(channel.delta("r1", 5, "!"))
    out.full = False
    asyncio.run(single_delivery("Hello")(channel))
    assert out.getvalue() == "Hello\n"


def test_every_byte_is_written_before_delta_returns():
    """Law 5, RUN-9: nothing stays in a buffer, neither text nor the end of the line."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with os.fdopen(writer, "w") as out, os.fdopen(reader, "rb", buffering=0) as pipe:
        channel = TerminalChannel(out, clean=visible)
        asyncio.run(channel.delta("r1", 0, "Hello"))
        assert pipe.read(100) == b"Hello"
        asyncio.run(channel.end("r1"))
        assert pipe.read(100) == b"\n"


class NarrowStream(io.RawIOBase):
    """A raw stream that takes three bytes at a time, as the stdout of `python -u` may."""

    def __init__(self):
        super().__init__()
        self.taken = b""

    def writable(self):
        return True

    def write(self, raw):
        self.taken += bytes(raw[:3])
        return min(3, len(raw))


def unbuffered(raw, encoding):
    """Return a text stream without a buffer over a raw stream, as `python -u` makes stdout."""
    return io.TextIOWrapper(raw, encoding=encoding, write_through=True)


def test_short_writes_are_finished():
    """Law 4: an unbuffered stream that takes a part is given the rest."""
    narrow = NarrowStream()
    out = unbuffered(narrow, "utf-8")
    asyncio.run(single_delivery("Hello, wörld ␛")(TerminalChannel(out, clean=visible)))
    assert narrow.taken.decode() == "Hello, wörld ␛\n"


def test_a_stream_that_would_block_is_an_error():
    """Law 4: bytes that were not taken do not count as written."""

    class FullStream(NarrowStream):
        def write(self, raw):
            return None

    out = unbuffered(FullStream(), "utf-8")
    with pytest.raises(BlockingIOError):
        asyncio.run(single_delivery("Hello")(TerminalChannel(out, clean=visible)))


def test_characters_that_the_stream_cannot_encode():
    """Law 13: a terminal without UTF-8 gets code points, and no error."""
    narrow = NarrowStream()
    out = unbuffered(narrow, "ascii")
    asyncio.run(single_delivery("a\x1b[0m ö")(TerminalChannel(out, clean=visible)))
    assert narrow.taken == b"a\\u241b[0m \\xf6\n"
