"""Screen of a chat: printed lines go to the terminal's scroll-back; below are the live area, input and status.

This module knows nothing of sessions. It uses no alternate screen and no mouse, so scrolling, searching and copying are
the terminal's own. Typed text passes through `safe` too, because pasted text is as hostile as stored text.
"""

import select
from collections.abc import Callable, Sequence

import msgspec
from prompt_toolkit.application import Application
from prompt_toolkit.auto_suggest import DummyAutoSuggest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindingsBase, KeyPress
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style, default_ui_style, merge_styles

from wakelog.cli.chat.ahead import press, pressed, typed_ahead
from wakelog.cli.chat.reflow import Reflowing
from wakelog.cli.chat.standins import GraphemeWindow
from wakelog.cli.chat.steady import terminal
from wakelog.cli.chat.typed import Visible
from wakelog.cli.draw import Look

_INPUT_LINES = 10
_MENU_LINES = 8
_NARROWEST = 12
# Wait for the rest of a key sequence; short, so that Esc feels immediate.
_KEY_S = 0.1
_REDRAW_S = 0.02
_STYLE = Style.from_dict(
    {
        "completion-menu": "noreverse",
        "completion-menu.completion": "noreverse",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "noreverse italic",
        "completion-menu.meta.completion.current": "reverse",
        "scrollbar.background": "noreverse",
        "scrollbar.button": "reverse",
    }
)

Lines = Callable[[], Sequence[str]]
"""Returns drawn lines, at most as wide as the terminal."""


class Screen:
    """The terminal of one chat."""

    def __init__(self, look: Look, completer: Completer, history: History, live: Lines, status: Lines) -> None:
        self._look = look
        self._output = terminal()
        self.input = Buffer(
            completer=completer,
            history=history,
            multiline=True,
            complete_while_typing=Condition(lambda: self.input.text.startswith("/")),
            auto_suggest=DummyAutoSuggest(),
        )
        self._live, self._status = _Area(live), _Area(status)
        self._ahead: list[KeyPress] = []
        self.app: Application[int] = self._made()

    def _made(self) -> Application[int]:
        mark = self._look.sign("›", ">")
        control = BufferControl(self.input, input_processors=[Visible(GraphemeWindow.stand_ins)])
        typing = GraphemeWindow(
            control,
            height=Dimension(min=1, max=_INPUT_LINES),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=lambda line, wrapped: f"{mark} " if (line, wrapped) == (0, 0) else "  ",
        )
        menu = ConditionalContainer(CompletionsMenu(max_height=_MENU_LINES), has_completions)
        body = HSplit([self._live.window, typing, menu, self._status.window, Window()])
        app: Application[int] = Application(
            layout=Layout(body, focused_element=typing),
            output=self._output,
            style=_STYLE,
            color_depth=None if self._look.colour else ColorDepth.DEPTH_1_BIT,
            min_redraw_interval=_REDRAW_S,
            erase_when_done=True,
            before_render=lambda _: self._refresh(),
        )
        app.timeoutlen = app.ttimeoutlen = _KEY_S
        app.renderer = Reflowing(merge_styles([default_ui_style(), _STYLE]), self._output)
        return app

    def bind(self, keys: KeyBindingsBase) -> None:
        """Set the key bindings."""
        self.app.key_bindings = keys

    @property
    def look(self) -> Look:
        """Return the look for the terminal's current width."""
        return msgspec.structs.replace(self._look, width=max(_NARROWEST, self._output.get_size().columns))

    @property
    def is_untouched(self) -> bool:
        """Return whether nothing is typed and no key is waiting: the next key is pressed after this frame."""
        if self._ahead or self.input.text or self.app.key_processor.input_queue or not self.app.is_running:
            return False
        return not select.select([self.app.input.fileno()], [], [], 0)[0]

    async def run(self, ahead: str = "") -> int:
        """Run on the terminal until the user leaves; return the exit code. Keys pressed `ahead` come first."""
        with typed_ahead(self.app.input.fileno()) as typed:
            # Keys that the session list received and did not use come between the two.
            self._ahead = [*pressed(ahead), *get_typeahead(self.app.input), *pressed(typed)]
            if typed:
                # A partial line of it may be where the first frame goes.
                self._output.write_raw("\r")
                self._output.erase_end_of_line()
            return await self.app.run_async(set_exception_handler=False)

    def press_ahead(self) -> None:
        """Process the keys that were pressed before the chat was ready."""
        keys, self._ahead = self._ahead, []
        press(self.app, keys)

    def give_back(self, text: str) -> None:
        """Put a text back into the input, before what was typed since."""
        self.input.document = Document("\n".join(filter(None, (text, self.input.text))))

    def invalidate(self) -> None:
        """Redraw, because something live has changed."""
        self.app.invalidate()

    def print(self, lines: Sequence[str]) -> None:
        """Print lines to the scroll-back, above the live area."""
        if not lines:
            return
        running = self.app.is_running
        with self._output.whole():
            if running:
                self.app.renderer.erase(leave_alternate_screen=False)
            self._output.write_raw("".join(f"{self._writable(line)}\r\n" for line in lines))
            if running:
                # Count this as a new frame, because layout results are cached per frame.
                self.app.render_counter += 1
                self._refresh()
                self.app.renderer.render(self.app, self.app.layout)

    def _writable(self, line: str) -> str:
        """Return a line that the terminal can write: without UTF-8, other characters are escaped."""
        return line if self._look.utf8 else line.encode("ascii", "backslashreplace").decode()

    def _refresh(self) -> None:
        self._live.refresh()
        self._status.refresh()


class _Area:
    """An area of lines that is drawn again with every frame; it has no height if it is empty."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._text = ANSI("")
        self._count = 0
        # On a terminal that is too low, the end of the area is shown.
        control = FormattedTextControl(self._shown, get_cursor_position=lambda: Point(0, self._count - 1))
        shown = GraphemeWindow(control, height=self._height, dont_extend_height=True)
        self.window = ConditionalContainer(shown, Condition(lambda: self._count > 0))

    def refresh(self) -> None:
        """Update the lines."""
        lines = self._lines()
        self._count = len(lines)
        self._text = ANSI("\n".join(map(GraphemeWindow.stand_ins.put, lines)))

    def _height(self) -> Dimension:
        return Dimension(min=1, preferred=self._count, max=self._count)

    def _shown(self) -> StyleAndTextTuples:
        return self._text.__pt_formatted_text__()
