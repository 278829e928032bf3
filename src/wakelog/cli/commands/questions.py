"""Commands `questions`, `cancel` and `rerun`: decisions about a session. Each decision is one new entry.

They work whether or not the session is being run: the process that runs it, now or later, reads the entry from the log.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import click

from wakelog.app.addresses import Address, find_entry, find_session
from wakelog.app.approvals import find_question, root_session
from wakelog.app.entry_names import entry_name
from wakelog.app.stores import StoreLocation
from wakelog.cli.ui.errors import DAMAGED, NEEDS_ATTENTION, note, note_damage, note_damage_before_append, report_error
from wakelog.cli.ui.messages import note_unread, put_entry
from wakelog.cli.ui.options import SharedOptions, command, optional_session_argument, session_argument
from wakelog.cli.ui.output import progress_bar, put_bytes, put_text
from wakelog.cli.ui.quantities import age_text, now_ms, plural
from wakelog.cli.ui.safe_text import json_line, visible
from wakelog.cli.ui.session_run import draw_question, wake_and_exit
from wakelog.cli.ui.terminal import Cell, Column, TerminalStyle, style_of, table
from wakelog.cli.ui.transcripts import key_argument
from wakelog.errors import UsageError, WakelogError
from wakelog.log.entry import Entry
from wakelog.questions import (
    OUTCOME_REASON,
    PersonDecision,
    Question,
    open_questions,
    resolve_question,
    unknown_outcomes,
)
from wakelog.runtime.checks import check_files
from wakelog.runtime.user_actions import request_cancel as cancel_turn
from wakelog.runtime.user_actions import rerun_tool as run_again
from wakelog.session import Session

_DECISIONS: dict[str, PersonDecision] = {
    "approve": "approve",
    "deny": "deny",
    "ran": "ran",
    "did_not_run": "did not run",
    "unknown": "unknown",
    "run_again": "run again",
    "dismiss": "dismiss",
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
def cancel(shared: SharedOptions, session: str) -> None:
    """Cancel the current turn of a session. The process that runs it, now or next, ends the turn with an entry."""
    address = find_session(shared.store_url, session)
    opened = Session(address.store, address.name)
    damage = opened.damage
    entry = cancel_turn(opened)
    if entry is None:
        note(f"{address.ref} has no turn to cancel")
    else:
        put_entry(shared, entry)
        if opened.store.held(opened.name) is None:
            note(f"no process runs {address.ref}; `wakelog wake {address.ref}` ends the turn")
    note_damage_before_append(address.ref, damage)


# ── questions ────────────────────────────────────────────────────────────────────────────────────


@command(
    "questions",
    examples="""
    wakelog questions                        all open approvals and questions, and tools that may have run
    wakelog questions crab_user_3            one session, in full
    wakelog questions crab_user_3 --approve --wake
    wakelog questions crab_user_3:17 --deny
    wakelog questions crab_user_3 --result "3 files were copied"
    wakelog questions crab_user_3 --dismiss
    """,
)
@optional_session_argument
@click.option("--approve", is_flag=True, help="Approve: the tool may run.")
@click.option("--deny", is_flag=True, help="Deny: the tool must not run; the model is told.")
@click.option("--ran", is_flag=True, help="The tool ran before the crash.")
@click.option("--did-not-run", is_flag=True, help="The tool did not run, and must not run now.")
@click.option("--unknown", is_flag=True, help="It is unknown whether the tool ran; the model is told.")
@click.option("--run-again", is_flag=True, help="Run the tool, whether or not it ran before.")
@click.option("--result", metavar="TEXT", help="Give the model this text as the result.")
@click.option("--dismiss", is_flag=True, help="Show an unknown outcome no more; the model is not told.")
@click.option("--wake", "go_on", is_flag=True, help="Continue the session after the decision.")
def questions(shared: SharedOptions, session: str | None, result: str | None, *, go_on: bool, **flags: bool) -> None:
    """List questions and tools that may have run, or decide one. SESSION:ENTRY selects one of several."""
    words: list[PersonDecision] = [word for flag, word in _DECISIONS.items() if flags[flag]]
    if result is not None:
        words.append("result")
    if not words:
        if go_on:
            raise UsageError("--wake requires a decision", hint="add one, or use `wakelog wake SESSION`")
        _list_questions(shared) if session is None else _list_session_questions(
            shared, find_session(shared.store_url, session)
        )
        return
    if session is None:
        raise UsageError("a decision requires a session", hint="`wakelog questions` lists the open questions")
    if len(words) > 1:
        raise UsageError(f"{len(words)} decisions given: {', '.join(words)}", hint="give one")
    _decide(shared, find_session(shared.store_url, session), words[0], result, go_on=go_on)


def _list_questions(shared: SharedOptions) -> None:
    """Print the open questions of all sessions. As in other lists, damage is reported and keeps the exit code."""
    place = StoreLocation(shared.store_url)
    opened = list(_sessions_with_questions(shared, place))
    found = [question for session in opened for question in _questions_of(session)]
    _put_questions(shared, found, lambda: _table(style_of(shared.color), found))
    for session in opened:
        note_damage(session.name, session.damage, brief=True)
    note_unread(place.catalog)
    if found:
        raise click.exceptions.Exit(NEEDS_ATTENTION)


def _sessions_with_questions(shared: SharedOptions, place: StoreLocation) -> Iterator[Session]:
    """Yield the sessions that may have open questions. One that cannot be read is reported and skipped."""
    rows = [row for row in place.catalog.rows(archived=None) if row.state in _MAY_WAIT or row.unknown_outcomes]
    with progress_bar("Reading sessions") as progress:
        for at, row in enumerate(rows):
            try:
                opened = Session(place.store, row.name)
                _questions_of(opened)
                yield opened
            except WakelogError as error:
                report_error(error, as_json=shared.json)
            if progress is not None:
                progress(at + 1, len(rows))


def _questions_of(session: Session) -> list[Question]:
    return [*open_questions(session), *unknown_outcomes(session)]


def _list_session_questions(shared: SharedOptions, address: Address) -> None:
    """Print the open questions of one session, in full."""
    opened = Session(address.store, address.name)
    damage = opened.damage
    found = _questions_of(opened)
    found = [find_question(address, opened)] if address.entry is not None else found
    _put_questions(shared, found, lambda: _question_lines(style_of(shared.color), found))
    note_damage(address.ref, damage)
    if found or damage:
        raise click.exceptions.Exit(NEEDS_ATTENTION if found else DAMAGED)


def _put_questions(shared: SharedOptions, found: Sequence[Question], drawn: Callable[[], Iterable[str]]) -> None:
    if shared.json:
        put_bytes(b"".join(json_line(_question_values(item)) for item in found))
    else:
        put_text(drawn())
    if not found:
        note("no open questions")


def _question_lines(look: TerminalStyle, found: Sequence[Question]) -> Iterator[str]:
    now = now_ms()
    for item in found:
        yield from draw_question(look, item, now)
        yield look.paint("dim", f"    decide: {_options(item)}")


def _decide(shared: SharedOptions, address: Address, word: PersonDecision, result: str | None, *, go_on: bool) -> None:
    opened = Session(address.store, address.name)
    damage = opened.damage
    meant = find_question(address, opened)
    if word not in meant.choices:
        raise UsageError(
            f"{visible(meant.tool)} {meant.reason_text}: the decision cannot be {word!r}",
            hint=f"use one of {_options(meant)}",
        )
    if go_on:
        for name in dict.fromkeys((opened.name, root_session(opened.store, opened.name))):
            check_files(Session(opened.store, name))
    entry = resolve_question(opened, meant.attention.id, word, result=result)
    is_open = meant.reason != OUTCOME_REASON
    _finish_decision(shared, address, opened, entry=entry, go_on=go_on, is_open=is_open)
    note_damage_before_append(address.ref, damage)


def _finish_decision(
    shared: SharedOptions, address: Address, opened: Session, *, entry: Entry, go_on: bool, is_open: bool = True
) -> None:
    """Print the written entry, and how to continue if it `is_open` work; with `go_on`, wake the session instead."""
    first = root_session(opened.store, opened.name)
    if go_on:
        wake_and_exit(shared, Session(opened.store, first))
        return
    put_entry(shared, entry)
    left = len(_questions_of(opened))
    if left:
        note(f"{plural(left, 'more question')} in {address.ref}; `wakelog questions {address.ref}` lists them")
    elif opened.store.held(opened.name) is None and is_open:
        note(f"`wakelog wake {first}` continues the session")


def _question_values(item: Question) -> dict[str, object]:
    return {
        "session": item.session.id,
        "name": item.session.name,
        "entry": item.id,
        "seq": item.attention.seq,
        "reason": item.reason,
        "tool": item.tool,
        "input": item.input,
        "since": item.attention.timestamp,
        "choices": item.choices,
        "shown": item.open_call.output if item.open_call is not None else "",
    }


def _options(item: Question) -> str:
    return " ".join("--" + word.replace(" ", "-") for word in item.choices)


def _table(look: TerminalStyle, found: Sequence[Question]) -> Iterator[str]:
    columns = (
        Column("QUESTION", shrinks=True, max_width=40),
        Column("SINCE", right=True),
        Column("TOOL", shrinks=True, max_width=20),
        Column("WHY"),
        Column("INPUT", shrinks=True),
    )
    now = now_ms()
    yield from table(look, columns, [_cells(item, now) for item in found], headed=bool(look.width and found))


def _cells(item: Question, now: int) -> list[Cell]:
    raised = item.attention
    return [
        (f"{item.session.name}:{raised.seq}", "name"),
        (age_text(raised.timestamp, now), "dim"),
        (visible(item.tool), "tool"),
        (visible(item.reason_text), "warn"),
        (key_argument(item.input), ""),
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
@click.option("--wake", "go_on", is_flag=True, help="Continue the session on the new branch.")
def rerun(shared: SharedOptions, session: str, *, yes: bool, go_on: bool) -> None:
    """Run a tool again, on a new branch: SESSION:ENTRY is its result. The old result stays."""
    address = find_session(shared.store_url, session)
    if address.entry is None:
        raise UsageError("an entry is required", hint="use wakelog rerun SESSION:ENTRY")
    opened = Session(address.store, address.name)
    damage, before = opened.damage, opened.tree.head
    raised = run_again(opened, find_entry(opened.read(), address.entry))
    entry = resolve_question(opened, raised.id, "approve") if yes else raised
    _finish_decision(shared, address, opened, entry=entry, go_on=go_on)
    if before is not None:
        back = entry_name(opened.tree, opened.tree.nodes[before])
        note(f"`wakelog head {address.ref} {back}` moves the head back to the previous branch")
    note_damage_before_append(address.ref, damage)
