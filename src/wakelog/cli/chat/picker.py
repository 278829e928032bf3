"""`chat --pick` on the terminal: a short list to type into, and the last message of the session that is chosen.

It is drawn before anything is read, and rows come in from a thread. Only the chosen log is looked into, from its end,
and no further than its last message.
"""

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import Iterator

import msgspec
from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import ColorDepth

from wakelog.cli.chat.ahead import press, typed_ahead
from wakelog.cli.chat.behind import behind
from wakelog.cli.chat.listing import Listed, read_rows
from wakelog.cli.chat.picking import Page, Picking, page_of
from wakelog.cli.chat.screen import terminal
from wakelog.cli.draw import Cell, Column, Look, clip, table, wrap
from wakelog.cli.places import Place
from wakelog.cli.safe import first_line, visible, visible_lines
from wakelog.cli.times import ago, now_ms
from wakelog.errors import WakelogError
from wakelog.log.content import Prompt, Reply
from wakelog.log.entry import Message
from wakelog.log.lines import Reader
from wakelog.ports import Store
from wakelog.stores import open_catalog
from wakelog.views.session_row import SessionRow

_ROWS_MAX = 15
_PREVIEW_LINES = 4
_PREVIEW_ENTRIES = 200
_PREVIEW_CHARS = 10_000
_NARROWEST = 12
_BESIDE = 6
_KEY_S = 0.1
_COLUMNS = (
    Column(""),
    Column("TITLE", gives=True),
    Column("NAME", gives=True, cap=24),
    Column("AGE", right=True),
    Column("STATE"),
    Column("MODEL", gives=True, cap=24),
    Column("WHERE", gives=True, cap=30),
)


def pick(look: Look, place: Place) -> str | None:
    """The name of the session that was picked; None if none was."""
    size = shutil.get_terminal_size()
    height = max(1, min(_ROWS_MAX, size.lines - _PREVIEW_LINES - _BESIDE))
    picker = _Picker(look, place, Picking(height))
    with typed_ahead(picker.app.input.fileno()) as ahead:
        return picker.run(ahead)


class _Picker:
    """The list on the terminal."""

    def __init__(self, look: Look, place: Place, picking: Picking) -> None:
        self._look = look
        self._place = place
        self._picking = picking
        self._previews: dict[str, str] = {}
        self._output = terminal()
        window = Window(FormattedTextControl(lambda: ANSI("\n".join(self._lines()))), wrap_lines=False)
        self.app: Application[str | None] = Application(
            layout=Layout(window),
            key_bindings=self._keys(),
            output=self._output,
            color_depth=None if look.colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
        )
        self.app.timeoutlen = self.app.ttimeoutlen = _KEY_S

    def run(self, ahead: str) -> str | None:
        """The list, with these keys pressed first, until a session is picked."""

        def begin() -> None:
            press(self.app, ahead)
            self.app.create_background_task(self._read())

        return self.app.run(pre_run=begin)

    async def _read(self) -> None:
        """Has the catalog read beside the list. It goes on behind a chat: what it takes in is there the next time."""
        loop = asyncio.get_running_loop()

        def tell(listed: Listed) -> None:
            # A loop that is closed has nobody left who looks.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._take, listed)

        def read() -> None:
            with contextlib.closing(open_catalog(self._place.url, self._place.store)) as catalog:
                read_rows(catalog, tell)

        try:
            await behind(read)
        except (WakelogError, OSError) as error:
            self.app.exit(exception=error)

    def _take(self, listed: Listed) -> None:
        self._picking.take(listed)
        if (row := self._picking.due) is not None:
            self.app.exit(result=row.name)
        self.app.invalidate()

    def _lines(self) -> list[str]:
        chosen = self._picking.row
        preview = self._preview(chosen) if chosen is not None else ""
        seen = msgspec.structs.replace(self._look, width=max(_NARROWEST, self._output.get_size().columns))
        return list(page_lines(seen, page_of(self._picking), preview, now_ms()))

    def _preview(self, row: SessionRow) -> str:
        if row.name not in self._previews:
            self._previews[row.name] = last_words(self._place.store, row.name)
        return self._previews[row.name]

    def _keys(self) -> KeyBindings:
        keys, picking = KeyBindings(), self._picking
        page = max(1, picking.height - 1)
        for key, by in {"up": -1, "down": 1, "c-p": -1, "c-n": 1, "pageup": -page, "pagedown": page}.items():
            _add_move(keys, key, picking, by)

        @keys.add("enter")
        def choose(event: KeyPressEvent) -> None:
            if (row := picking.enter()) is not None:
                event.app.exit(result=row.name)

        @keys.add("escape")
        @keys.add("c-c")
        @keys.add("c-d")
        def leave(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        @keys.add("backspace")
        def shorten(_: KeyPressEvent) -> None:
            picking.type(picking.filter[:-1])

        @keys.add(Keys.BracketedPaste)
        @keys.add(Keys.Any)
        def lengthen(event: KeyPressEvent) -> None:
            picking.type(picking.filter + "".join(sign for sign in event.data if sign.isprintable()))

        return keys


def _add_move(keys: KeyBindings, key: str, picking: Picking, by: int) -> None:
    @keys.add(key)
    def move(_: KeyPressEvent) -> None:
        picking.move(by)


# ── drawn ────────────────────────────────────────────────────────────────────────────────────────


def page_lines(look: Look, page: Page, preview: str, now: int) -> Iterator[str]:
    """The filter, the rows in sight, and the last words of the chosen one."""
    yield look.paint("bold", clip(look, f"Open which session? {visible(page.filter)}_", look.columns))
    cells = [_cells(look, row, now, chosen=at == page.chosen) for at, row in enumerate(page.rows)]
    yield from table(look, _COLUMNS, cells, headed=False)
    if not page.rows and page.read.is_over:
        yield look.paint("dim", "no session fits" if page.filter else "no session yet")
    if not page.read.is_over:
        yield look.paint("dim", clip(look, _how_far(look, page.read), look.columns))
    yield look.paint("dim", look.sign("─", "-") * look.columns)
    lines = [piece for line in visible_lines(preview.strip("\n")) for piece in wrap(line, look.columns)]
    yield from (look.paint("dim", line) for line in lines[:_PREVIEW_LINES])
    yield look.paint("dim", clip(look, "type to filter, arrows to choose, Enter opens, Esc leaves", look.columns))


def _how_far(look: Look, read: Listed) -> str:
    counted = f", {read.done:,} of {read.total:,}" if read.total else ""
    return f"reading sessions{counted} {look.sign('…', '...')}"


def _cells(look: Look, row: SessionRow, now: int, *, chosen: bool) -> list[Cell]:
    title = first_line(row.title or "") or first_line(row.prompt)
    return [
        (look.sign("›", ">") if chosen else " ", "mark"),
        (title, "bold" if chosen else ""),
        (visible(row.name), "dim"),
        (ago(row.updated, now), "dim"),
        (visible(row.state), "dim"),
        (visible(row.model or ""), "dim"),
        (visible(row.cwd), "dim"),
    ]


def last_words(store: Store, name: str) -> str:
    """The last thing that was said in a session, by either side; read from the end of its log."""
    try:
        for line in itertools.islice(store.tail(name), _PREVIEW_ENTRIES):
            for entry in Reader(next_seq=0).feed_all([line]):
                match entry.value:
                    case Message(message=Prompt() | Reply() as said) if said.text.strip():
                        who = "you" if isinstance(said, Prompt) else "agent"
                        return f"{who}: {said.text[:_PREVIEW_CHARS]}"
    except (WakelogError, OSError) as error:
        return str(error)
    return ""
