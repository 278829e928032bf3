"""`chat --pick` on the terminal: a short list to type into, and the last message of the session that is chosen.

The list is drawn from catalog rows; only the chosen log is looked into, from its end, and no further than its last
message.
"""

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
from wakelog.cli.chat.picking import Fetch, Page, Picking, page_of
from wakelog.cli.chat.screen import terminal
from wakelog.cli.draw import Cell, Column, Look, clip, table, wrap
from wakelog.cli.places import Place
from wakelog.cli.safe import first_line, visible, visible_lines
from wakelog.cli.times import ago, now_ms
from wakelog.errors import WakelogError
from wakelog.log.content import Prompt, Reply
from wakelog.log.entry import Message
from wakelog.log.lines import Reader
from wakelog.ports import Catalog, Store
from wakelog.views.session_row import SessionRow

_ROWS_MAX = 15
_PREVIEW_LINES = 4
_PREVIEW_ENTRIES = 200
_PREVIEW_CHARS = 10_000
_NARROWEST = 12
_BESIDE = 5
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
    picking = Picking(rows_of(place.catalog), height)
    app = _Picker(look, place.store, picking).app
    with typed_ahead(app.input.fileno()) as ahead:
        return app.run(pre_run=lambda: press(app, ahead))


def rows_of(catalog: Catalog) -> Fetch:
    """How rows are fetched from a catalog."""
    return lambda limit, after: catalog.rows(limit=limit, after=after)


class _Picker:
    """The list on the terminal."""

    def __init__(self, look: Look, store: Store, picking: Picking) -> None:
        self._look = look
        self._store = store
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

    def _lines(self) -> list[str]:
        chosen = self._picking.row
        preview = self._preview(chosen) if chosen is not None else ""
        seen = msgspec.structs.replace(self._look, width=max(_NARROWEST, self._output.get_size().columns))
        return list(page_lines(seen, page_of(self._picking), preview, now_ms()))

    def _preview(self, row: SessionRow) -> str:
        if row.name not in self._previews:
            self._previews[row.name] = last_words(self._store, row.name)
        return self._previews[row.name]

    def _keys(self) -> KeyBindings:
        keys, picking = KeyBindings(), self._picking
        page = max(1, picking.height - 1)
        for key, by in {"up": -1, "down": 1, "c-p": -1, "c-n": 1, "pageup": -page, "pagedown": page}.items():
            _add_move(keys, key, picking, by)

        @keys.add("enter")
        def choose(event: KeyPressEvent) -> None:
            if picking.row is not None:
                event.app.exit(result=picking.row.name)

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
    if not page.rows:
        yield look.paint("dim", "no session fits" if page.filter else "no session yet")
    yield look.paint("dim", look.sign("─", "-") * look.columns)
    lines = [piece for line in visible_lines(preview.strip("\n")) for piece in wrap(line, look.columns)]
    yield from (look.paint("dim", line) for line in lines[:_PREVIEW_LINES])
    yield look.paint("dim", clip(look, "type to filter, arrows to choose, Enter opens, Esc leaves", look.columns))


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
