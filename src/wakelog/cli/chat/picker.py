"""Session picker of `chat --pick`: a filter, rows, and the last message of the chosen session.

It is drawn before anything is read; rows come from a thread. Only the chosen log is read, from its end back to its last
message.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout
from prompt_toolkit.output import ColorDepth

from wakelog.app.event_loop import run_in_daemon_thread
from wakelog.app.stores import StoreLocation
from wakelog.cli.chat.graphemes import GraphemeWindow
from wakelog.cli.chat.session_list import (
    ROWS_MAX,
    ReadProgress,
    SessionList,
    page_layout,
    page_lines,
    page_of,
    read_rows,
)
from wakelog.cli.chat.terminal import feed_keys, open_output, parse_keys, take_typeahead
from wakelog.cli.ui.quantities import now_ms
from wakelog.cli.ui.terminal import TerminalStyle, graphemes
from wakelog.errors import WakelogError
from wakelog.log.content import Prompt, Reply
from wakelog.log.entry import Entry, Message, SessionHeader
from wakelog.log.lines import EntryReader
from wakelog.ports.catalogs import SessionRow
from wakelog.ports.stores import Store
from wakelog.stores import open_catalog

_PREVIEW_ENTRIES = 200
_PREVIEW_CHARS = 10_000
_MIN_COLUMNS = 12
_ALL_ROWS = 1 << 40
_KEY_SEQUENCE_S = 0.1


def pick(look: TerminalStyle, place: StoreLocation) -> tuple[str | None, str]:
    """Return the name of the picked session, or None; and the keys pressed after the choice, which are for the chat."""
    picker = _PickerApp(look, place, SessionList(ROWS_MAX))
    with take_typeahead(picker.app.input.fileno()) as typeahead:
        # The first Enter ends the keys for the list, even if there is nothing to open yet.
        own, enter, rest = typeahead.partition("\r")
        return picker.run(own + enter), rest


class _PickerApp:
    """The session list as a terminal application."""

    def __init__(self, look: TerminalStyle, place: StoreLocation, session_list: SessionList) -> None:
        self._look = look
        self._place = place
        self._list = session_list
        self._previews: dict[str, str] = {}
        self._output = open_output()
        window = GraphemeWindow(FormattedTextControl(lambda: ANSI("\n".join(self._lines()))), wrap_lines=False)
        self.app: Application[str | None] = Application(
            layout=Layout(window),
            key_bindings=self._key_bindings(),
            output=self._output,
            color_depth=None if look.colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
        )
        self.app.timeoutlen = self.app.ttimeoutlen = _KEY_SEQUENCE_S

    def run(self, typeahead: str) -> str | None:
        """Run the list, with these keys pressed first; return the picked session or None."""

        def begin() -> None:
            feed_keys(self.app, parse_keys(typeahead))
            self.app.create_background_task(self._read())

        return self.app.run(pre_run=begin)

    async def _read(self) -> None:
        """Read the catalog in a thread. It continues during the chat, so that the next list is complete."""
        loop = asyncio.get_running_loop()

        def report(progress: ReadProgress) -> None:
            # The event loop may be closed by now.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._update, progress)

        def read() -> None:
            with contextlib.closing(open_catalog(self._place.url, self._place.store)) as catalog:
                read_rows(catalog, report)

        try:
            await run_in_daemon_thread(read)
        except (WakelogError, OSError) as error:
            if not self.app.is_done:
                self.app.exit(exception=error)

    def _update(self, progress: ReadProgress) -> None:
        self._list.update(progress)
        # The last key may have closed the list.
        if (row := self._list.delayed_choice) is not None and not self.app.is_done:
            self.app.exit(result=row.name)
        self.app.invalidate()

    def _lines(self) -> list[str]:
        size = self._output.get_size()
        shape = page_layout(size.rows)
        self._list.set_height(shape.rows)
        chosen = self._list.chosen_row
        preview = self._preview(chosen) if chosen is not None and shape.preview else ""
        look = msgspec.structs.replace(self._look, width=max(_MIN_COLUMNS, size.columns))
        lines = page_lines(look, page_of(self._list), preview, now_ms(), shape)
        return list(map(GraphemeWindow.placeholders.replace, lines))

    def _preview(self, row: SessionRow) -> str:
        if row.name not in self._previews:
            self._previews[row.name] = last_message(self._place.store, row.name)
        return self._previews[row.name]

    def _key_bindings(self) -> KeyBindings:
        keys, picking = KeyBindings(), self._list
        for key, by in {"up": -1, "down": 1, "c-p": -1, "c-n": 1}.items():
            _add_move(keys, key, picking, partial(int, by))
        _add_move(keys, "pageup", picking, lambda: 1 - max(2, picking.height))
        _add_move(keys, "pagedown", picking, lambda: max(2, picking.height) - 1)
        _add_move(keys, "home", picking, partial(int, -_ALL_ROWS))
        _add_move(keys, "end", picking, partial(int, _ALL_ROWS))

        @keys.add("enter")
        def choose(event: KeyPressEvent) -> None:
            if (row := picking.choose()) is not None:
                event.app.exit(result=row.name)

        @keys.add("escape")
        @keys.add("c-c")
        @keys.add("c-d")
        def leave(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        @keys.add("backspace")
        def shorten(_: KeyPressEvent) -> None:
            picking.set_filter("".join(list(graphemes(picking.filter))[:-1]))

        @keys.add("c-u")
        def clear(_: KeyPressEvent) -> None:
            picking.set_filter("")

        @keys.add("c-w")
        def shorten_by_a_word(_: KeyPressEvent) -> None:
            picking.set_filter(picking.filter.rstrip().rpartition(" ")[0])

        @keys.add(Keys.BracketedPaste)
        @keys.add(Keys.Any)
        def lengthen(event: KeyPressEvent) -> None:
            # A named key is not text, whatever the terminal sends for it.
            key = event.key_sequence[-1].key
            if key is Keys.BracketedPaste or not isinstance(key, Keys):
                picking.set_filter(picking.filter + "".join(sign for sign in event.data if sign.isprintable()))

        @keys.add("escape", Keys.Any)
        def ignore(_: KeyPressEvent) -> None:
            """Ignore Alt with a key: it is neither Escape nor text."""

        return keys


def _add_move(keys: KeyBindings, key: str, session_list: SessionList, by: Callable[[], int]) -> None:
    @keys.add(key)
    def move(_: KeyPressEvent) -> None:
        session_list.move(by())


def last_message(store: Store, name: str) -> str:
    """Return the last message of a session or of its fork parents, read from the end; an error's text if it fails."""
    try:
        entries = itertools.islice(_entries_backwards(store, name), _PREVIEW_ENTRIES)
        return next(filter(None, map(_message_text, entries)), "")
    except (WakelogError, OSError) as error:
        return str(error)


def _entries_backwards(store: Store, name: str) -> Iterator[Entry | None]:
    """Yield the entries of a log and its fork parents, the last first; None for parent entries after the fork."""
    place: str | None = None
    while name:
        log, name = name, ""
        for line in store.tail(log):
            for entry in EntryReader(next_seq=0).feed_all([line]):
                place = None if entry.id == place else place
                yield entry if place is None else None
                if isinstance(entry.value, SessionHeader) and (origin := entry.value.parent) and origin.kind == "fork":
                    name, place = origin.session, origin.entry


def _message_text(entry: Entry | None) -> str:
    match entry.value if entry is not None else None:
        case Message(message=Prompt() | Reply() as message) if message.text.strip():
            return f"{'you' if isinstance(message, Prompt) else 'agent'}: {message.text[:_PREVIEW_CHARS]}"
    return ""
