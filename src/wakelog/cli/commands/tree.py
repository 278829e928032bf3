"""Command `tree`: draw every branch of a session, or with `--runs` its sub-agents and their states.

Sub-agents are found by the `spawned` annotations of the session that started them, never by searching the store. One
that was logged but has no session yet is shown as such. Damage in any of the logs is reported as for one session.
"""

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from wakelog.app.addresses import Address, find_session
from wakelog.cli.ui.errors import DAMAGED, FAILED, exit_if_damaged, note_damage, report_error
from wakelog.cli.ui.options import SharedOptions, command, session_argument
from wakelog.cli.ui.output import put_json, put_pages
from wakelog.cli.ui.safe_text import first_line, visible
from wakelog.cli.ui.session_views import draw_tree, node_text
from wakelog.cli.ui.terminal import TerminalStyle, clip, style_of, text_width
from wakelog.errors import NoAccess, NotFound, WakelogError
from wakelog.log.content import Prompt
from wakelog.log.entry import Entry, Message, Spawned
from wakelog.log.lines import Damage
from wakelog.ports.stores import Store
from wakelog.projections.overview import overview
from wakelog.reading import Log, read_log

_TEXT_MAX = 80


@command(
    "tree",
    examples="""
    wakelog tree @latest
    wakelog tree crab_user_3 --annotations
    wakelog tree crab_user_3 --runs          its sub-agents and theirs
    wakelog tree crab_user_3 --json | jq .head
    """,
    paged=True,
)
@session_argument
@click.option(
    "--annotations", "--facts", is_flag=True, help="Also show annotations of entries: labels, tool starts, deliveries."
)
@click.option("--runs", is_flag=True, help="Show the sub-agents that it started instead, and their states.")
def tree(shared: SharedOptions, session: str, *, annotations: bool, runs: bool) -> None:
    """Draw every branch of a session. The active branch is marked, and so is the head."""
    address = find_session(shared.store_url, session)
    if runs:
        _show_runs(shared, address)
        return
    log = read_log(address.store, address.name)
    if shared.json:
        put_json({"head": log.tree.head, "entries": [_entry_values(log, entry) for entry in _all_entries(log)]})
    else:
        put_pages(shared, draw_tree(style_of(shared.color), log.tree, annotations=annotations))
    exit_if_damaged(address.ref, log.damage)


def _show_runs(shared: SharedOptions, address: Address) -> None:
    found = runs_of(address)
    put_json(run_values(found)) if shared.json else put_pages(shared, draw_runs(style_of(shared.color), found))
    if code := report_run_damage(found, as_json=shared.json):
        raise click.exceptions.Exit(code)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def _all_entries(log: Log) -> list[Entry]:
    """Return the inherited nodes in branch order, then the session's own entries in log order."""
    inherited = [node for node in log.tree.nodes.values() if log.tree.is_inherited(node.id)]
    return [*inherited, *log.tree.own_entries()]


def _entry_values(log: Log, entry: Entry) -> dict[str, object]:
    node = entry.is_node
    parent = log.tree.parent(entry.id) if node else log.tree.find(entry.id)
    values: dict[str, object] = {
        "id": entry.id,
        "parentId": parent,
        "type": entry.type,
        "seq": entry.seq,
        "timestamp": entry.value.timestamp,
        "link": node,
    }
    if isinstance(entry.value, Message):
        values["role"] = str(entry.value.message.__struct_config__.tag)
        values["text"] = node_text(entry)[:_TEXT_MAX]
    if log.tree.is_inherited(entry.id):
        values["inherited"] = True
    return values


_DEPTH_MAX = 64
_STYLES = {
    "running": "mark",
    "pending": "warn",
    "interrupted": "warn",
    "undelivered": "warn",
    "waiting": "warn",
    "failed": "bad",
    "damaged": "bad",
    "inaccessible": "bad",
    "unborn": "warn",
}
_STATE_TEXTS = {"unborn": "not created yet"}


class RunNode(msgspec.Struct, frozen=True):
    """A session and its sub-agents. `prompt` is the first line of its first prompt."""

    session: str
    name: str
    state: str
    prompt: str = ""
    entry: str | None = None
    """The reply that started it."""
    runs: tuple["RunNode", ...] = ()
    damage: tuple[Damage, ...] = ()
    error: WakelogError | None = None
    """The reason why its log could not be read at all."""


def runs_of(address: Address) -> RunNode:
    """Return the tree with this session as its root."""
    return _run_node(address.store, address.name, None, frozenset())


def _run_node(store: Store, session: str, entry: str | None, above: frozenset[str]) -> RunNode:
    try:
        log = read_log(store, session)
    except NotFound:
        return RunNode(session, session, "unborn", entry=entry)
    except WakelogError as error:
        state = "inaccessible" if isinstance(error, NoAccess) else "damaged"
        return RunNode(session, session, state, entry=entry, error=error)
    above = above | {log.id}
    state = overview(log.tree, held=store.held(log.name) is not None, damaged=bool(log.damage)).state
    spawned = [annotation.value for annotation in log.entries if isinstance(annotation.value, Spawned)]
    # A hostile log may claim that a session started itself.
    below = [annotation for annotation in spawned if annotation.child_session not in above and len(above) < _DEPTH_MAX]
    runs = tuple(_run_node(store, annotation.child_session, annotation.reply_id, above) for annotation in below)
    messages = [entry.value.message for entry in log.entries if isinstance(entry.value, Message)]
    prompt = next((message.text for message in messages if isinstance(message, Prompt)), "")
    return RunNode(log.id, log.name, state, first_line(prompt), entry, runs, log.damage)


def report_run_damage(run: RunNode, *, as_json: bool) -> int:
    """Report unreadable parts of a run and its sub-agents on stderr; return the exit code."""
    codes = [report_run_damage(below, as_json=as_json) for below in run.runs]
    note_damage(run.name, run.damage)
    if run.error is not None:
        codes.append(report_error(run.error, as_json=as_json))
    codes.append(DAMAGED if run.damage else 0)
    return next((code for code in (FAILED, DAMAGED) if code in codes), 0)


def run_values(run: RunNode) -> dict[str, Any]:
    """Return a run as its `--json` value."""
    return {
        "session": run.session,
        "name": run.name,
        "state": run.state,
        "prompt": run.prompt,
        "entry": run.entry,
        "runs": [run_values(below) for below in run.runs],
    }


def draw_runs(look: TerminalStyle, run: RunNode, left: str = "", below: str = "") -> Iterator[str]:
    """Yield a run on one line, with its sub-agents below it."""
    state = _STATE_TEXTS.get(run.state, run.state)
    name = visible(run.name)
    room = look.width - len(left) - text_width(name) - len(state) - 4
    prompt = clip(look, run.prompt, max(0, room)) if look.width else run.prompt
    words = (look.paint("name", name), look.paint(_STYLES.get(run.state, "dim"), state), prompt)
    yield look.paint("dim", left) + "  ".join(filter(None, words))
    for at, child in enumerate(run.runs):
        last = at == len(run.runs) - 1
        branch = look.symbol("└─ ", "`- ") if last else look.symbol("├─ ", "|- ")
        pipe = "   " if last else look.symbol("│  ", "|  ")
        yield from draw_runs(look, child, below + branch, below + pipe)
