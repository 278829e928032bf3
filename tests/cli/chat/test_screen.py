"""The terminal of a chat: what it knows of the keys, and how it stays whole."""

import asyncio
import io

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input

from wakelog.cli.chat import screen as screens
from wakelog.cli.chat.terminal import FrameOutput
from wakelog.cli.ui.terminal import TerminalStyle


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 40 times 12 that keeps what is written to it."""
    written = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    monkeypatch.setattr(screens, "open_output", lambda: FrameOutput(written, lambda: Size(rows=12, columns=40)))
    return written


def sitting(act):
    """Lets a screen run for as long as `act` takes, which is given the screen and its keyboard."""

    async def sit():
        with create_pipe_input() as keyboard, create_app_session(input=keyboard):
            screen = screens.Screen(
                TerminalStyle(), DummyCompleter(), InMemoryHistory(), lambda: ["live"], lambda: ["status"]
            )
            drawn = asyncio.Event()
            screen.app.after_render += lambda _: drawn.set()
            running = asyncio.ensure_future(screen.app.run_async())
            await drawn.wait()
            await act(screen, keyboard)
            screen.app.exit(result=0)
            await running

    asyncio.run(sit())


def test_whether_a_key_was_pressed_before_a_frame(terminal):
    """RUN-13: also one that nobody has read yet; a question is open only for what is pressed after it was drawn."""
    seen = []

    async def act(screen, keyboard):
        seen.append(screen.is_input_empty)
        typed = asyncio.Event()
        screen.input.on_text_changed += lambda _: typed.set()
        keyboard.send_text("y")
        seen.append(screen.is_input_empty)
        await typed.wait()
        seen.append(screen.is_input_empty)
        screen.input.reset()
        seen.append(screen.is_input_empty)

    sitting(act)
    assert seen == [True, False, False, True]


def test_what_could_not_be_said_stands_before_what_was_typed_since(terminal):
    stood = []

    async def act(screen, _):
        for text in ("one", "zero"):
            screen.restore_input(text)
            stood.append((screen.input.text, screen.input.cursor_position))

    sitting(act)
    assert stood == [("one", 3), ("zero\none", 8)]
