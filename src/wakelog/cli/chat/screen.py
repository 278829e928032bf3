"""Screen of a chat: scroll-back, live area, input line with its history, and status line.

This module knows nothing of sessions. It uses no alternate screen and no mouse, so scrolling, searching and copying are
the terminal's own. Typed text is made visible too, because pasted text is as hostile as stored text.
The input history is a file with one JSON string per line in the XDG state folder, readable by its owner only. It is
bounded and may be deleted at any time; a chat that cannot write it works without it. Several chats may append to it at
once, one line at a time. Secrets stay out (law 14), whatever a session's policy says: the file belongs to no session,
so no policy applies to it.
"""

import contextlib
import os
import select
from collections.abc import Callable, Iterable, Sequence

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

from wakelog.cli.chat.graphemes import GraphemeWindow, VisibleInput
from wakelog.cli.chat.terminal import ReflowRenderer, feed_keys, open_output, parse_keys, take_typeahead
from wakelog.cli.ui.terminal import TerminalStyle
from wakelog.decide.wording import valid_utf8
from wakelog.folders import user_folder
from wakelog.known_secrets import known_values_of_process
from wakelog.redaction.redactor import redact
from wakelog.stores.files import make_private_folders

HISTORY_MAX = 1_000
_TEXT_MAX_CHARS = 100_000


def history_path() -> str:
    """Return the path of the history file."""
    return os.path.join(user_folder("state"), "history.jsonl")


class InputHistory(History):
    """See `History`."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, the newest first."""
        lines = _read_lines(self._path)
        if len(lines) > 2 * HISTORY_MAX:
            lines = lines[-HISTORY_MAX:]
            _rewrite_file(self._path, lines)
        return [text for line in reversed(lines[-HISTORY_MAX:]) if (text := _decode_line(line)) is not None]

    def store_string(self, string: str) -> None:
        """Append an entry."""
        if len(string) > _TEXT_MAX_CHARS:
            return
        with contextlib.suppress(OSError):
            make_private_folders(os.path.dirname(self._path))
            _write_file(
                self._path,
                msgspec.json.encode(redact(valid_utf8(string), known=known_values_of_process()).text) + b"\n",
                os.O_APPEND,
            )


def _read_lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _decode_line(line: bytes) -> str | None:
    """Return the text of a line; None if the line is incomplete or not a JSON string."""
    try:
        text: str = msgspec.json.decode(line, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return text


def _rewrite_file(path: str, lines: list[bytes]) -> None:
    temporary = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError):
        _write_file(temporary, b"".join(line + b"\n" for line in lines), os.O_TRUNC)
        os.replace(temporary, path)


def _write_file(path: str, content: bytes, flags: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


_INPUT_LINES_MAX = 10
_MENU_LINES_MAX = 8
_MIN_COLUMNS = 12
# Wait for the rest of a key sequence; short, so that Esc feels immediate.
_KEY_SEQUENCE_S = 0.1
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
LineSource = Callable[[], Sequence[str]]
"""Returns drawn lines, at most as wide as the terminal."""


class Screen:
    """The terminal of one chat."""

    def __init__(
        self, look: TerminalStyle, completer: Completer, history: History, live: LineSource, status: LineSource
    ) -> None:
        self._look = look
        self._output = open_output()
        self.input = Buffer(
            completer=completer,
            history=history,
            multiline=True,
            complete_while_typing=Condition(lambda: self.input.text.startswith("/")),
            auto_suggest=DummyAutoSuggest(),
        )
        self._live, self._status = _LineArea(live), _LineArea(status)
        self._typeahead: list[KeyPress] = []
        self.app: Application[int] = self._build_app()

    def _build_app(self) -> Application[int]:
        mark = self._look.symbol("›", ">")
        control = BufferControl(self.input, input_processors=[VisibleInput(GraphemeWindow.placeholders)])
        typing = GraphemeWindow(
            control,
            height=Dimension(min=1, max=_INPUT_LINES_MAX),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=lambda line, wrapped: f"{mark} " if (line, wrapped) == (0, 0) else "  ",
        )
        menu = ConditionalContainer(CompletionsMenu(max_height=_MENU_LINES_MAX), has_completions)
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
        app.timeoutlen = app.ttimeoutlen = _KEY_SEQUENCE_S
        app.renderer = ReflowRenderer(merge_styles([default_ui_style(), _STYLE]), self._output)
        return app

    def bind(self, keys: KeyBindingsBase) -> None:
        """Set the key bindings."""
        self.app.key_bindings = keys

    @property
    def look(self) -> TerminalStyle:
        """Return the style for the terminal's current width."""
        return msgspec.structs.replace(self._look, width=max(_MIN_COLUMNS, self._output.get_size().columns))

    @property
    def is_input_empty(self) -> bool:
        """Return whether nothing is typed and no key is waiting: the next key is pressed after this frame."""
        if self._typeahead or self.input.text or self.app.key_processor.input_queue or not self.app.is_running:
            return False
        return not select.select([self.app.input.fileno()], [], [], 0)[0]

    async def run(self, typeahead: str = "") -> int:
        """Run on the terminal until the user leaves; return the exit code. Keys in `typeahead` come first."""
        with take_typeahead(self.app.input.fileno()) as typed:
            # Keys that the session list received and did not use come between the two.
            self._typeahead = [*parse_keys(typeahead), *get_typeahead(self.app.input), *parse_keys(typed)]
            if typed:
                # A partial line of it may be where the first frame goes.
                self._output.write_raw("\r")
                self._output.erase_end_of_line()
            return await self.app.run_async(set_exception_handler=False)

    def feed_typeahead(self) -> None:
        """Process the keys that were pressed before the chat was ready."""
        keys, self._typeahead = self._typeahead, []
        feed_keys(self.app, keys)

    def restore_input(self, text: str) -> None:
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
        with self._output.frame():
            if running:
                self.app.renderer.erase(leave_alternate_screen=False)
            self._output.write_raw("".join(f"{self._encodable(line)}\r\n" for line in lines))
            if running:
                # Count this as a new frame, because layout results are cached per frame.
                self.app.render_counter += 1
                self._refresh()
                self.app.renderer.render(self.app, self.app.layout)

    def _encodable(self, line: str) -> str:
        """Return a line that the terminal can write: without UTF-8, other characters are escaped."""
        return line if self._look.utf8 else line.encode("ascii", "backslashreplace").decode()

    def _refresh(self) -> None:
        self._live.refresh()
        self._status.refresh()


class _LineArea:
    """An area of lines that is drawn again with every frame; it has no height if it is empty."""

    def __init__(self, lines: LineSource) -> None:
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
        self._text = ANSI("\n".join(map(GraphemeWindow.placeholders.replace, lines)))

    def _height(self) -> Dimension:
        return Dimension(min=1, preferred=self._count, max=self._count)

    def _shown(self) -> StyleAndTextTuples:
        return self._text.__pt_formatted_text__()
