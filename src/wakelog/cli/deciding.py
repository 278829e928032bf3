"""Commands `cancel`, `attention` and `rerun`: decisions about a session. Each decision is one new entry.

They work whether or not the session is being run: the process that runs it, now or later, reads the entry from the log.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import click

from wakelog.cli.addresses import Address, find, find_entry
from wakelog.cli.draw import Cell, Column, Look, look, table
from wakelog.cli.failures import DAMAGED, NEEDS_ATTENTION, note, note_damage, note_written, report
from wakelog.cli.listing import note_unread
from wakelog.cli.names import short
from wakelog.cli.options import Asked, command, maybe_session_argument, session_argument
from wakelog.cli.output import put_bytes, put_text
from wakelog.cli.places import Place
from wakelog.cli.progress import watched
from wakelog.cli.questions import Waiting, draw, first_of
from wakelog.cli.safe import json_line, visible
from wakelog.cli.times import ago, now_ms, plural
from wakelog.cli.transcripts import telling
from wakelog.cli.wake import wake_and_finish
from wakelog.cli.write import put_entry
from wakelog.errors import NotFound, UsageError, WakelogError
from wakelog.log.entry import Entry
from wakelog.runtime.checks import check_custody
from wakelog.runtime.user_actions import DecisionWord, questions, resolve
from wakelog.runtime.user_actions import cancel as cancel_turn
from wakelog.runtime.user_actions import rerun as run_again
from wakelog.session import Session

_DECISIONS: dict[str, DecisionWord] = {
    "approve": "approve",
    "deny": "deny",
    "ran": "ran",
    "did_not_run": "did not run",
    "unknown": "unknown",
    "run_again": "run again",
}
# A damaged log may hold a question too; that is known only after reading it.
_MAY_WAIT = ("waiting", "damaged", "unknown")

# ── cancel ───────────────────────────────────────────────────────────────────────────────────────


@command(
    "cancel",
    examples="""
    wakelog cancel crab_user_3
    wakelog cancel @latest --json
    """,
)
@session_argument
def cancel(asked: Asked, session: str) -> None:
    """End the turn that a session is in. Whoever runs it, now or next, ends it as an entry."""
    address = find(asked, session)
    opened = Session(address.store, address.name)
    damage = opened.damage
    entry = cancel_turn(opened)
    if entry is None:
        note(f"{address.ref} is in no turn: there is nothing to cancel")
    else:
        put_entry(asked, entry)
        if opened.store.held(opened.name) is None:
            note(f"nobody runs {address.ref}; `wakelog wake {address.ref}` ends the turn")
    note_written(address.ref, damage)


# ── attention ────────────────────────────────────────────────────────────────────────────────────


@command(
    "attention",
    examples="""
    wakelog attention                        everything that waits for you
    wakelog attention crab_user_3            one session, in full
    wakelog attention crab_user_3 --approve --wake
    wakelog attention crab_user_3:17 --deny
    wakelog attention crab_user_3 --result "3 files were copied"
    """,
)
@maybe_session_argument
@click.option("--approve", is_flag=True, help="The tool may run.")
@click.option("--deny", is_flag=True, help="It may not; the model is told so.")
@click.option("--ran", is_flag=True, help="It ran before the crash.")
@click.option("--did-not-run", is_flag=True, help="It did not run, and is not to run now.")
@click.option("--unknown", is_flag=True, help="It cannot be told; the model is told so.")
@click.option("--run-again", is_flag=True, help="It is to run, whether or not it has.")
@click.option("--result", metavar="TEXT", help="Tell the model that this came of it.")
@click.option("--wake", "go_on", is_flag=True, help="Then let the session go on.")
def attention(asked: Asked, session: str | None, result: str | None, *, go_on: bool, **flags: bool) -> None:
    """List what waits for a person, or decide it. SESSION:ENTRY says which, where a session has several."""
    words: list[DecisionWord] = [word for flag, word in _DECISIONS.items() if flags[flag]]
    if result is not None:
        words.append("result")
    if not words:
        if go_on:
            raise UsageError("nothing is decided", hint="decide something, or `wakelog wake` the session")
        _list(asked) if session is None else _list_one(asked, find(asked, session))
        return
    if session is None:
        raise UsageError("a decision is about one session", hint="`wakelog attention` lists what waits")
    if len(words) > 1:
        raise UsageError(f"these are {len(words)} decisions: {', '.join(words)}", hint="a question takes one")
    _decide(asked, find(asked, session), words[0], result, go_on=go_on)


def _list(asked: Asked) -> None:
    """Print the open questions of all sessions. As in other lists, damage is reported and keeps the exit code."""
    place = Place(asked.store_url)
    opened = list(_opened(asked, place))
    found = [Waiting(session, question) for session in opened for question in questions(session)]
    _put(asked, found, lambda: _table(look(asked.color), found))
    for session in opened:
        note_damage(session.name, session.damage, brief=True)
    note_unread(place.catalog)
    if found:
        raise click.exceptions.Exit(NEEDS_ATTENTION)


def _opened(asked: Asked, place: Place) -> Iterator[Session]:
    """Yield the sessions that may have open questions. One that cannot be read is reported and skipped."""
    rows = [row for row in place.catalog.rows(archived=None) if row.state in _MAY_WAIT]
    with watched("Reading sessions") as progress:
        for at, row in enumerate(rows):
            try:
                opened = Session(place.store, row.name)
                questions(opened)
                yield opened
            except WakelogError as error:
                report(error, as_json=asked.json)
            if progress is not None:
                progress(at + 1, len(rows))


def _list_one(asked: Asked, address: Address) -> None:
    """Print the open questions of one session, in full."""
    opened = Session(address.store, address.name)
    damage = opened.damage
    found = [Waiting(opened, question) for question in questions(opened)]
    found = [_one(address, opened)] if address.entry is not None else found
    _put(asked, found, lambda: _in_full(look(asked.color), found))
    note_damage(address.ref, damage)
    if found or damage:
        raise click.exceptions.Exit(NEEDS_ATTENTION if found else DAMAGED)


def _put(asked: Asked, found: Sequence[Waiting], drawn: Callable[[], Iterable[str]]) -> None:
    if asked.json:
        put_bytes(b"".join(json_line(_plain(item)) for item in found))
    else:
        put_text(drawn())
    if not found:
        note("nothing waits for a person")


def _in_full(seen: Look, found: Sequence[Waiting]) -> Iterator[str]:
    now = now_ms()
    for item in found:
        yield from draw(seen, item, now)
        yield seen.paint("dim", f"    decide: {_options(item)}")


def _one(address: Address, opened: Session) -> Waiting:
    """Return the addressed question: named by its own entry or by its reply, or the only open one."""
    found = questions(opened)
    if address.entry is not None:
        entry_id = find_entry(opened.read(), address.entry)
        found = [asked for asked in found if entry_id in (asked.attention.id, asked.attention.reply_id)]
        if not found:
            raise NotFound(f"{address.entry} in {address.ref} waits for no decision", hint="see `wakelog attention`")
    if not found:
        raise NotFound(f"nothing in {address.ref} waits for a decision", hint="see `wakelog attention`")
    if len(found) > 1:
        places = ", ".join(f"{address.ref}:{asked.attention.seq}" for asked in found)
        raise UsageError(f"{len(found)} questions wait in {address.ref}", hint=f"name one of {places}")
    return Waiting(opened, found[0])


def _decide(asked: Asked, address: Address, word: DecisionWord, result: str | None, *, go_on: bool) -> None:
    opened = Session(address.store, address.name)
    damage = opened.damage
    meant = _one(address, opened)
    if word not in meant.question.choices:
        raise UsageError(f"{visible(meant.tool)} {meant.why}: that is no answer", hint=f"decide {_options(meant)}")
    if go_on:
        for name in dict.fromkeys((opened.name, first_of(opened.store, opened.name))):
            check_custody(Session(opened.store, name))
    entry = resolve(opened, meant.question.attention.id, word, result=result)
    _then(asked, address, opened, entry=entry, go_on=go_on)
    note_written(address.ref, damage)


def _then(asked: Asked, address: Address, opened: Session, *, entry: Entry, go_on: bool) -> None:
    """Print the written entry and how to continue; with `go_on`, wake the session instead."""
    first = first_of(opened.store, opened.name)
    if go_on:
        wake_and_finish(asked, Session(opened.store, first))
        return
    put_entry(asked, entry)
    left = len(questions(opened))
    if left:
        note(f"{plural(left, 'more question')} in {address.ref}; `wakelog attention {address.ref}` shows")
    elif opened.store.held(opened.name) is None:
        note(f"`wakelog wake {first}` goes on")


def _plain(item: Waiting) -> dict[str, object]:
    asked = item.question
    return {
        "session": item.session.id,
        "name": item.session.name,
        "entry": asked.attention.id,
        "seq": asked.attention.seq,
        "reason": asked.attention.reason,
        "tool": item.tool,
        "input": item.input,
        "since": asked.attention.timestamp,
        "choices": asked.choices,
        "shown": asked.call.shown if asked.call is not None else "",
    }


def _options(item: Waiting) -> str:
    return " ".join("--" + word.replace(" ", "-") for word in item.question.choices)


def _table(seen: Look, found: Sequence[Waiting]) -> Iterator[str]:
    columns = (
        Column("QUESTION", gives=True, cap=40),
        Column("SINCE", right=True),
        Column("TOOL", gives=True, cap=20),
        Column("WHY"),
        Column("INPUT", gives=True),
    )
    now = now_ms()
    yield from table(seen, columns, [_cells(item, now) for item in found], headed=bool(seen.width and found))


def _cells(item: Waiting, now: int) -> list[Cell]:
    raised = item.question.attention
    return [
        (f"{item.session.name}:{raised.seq}", "name"),
        (ago(raised.timestamp, now), "dim"),
        (visible(item.tool), "tool"),
        (visible(item.why), "warn"),
        (telling(item.input), ""),
    ]


# ── rerun ────────────────────────────────────────────────────────────────────────────────────────


@command(
    "rerun",
    examples="""
    wakelog rerun crab_user_3:12             the tool whose result is entry 12; asks for approval first
    wakelog rerun crab_user_3:12 --yes --wake
    """,
)
@session_argument
@click.option("--yes", is_flag=True, help="Approve it at once.")
@click.option("--wake", "go_on", is_flag=True, help="Then let the session go on from there.")
def rerun(asked: Asked, session: str, *, yes: bool, go_on: bool) -> None:
    """Have a tool run again, on a branch of its own: SESSION:ENTRY is its result. The old result stays."""
    address = find(asked, session)
    if address.entry is None:
        raise UsageError("no entry is named", hint="wakelog rerun SESSION:ENTRY")
    opened = Session(address.store, address.name)
    damage, before = opened.damage, opened.tree.head
    raised = run_again(opened, find_entry(opened.read(), address.entry))
    entry = resolve(opened, raised.id, "approve") if yes else raised
    _then(asked, address, opened, entry=entry, go_on=go_on)
    if before is not None:
        back = short(opened.tree, opened.tree.nodes[before])
        note(f"`wakelog head {address.ref} {back}` goes back to the branch before")
    note_written(address.ref, damage)
