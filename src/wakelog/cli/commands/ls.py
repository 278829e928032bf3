"""Commands `ls` and `search` over all sessions. Both answer from the catalog and open no log.

No log records whether a session is being run now: the store is asked for the rows that are shown, and only where the
log records an attached worker. If more rows exist than are shown, stderr says how to get them: a `--limit` for people,
the command with the cursor for programs.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice
from typing import Any

import click
import msgspec

from wakelog.app.entry_names import hit_name
from wakelog.app.stores import StoreLocation
from wakelog.cli import load
from wakelog.cli.ui.errors import note
from wakelog.cli.ui.messages import note_unread
from wakelog.cli.ui.options import SharedOptions, command
from wakelog.cli.ui.output import put_bytes, put_pages, put_text
from wakelog.cli.ui.quantities import age_text, now_ms, plural
from wakelog.cli.ui.safe_text import first_line, json_line, visible
from wakelog.cli.ui.terminal import Cell, Column, TerminalStyle, style_of, table, wrap
from wakelog.errors import UsageError
from wakelog.log.session_names import project_of
from wakelog.ports.catalogs import SearchHit, SessionRow
from wakelog.ports.stores import Store
from wakelog.stores.catalog.query import resolve_folders

_SHOWN_ON_TERMINAL = 30
_LIMIT_FACTOR = 10
# Number of sessions with journals to search, the last changed first.
_JOURNAL_SESSIONS = 1_000
_STATES = {
    "running": "mark",
    "pending": "warn",
    "interrupted": "warn",
    "undelivered": "warn",
    "waiting": "warn",
    "failed": "bad",
    "damaged": "bad",
    "inaccessible": "bad",
    "unknown": "bad",
}
STATES = (*_STATES, "idle", "dormant", "terminated")
"""The states that a list can be restricted to."""
_PAGE_ROWS = 200
# Columns that are shown on terminals of at least this width.
_WIDE_COLUMNS, _WIDE_MIN = ("AGENT", "PROJECT"), 60
# In these states a session is not run, or its log cannot say whether it is.
_SETTLED = ("terminated", "damaged", "inaccessible", "unknown")
# ── ls ───────────────────────────────────────────────────────────────────────────────────────────


@command(
    "ls",
    examples="""
    wakelog ls
    wakelog ls --agent crab --cwd .
    wakelog ls --state interrupted
    wakelog ls --all --limit 100
    wakelog ls --limit 100 --after CURSOR
    wakelog ls --json | jq -r 'select(.state == "interrupted") | .name'
    """,
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Number of sessions. [default: 30 on a terminal, else all]"
)
@click.option("--after", metavar="CURSOR", help="The page after the row with this cursor.")
@click.option("--agent", metavar="NAME", help="Only sessions of this agent.")
@click.option("--sender", metavar="NAME", help="Only sessions of this sender.")
@click.option("--cwd", metavar="DIR", help="Only sessions that work in this folder.")
@click.option("--state", type=click.Choice(STATES), metavar="STATE", help="Only sessions in this state.")
@click.option("--archived", "which", flag_value="archived", help="Only archived sessions.")
@click.option("--all", "which", flag_value="all", help="Archived and empty sessions too.")
def ls(
    shared: SharedOptions,
    limit: int | None,
    after: str | None,
    agent: str | None,
    sender: str | None,
    cwd: str | None,
    state: str | None,
    which: str | None,
) -> None:
    """List sessions, newest first. Sessions in which nothing was said are left out."""
    place = StoreLocation(shared.store_url)
    filters: dict[str, Any] = {
        "archived": {"archived": True, "all": None}.get(which or "", False),
        "agent": agent,
        "sender": sender,
        "cwd": os.path.abspath(cwd) if cwd is not None else None,
        "empty": None if which == "all" or state is not None else False,
    }
    if limit is None and sys.stdout.isatty() and not shared.json:
        limit = _SHOWN_ON_TERMINAL
    if state is not None:
        found = list(islice(_in_state(place, state, after, filters), None if limit is None else limit + 1))
        rows, more = found[:limit], len(found[limit or len(found) :])
    else:
        rows = [_with_state(place.store, row) for row in place.catalog.rows(limit=limit, after=after, **filters)]
        more = place.catalog.count(after=rows[-1].cursor, **filters) if rows and len(rows) == limit else 0
    if shared.json:
        put_bytes(b"".join(map(json_line, rows)))
    else:
        _draw(style_of(shared.color), rows)
    if more and shared.json:
        options = {"limit": limit, "agent": agent, "sender": sender, "cwd": cwd, "state": state}
        options |= {which: True} if which else {}
        note(f"{_count_text(more, state)}; `{_next_page('ls', options, rows[-1].cursor)}` shows the next")
    elif more and state is not None:
        note(f"{_count_text(more, state)}; `--limit {len(rows) * _LIMIT_FACTOR}` shows more")
    elif more:
        note(f"{plural(more, 'more session')}; {_larger_limit_hint(len(rows), more)}")
    _note_missing_rows(place, rows, filters, after, is_whole=not more)


def _in_state(place: StoreLocation, state: str, after: str | None, filters: Mapping[str, Any]) -> Iterator[SessionRow]:
    """Yield the sessions in a state. The catalog does not know which are running, so all attached ones are examined."""
    known = None if state == "running" else state
    while page := place.catalog.rows(limit=_PAGE_ROWS, after=after, state=known, **filters):
        yield from (row for row in (_with_state(place.store, row) for row in page) if row.state == state)
        after = page[-1].cursor


def _count_text(more: int, state: str | None) -> str:
    return "more sessions" if state is not None else plural(more, "more session")


def _larger_limit_hint(shown: int, more: int) -> str:
    """Return the `--limit` that shows more: all rows, or ten times as many if all are more than that."""
    all_of_it, a_lot = shown + more, shown * _LIMIT_FACTOR
    return f"`--limit {all_of_it}` shows all" if all_of_it <= a_lot else f"`--limit {a_lot}` shows more"


def _next_page(command: str, options: Mapping[str, object], cursor: str, query: Sequence[str] = ()) -> str:
    """Return the command for the page after a cursor. The store is not named: its URL may contain a password."""
    words = ["wakelog", command]
    for name, value in {**options, "json": True, "after": cursor}.items():
        if value is not None and value is not False:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    # An excluded term begins with a minus and would be parsed as an option.
    words += ["--"] if any(word.startswith("-") for word in query) else []
    joined: str = load("shlex").join([*words, *query])
    return joined


def _with_state(store: Store, row: SessionRow) -> SessionRow:
    """Return the row with the state `running` if a process holds the session's lease."""
    if not row.attached or row.state in _SETTLED or store.held(row.name) is None:
        return row
    return msgspec.structs.replace(row, state="running")


def _draw(look: TerminalStyle, rows: Sequence[SessionRow]) -> None:
    columns = (
        Column("NAME", shrinks=True, max_width=40),
        Column("AGENT", shrinks=True, max_width=16),
        Column("PROJECT", shrinks=True, max_width=20),
        Column("STATE", shrinks=True),
        Column("ENTRIES", right=True),
        Column("UPDATED", right=True),
        Column("TITLE", shrinks=True),
    )
    now = now_ms()
    drawn = [_cells(row, now) for row in rows]
    shown = [column.head not in _WIDE_COLUMNS or not 0 < look.width < _WIDE_MIN for column in columns]
    fitting, cells = list(compress(columns, shown)), [list(compress(row, shown)) for row in drawn]
    put_text(table(look, fitting, cells, headed=bool(look.width)) if rows else ())


def _cells(row: SessionRow, now: int) -> list[Cell]:
    title = (first_line(row.title), "") if row.title else (first_line(row.prompt) or _no_title(row), "dim")
    return [
        (visible(row.name), "name"),
        (first_line(row.agent), "dim"),
        (first_line(project_of(row.cwd)), "dim"),
        _state_cell(row),
        (str(row.entries), ""),
        (age_text(row.updated, now), "dim"),
        title,
    ]


def _no_title(row: SessionRow) -> str:
    """Return what is shown for a session without a title and a prompt."""
    return "(empty)" if row.is_empty else "(no prompt)"


def _state_cell(row: SessionRow) -> Cell:
    """Return the state, with a mark beside it for tool calls of unknown outcome."""
    state = "archived" if row.archived and row.state == "idle" else row.state
    if not row.unknown_outcomes:
        return visible(state), _STATES.get(row.state, "dim")
    return f"{visible(state)}, {plural(row.unknown_outcomes, 'unknown outcome')}", _STATES.get(row.state, "warn")


def _note_missing_rows(
    place: StoreLocation, rows: Sequence[SessionRow], filters: dict[str, Any], after: str | None, *, is_whole: bool
) -> None:
    """Report on stderr why the list is empty or lacks sessions, and which are damaged or unreadable.

    Empty sessions are counted only beside a whole list: counting them takes as long as reading all rows.
    """
    if not rows and after is not None:
        note("no sessions after this cursor")
    elif not rows:
        note(f"{_why_empty(place, filters)} (in {place.display_url})")
    elif is_whole and filters["empty"] is False and (empty := place.catalog.count(**{**filters, "empty": True})):
        note(f"{plural(empty, 'empty session')} left out; `--all` shows all")
    _note_damaged(row.name for row in rows if row.damage)
    note_unread(place.catalog)


def _why_empty(place: StoreLocation, filters: dict[str, Any]) -> str:
    if place.catalog.count(archived=None) == 0:
        return "no session yet; `wakelog chat` creates one"
    whole = {**filters, "empty": None}
    away = place.catalog.count(**{**whole, "archived": True}) if filters["archived"] is False else 0
    empty = place.catalog.count(**{**whole, "empty": True}) if filters["empty"] is False else 0
    parts = (plural(empty, "empty session") if empty else "", plural(away, "archived session") if away else "")
    hidden = ", ".join(filter(None, parts))
    return f"{hidden}; `--all` shows all" if hidden else "no session matches"


def _note_damaged(names: Iterable[str]) -> None:
    damaged = list(names)
    if damaged:
        listed = ", ".join(damaged[:3]) + (", …" if len(damaged) > 3 else "")
        note(f"{plural(len(damaged), 'damaged session')}: {listed}; `wakelog doctor {damaged[0]}` explains")


# ── search ───────────────────────────────────────────────────────────────────────────────────────


@command(
    "search",
    examples="""
    wakelog search "flaky test"
    wakelog search 'pars* -lexer agent:crab tool:grep since:2d'
    wakelog search parser --limit 5 --json
    wakelog search parser --names | xargs -n1 wakelog export -f md
    """,
    paged=True,
)
@click.argument("query", nargs=-1, required=True, metavar="QUERY")
@click.option("--limit", type=click.IntRange(min=1), default=50, metavar="N", help="Number of hits. [default: 50]")
@click.option("--after", metavar="CURSOR", help="The page after the hit with this cursor.")
@click.option("-l", "--names", is_flag=True, help="Print only the names of the sessions.")
def search(shared: SharedOptions, query: tuple[str, ...], limit: int, after: str | None, *, names: bool) -> None:
    """Search the text of all sessions: prompts, replies, tool calls and results, summaries.

    Words must all match; "a phrase", prefix*, -not; agent: sender: cwd: tool: type: since: narrow it down.
    """
    words = " ".join(query)
    if not words.strip():
        raise UsageError("the query is empty", hint="give a word, or a phrase in quotes")
    place = StoreLocation(shared.store_url)
    wanted = resolve_folders(words, _absolute_folder)
    found = place.catalog.search(wanted, limit=limit + 1, after=after)
    # Unfinished text in journals is in no index; its matches are on the first page, before the indexed ones.
    live = _in_journals(place, wanted, limit) if after is None else []
    hits = [*live, *found[:limit]]
    if names:
        put_text(dict.fromkeys(hit.name for hit in hits))
    elif shared.json:
        put_bytes(b"".join(json_line(hit) for hit in hits))
    else:
        put_pages(shared, _hit_lines(style_of(shared.color), hits))
    if not hits:
        note("nothing found" if after is None else "no hits after this cursor")
    if len(found) > limit:
        note(_more_hits(shared, query, {"limit": limit, "names": names}, hits[-1]))
    _note_damaged(filter(place.catalog.is_damaged, dict.fromkeys(hit.name for hit in hits)))
    note_unread(place.catalog)


def _in_journals(place: StoreLocation, query: str, limit: int) -> list[SearchHit]:
    """Return matches in replies and tool output that are in no log yet, of the sessions that changed last."""
    rows = place.catalog.rows(limit=_JOURNAL_SESSIONS, archived=None)
    found: list[SearchHit] = load("wakelog.journals").search_journals(place.store, rows, query, limit=limit)
    return found


def _more_hits(shared: SharedOptions, query: Sequence[str], options: Mapping[str, int], last: SearchHit) -> str:
    """Return the note that more hits exist. Their number is not known: hits that are not shown are not counted."""
    if shared.json:
        return f"more hits; `{_next_page('search', options, last.cursor, query)}` shows the next"
    return f"more than {plural(options['limit'], 'hit')}; `--limit {options['limit'] * _LIMIT_FACTOR}` shows more"


def _absolute_folder(folder: str) -> str:
    """Return a folder as an absolute path, as sessions store it. A shell does not expand `~` after a colon."""
    return os.path.abspath(os.path.expanduser(folder))


def _hit_lines(look: TerminalStyle, hits: Sequence[SearchHit]) -> Iterator[str]:
    """Yield hits grouped by session, the groups in the order of their best hit."""
    now = now_ms()
    for name in dict.fromkeys(hit.name for hit in hits):
        for hit in hits:
            if hit.name == name:
                yield from _hit(look, hit, now)


def _hit(look: TerminalStyle, hit: SearchHit, now: int) -> Iterator[str]:
    about = "  ".join(filter(None, (visible(hit.type), age_text(hit.timestamp, now))))
    yield f"{look.paint('name', visible(hit.name))}:{visible(hit_name(hit))}  {look.paint('dim', about)}"
    excerpt = visible(hit.excerpt.replace("\n", " "))
    for line in wrap(excerpt, max(20, look.width - 4) if look.width else 0):
        yield "    " + _highlight_matches(look, line)
    yield ""


def _highlight_matches(look: TerminalStyle, line: str) -> str:
    """Return a line with its matches highlighted; without colours the « » marks stay."""
    if not look.colour:
        return line
    head, *rest = line.split("«")
    pieces = [part.partition("»") for part in rest]
    return head + "".join(look.paint("mark", found) + after for found, _, after in pieces)
