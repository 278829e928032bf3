"""The screen of a chat: which keys were pressed before a frame, and the text of the input."""

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


def run_screen(act):
    """Run a screen for as long as `act` takes, which gets the screen and its keyboard."""

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
    """RUN-13: also a key that was not read yet; a question takes only keys pressed after it was drawn."""
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

    run_screen(act)
    assert seen == [True, False, False, True]


def test_a_refused_message_is_put_before_newer_text(terminal):
    stood = []

    async def act(screen, _):
        for text in ("one", "zero"):
            screen.restore_input(text)
            stood.append((screen.input.text, screen.input.cursor_position))

    run_screen(act)
    assert stood == [("one", 3), ("zero\none", 8)]
