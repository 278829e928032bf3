"""Run a session from a terminal: wake it, display it, handle Ctrl-C, ask its questions, exit with its code.

Rule 1: every user action is an entry in the log, as if another process had made it: Ctrl-C appends a cancel, an answer
appends a decision. Ctrl-C at a question appends nothing and leaves the question open.
Rule 2: a second Ctrl-C leaves at once and writes nothing more than that this process left. The session is then like
one with a killed process, and is woken in the same way.
Rule 3: a question shows the whole input of its tool call, at any length. Every string of it comes from the model and
passes through `safe_text`.
"""

import asyncio
import sys
from collections.abc import Iterator, Sequence

import click
import msgspec

from wakelog.app.approvals import approve_all, decide_question
from wakelog.app.event_loop import EventLoopRunner
from wakelog.app.runner import RunOutcome, SessionRun, handle_sigint, outcome_of, undelivered_replies
from wakelog.app.stores import store_url
from wakelog.app.watch import TERMINAL_CHANNEL
from wakelog.cli.ui.errors import (
    CONFLICT,
    FAILED,
    INTERRUPTED,
    NEEDS_ATTENTION,
    note,
    note_damage,
    note_damage_before_append,
)
from wakelog.cli.ui.options import SharedOptions
from wakelog.cli.ui.output import put_json
from wakelog.cli.ui.quantities import age_text, now_ms, plural
from wakelog.cli.ui.renderers import renderer_for, write_stderr
from wakelog.cli.ui.safe_text import visible, visible_lines
from wakelog.cli.ui.terminal import TerminalStyle, style_of, wrap
from wakelog.cli.ui.transcripts import key_argument
from wakelog.decide.damage import DAMAGE_REASON, notice_text
from wakelog.log.codec import canonical_json
from wakelog.log.entry import Failed
from wakelog.projections.deliveries import deliveries
from wakelog.projections.losses import losses
from wakelog.questions import OUTCOME_REASON, Question, collect_questions, unknown_outcomes
from wakelog.runtime.wake import WakeReport
from wakelog.session import Session

_EXIT_CODES = {
    "idle": 0,
    "queued": 0,
    "terminated": 0,
    "cancelled": INTERRUPTED,
    "failed": FAILED,
    "undelivered": FAILED,
    "waiting": NEEDS_ATTENTION,
}
# Characters of a tool's input in the one-line message about it.
_INPUT_CHARS = 100


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to run: `quiet` hides tool activity, `in_place` asks on the terminal, `yes` approves every request."""

    quiet: bool = False
    in_place: bool = False
    yes: bool = False


def can_ask_user(shared: SharedOptions) -> bool:
    """Return whether a person can be asked: no `--json`, and stdin and stderr are terminals."""
    return not shared.json and sys.stdin.isatty() and sys.stderr.isatty()


def run_session(
    shared: SharedOptions, session: Session, options: RunOptions, one_loop: EventLoopRunner, *, after: int | None = None
) -> RunOutcome:
    """Run a session until it rests, or waits for a decision that cannot be had here. Shows entries after `after`."""
    seen_to = session.last_seq if after is None else after
    renderer = renderer_for(shared, session, quiet=options.quiet)
    run = SessionRun(session, renderer, seen_to, store_url(shared.store_url), one_loop.servers)
    rows: tuple[str, ...] = ()
    while True:
        report = _wake_once(run, one_loop)
        rows += report.rules
        ending = outcome_of(session, report, rows, interrupted=run.interrupted)
        if not _decide_questions(shared, session, options, list(ending.open_questions)):
            return ending


def _wake_once(run: "SessionRun", one_loop: EventLoopRunner) -> WakeReport:
    """Wake the session once. `KeyboardInterrupt` if the user pressed Ctrl-C twice."""

    async def until_it_rests() -> WakeReport:
        with handle_sigint(run.interrupt, note_cancelling):
            return await run.wake()

    try:
        return one_loop.run(until_it_rests())
    except asyncio.CancelledError:
        note(_left_note(run.name))
        raise KeyboardInterrupt from None


def _decide_questions(shared: SharedOptions, session: Session, options: RunOptions, left: list[Question]) -> bool:
    if options.yes and approve_all(left):
        return True
    try:
        return options.in_place and ask_on_terminal(style_of(shared.color, sys.stderr), session, left, now_ms())
    except KeyboardInterrupt:
        _note_open_question(session)
        raise


def _note_open_question(session: Session) -> None:
    """Say that the question stays open, and how to decide it; for a user who left at a question."""
    left = tuple(collect_questions(session))
    write_stderr("\n")
    note(f"the question stays open; {_how_to_decide(session, left)}" if left else _left_note(session.name))


def _left_note(name: str) -> str:
    return f"left; `wakelog wake {name}` continues the session"


def note_cancelling() -> None:
    """Say that the turn is being cancelled, and how to leave at once."""
    write_stderr("\n")
    note("cancelling the turn; press Ctrl-C again to leave at once")


def run_exit_code(ending: RunOutcome) -> int:
    """Return the exit code. A sub-agent run elsewhere is a conflict; a turn cancelled before this run is 0."""
    if ending.had_nothing_to_do and ending.state == "cancelled":
        return 0
    return _EXIT_CODES.get(ending.state, CONFLICT)


# ── end of a run ─────────────────────────────────────────────────────────────────────────────────


def report_and_exit(shared: SharedOptions, session: Session, ending: RunOutcome, *, quiet: bool) -> None:
    """Print how the run ended, and exit with its code."""
    report_end(shared, session, ending)
    if not (quiet or shared.json):
        idle = ": nothing to do" if ending.had_nothing_to_do and ending.state == "idle" else ""
        write_stderr(f"{style_of(shared.color, sys.stderr).paint('dim', f'session {session.name}{idle}')}\n")
    if code := run_exit_code(ending):
        raise click.exceptions.Exit(code)


def report_end(shared: SharedOptions, session: Session, ending: RunOutcome) -> None:
    """Write the last event (`--json`), and a note on stderr if the user has to know something."""
    outcomes = unknown_outcomes(session)
    if shared.json:
        put_end_event(session.id, session.name, ending.state, ending.rows, unknown=len(outcomes))
    for text in filter(None, (_end_note(session, ending), unknown_outcomes_text(outcomes))):
        note(text)


def unknown_outcomes_text(outcomes: Sequence[Question], answer_with: str = "") -> str:
    """Return which tool calls of a session may have run, and how to answer; empty if there are none."""
    if not outcomes:
        return ""
    first, name = outcomes[0], outcomes[0].session.name
    more = f" and {len(outcomes) - 1} more" if len(outcomes) > 1 else ""
    how = answer_with or f"`wakelog questions {name}` with `--ran`, `--did-not-run` or `--dismiss`"
    called = f"{visible(first.tool)}({key_argument(first.input)[:_INPUT_CHARS]})"
    return f"{name}: {plural(len(outcomes), 'tool call')} may have run: {called}{more}; {how} answers"


def put_end_event(session: str, name: str, state: str, rows: tuple[str, ...] = (), *, unknown: int = 0) -> None:
    """Write the last event of a session."""
    event = {"event": "end", "session": session, "name": name, "state": state, "rows": rows}
    put_json({**event, "unknown_outcomes": unknown})


def _end_note(session: Session, ending: RunOutcome) -> str:
    match ending.state:
        case "waiting":
            return _how_to_decide(session, ending.open_questions)
        case "failed":
            how = f"(`wakelog wake {session.name} --retry` tries again)"
            return f"{session.name}: the turn failed{_failure_reason(session)} {how}"
        case "undelivered":
            count = plural(len(undelivered_replies(session)), "reply", "replies")
            how = f"(`wakelog wake {session.name}` tries again)"
            return f"{session.name}: {count} not delivered{_send_failure_reason(session)} {how}"
        case "cancelled" if not ending.had_nothing_to_do:
            return f"{session.name}: the turn was cancelled"
        case "terminated":
            return f"{session.name} has ended and cannot be run"
        case "running":
            return f"{session.name} waits for a sub-agent that another process runs"
    return ""


def _how_to_decide(session: Session, left: tuple[Question, ...]) -> str:
    first = left[0]
    call = f"{visible(first.tool)}({key_argument(first.input)[:_INPUT_CHARS]}) " if first.tool else ""
    name, several = first.session.name, len(left) > 1
    place = f"{name}:{first.attention.seq}" if several else name
    options = " or ".join(f"`--{word.replace(' ', '-')}`" for word in first.choices[:2])
    more = f" ({plural(len(left) - 1, 'more question')}, see `wakelog questions`)" if several else ""
    how = f"`wakelog questions {place}` with {options} decides, `wakelog wake {session.name}` continues the session"
    return f"{name} waits for a decision: {call}{first.reason_text}{more}; {how}"


def _send_failure_reason(session: Session) -> str:
    failures = deliveries(session.tree).pending(None).send_failed
    errors = [failed.error for failed in failures if failed.channel == TERMINAL_CHANNEL]
    error = errors[-1] if errors else None
    return f": {error.message or error.kind}" if error is not None else ""


def _failure_reason(session: Session) -> str:
    faults = [node.value for node in session.branch().nodes if isinstance(node.value, Failed)]
    error = faults[-1].error if faults else None
    return f": {error.message or error.kind}" if error is not None else ""


# The prompt for each kind of question, and the answer of each key.
ANSWER_KEYS = {
    "approve": ("Run it? [y]es / [n]o / [a]lways in this session: ", {"y": "approve", "n": "deny", "a": "always"}),
    "unknown": (
        "Did it run? [y]es / [n]o / [r]un it again / [l]ater: ",
        {"y": "ran", "n": "did not run", "r": "run again", "l": "later"},
    ),
    DAMAGE_REASON: (
        "Did they run? [y]es / [n]o / [u]nknown, tell the model so / [l]ater: ",
        {"y": "ran", "n": "did not run", "u": "unknown", "l": "later"},
    ),
    OUTCOME_REASON: (
        "Did it run? [y]es / [n]o / [d]ismiss / [l]ater: ",
        {"y": "ran", "n": "did not run", "d": "dismiss", "l": "later"},
    ),
}


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────


def draw_question(look: TerminalStyle, item: Question, now: int) -> Iterator[str]:
    """Yield a question in full: its place, what is asked, and the whole input of the tool."""
    entry = item.attention
    since = age_text(entry.timestamp, now)
    place = f"{item.session.name}:{entry.seq}"
    tool = f"{look.paint('tool', visible(item.tool) or 'a tool')} " if entry.reason != DAMAGE_REASON else ""
    yield f"{look.paint('name', place)}  {tool}{item.reason_text}  {look.paint('dim', since)}".rstrip()
    for line in (*_input_lines(item.input), *_damage_lines(item)):
        for piece in wrap(line, max(20, look.width - 4) if look.width else 0):
            yield f"    {piece}"
    call = item.open_call
    if call is not None and call.output:
        yield look.paint("dim", "    output so far:")
        for line in visible_lines(call.output.rstrip("\n")):
            yield f"    {look.symbol('│', '|')} {line}"


def _damage_lines(item: Question) -> Iterator[str]:
    """Yield the notice that the model will get about the damage of a question."""
    if item.attention.reason != DAMAGE_REASON:
        return
    found = losses(item.session.tree, item.session.branch())
    yield from visible_lines(notice_text(found)) if found is not None else ()


def _input_lines(given: object) -> Iterator[str]:
    """Yield each argument with its name; texts line by line, other values as JSON."""
    if not isinstance(given, dict):
        yield from () if given is None else visible_lines(canonical_json(given).decode())
        return
    for key, value in given.items():
        lines = visible_lines(value if isinstance(value, str) else canonical_json(value).decode())
        if len(lines) == 1:
            yield f"{visible(str(key))}: {lines[0]}"
        else:
            yield f"{visible(str(key))}:"
            yield from (f"  {line}" for line in lines)


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


def ask_on_terminal(look: TerminalStyle, root: Session, left: list[Question], now: int) -> bool:
    """Ask each question on the terminal; return whether any was decided."""
    decided, always = False, set[str]()
    for item in left:
        if item.attention.reason == "approve" and item.tool in always:
            word = "approve"
        else:
            for line in draw_question(look, item, now):
                write_stderr(f"{line}\n")
            word = _read_answer(item.attention.reason)
        if word == "always":
            always.add(item.tool)
        decided = decide_question(root, item, word) or decided
    return decided


def _read_answer(reason: str) -> str:
    """Read from stdin until a valid answer is typed; end of input means `later`."""
    text, answers = ANSWER_KEYS.get(reason, ANSWER_KEYS["unknown"])
    while True:
        write_stderr(text)
        typed = sys.stdin.readline()
        if not typed:
            write_stderr("\n")
            return "later"
        word = answers.get(typed.strip().lower()[:1])
        if word is not None:
            return word


def wake_and_exit(shared: SharedOptions, session: Session, *, quiet: bool = False, ref: str | None = None) -> None:
    """Wake one session, and exit with the code of its ending."""
    damage = session.damage
    with EventLoopRunner() as one_loop:
        ending = run_session(shared, session, RunOptions(quiet=quiet, in_place=can_ask_user(shared)), one_loop)
    name = ref or session.name
    if ending.had_nothing_to_do:
        note_damage(name, damage, brief=True)
    elif not ending.open_questions:
        note_damage_before_append(name, damage)
    report_and_exit(shared, session, ending, quiet=quiet)
