"""Tree of runs (`tree --runs`): a session and its sub-agents, recursively, with the state of each.

Sub-agents are found by the `spawned` annotations of the session that started them, never by searching the store. One
that was logged but has no session yet is shown as such. Damage in any of the logs is reported as for one session.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from wakelog.cli.addresses import Address
from wakelog.cli.draw import Look, cells, clip
from wakelog.cli.failures import DAMAGED, FAILED, note_damage, report
from wakelog.cli.safe import first_line, visible
from wakelog.errors import NoAccess, NotFound, WakelogError
from wakelog.log.content import Prompt
from wakelog.log.entry import Message, Spawned
from wakelog.log.lines import Damage
from wakelog.ports import Store
from wakelog.projections.overview import overview
from wakelog.reading import read_log

_DEPTH_MAX = 64
_STYLES = {
    "running": "mark",
    "owes": "warn",
    "undelivered": "warn",
    "waiting": "warn",
    "failed": "bad",
    "damaged": "bad",
    "inaccessible": "bad",
    "unborn": "warn",
}
_WORDS = {"unborn": "not begun yet"}


class Run(msgspec.Struct, frozen=True):
    """A session and its sub-agents. `prompt` is the first line of its first prompt."""

    session: str
    name: str
    state: str
    prompt: str = ""
    entry: str | None = None
    """The reply that started it."""
    runs: tuple["Run", ...] = ()
    damage: tuple[Damage, ...] = ()
    error: WakelogError | None = None
    """The reason why its log could not be read at all."""


def runs_of(address: Address) -> Run:
    """Return the tree with this session as its root."""
    return _run(address.store, address.name, None, frozenset())


def _run(store: Store, session: str, entry: str | None, above: frozenset[str]) -> Run:
    try:
        log = read_log(store, session)
    except NotFound:
        return Run(session, session, "unborn", entry=entry)
    except WakelogError as error:
        state = "inaccessible" if isinstance(error, NoAccess) else "damaged"
        return Run(session, session, state, entry=entry, error=error)
    above = above | {log.id}
    state = overview(log.tree, held=store.held(log.name) is not None, damaged=bool(log.damage)).state
    spawned = [annotation.value for annotation in log.entries if isinstance(annotation.value, Spawned)]
    # A hostile log may claim that a session started itself.
    below = [annotation for annotation in spawned if annotation.child_session not in above and len(above) < _DEPTH_MAX]
    runs = tuple(_run(store, annotation.child_session, annotation.reply_id, above) for annotation in below)
    said = [entry.value.message for entry in log.entries if isinstance(entry.value, Message)]
    prompt = next((message.text for message in said if isinstance(message, Prompt)), "")
    return Run(log.id, log.name, state, first_line(prompt), entry, runs, log.damage)


def note_harm(run: Run, *, as_json: bool) -> int:
    """Report unreadable parts of a run and its sub-agents on stderr; return the exit code."""
    codes = [note_harm(below, as_json=as_json) for below in run.runs]
    note_damage(run.name, run.damage)
    if run.error is not None:
        codes.append(report(run.error, as_json=as_json))
    codes.append(DAMAGED if run.damage else 0)
    return next((code for code in (FAILED, DAMAGED) if code in codes), 0)


def plain(run: Run) -> dict[str, Any]:
    """Return a run as its `--json` value."""
    return {
        "session": run.session,
        "name": run.name,
        "state": run.state,
        "prompt": run.prompt,
        "entry": run.entry,
        "runs": [plain(below) for below in run.runs],
    }


def draw(look: Look, run: Run, left: str = "", below: str = "") -> Iterator[str]:
    """Yield a run on one line, with its sub-agents below it."""
    state = _WORDS.get(run.state, run.state)
    name = visible(run.name)
    room = look.width - len(left) - cells(name) - len(state) - 4
    prompt = clip(look, run.prompt, max(0, room)) if look.width else run.prompt
    words = (look.paint("name", name), look.paint(_STYLES.get(run.state, "dim"), state), prompt)
    yield look.paint("dim", left) + "  ".join(filter(None, words))
    for at, sent in enumerate(run.runs):
        last = at == len(run.runs) - 1
        branch = look.sign("└─ ", "`- ") if last else look.sign("├─ ", "|- ")
        pipe = "   " if last else look.sign("│  ", "|  ")
        yield from draw(look, sent, below + branch, below + pipe)
