"""Command `run`: one prompt, one turn, in a new or an existing session.

Replies go to stdout as they stream; the log holds everything else. If this process dies, `wake` needs only the
session's name to continue.
"""

import os
import stat
import sys

import click

from wakelog.app.addresses import find_session
from wakelog.app.event_loop import EventLoopRunner
from wakelog.app.runner import RunOutcome, runtime_for
from wakelog.app.settings import ListTools, apply_settings, begin_session
from wakelog.app.stores import StoreLocation
from wakelog.app.watch import TERMINAL_CHANNEL, EntryReporter
from wakelog.cli.ui.errors import note, note_damage_before_append
from wakelog.cli.ui.messages import note_clipped, read_stdin, single_text
from wakelog.cli.ui.options import SharedOptions, command, session_option
from wakelog.cli.ui.renderers import renderer_for
from wakelog.cli.ui.run_settings import RunSettings, run_settings_options
from wakelog.cli.ui.session_run import RunOptions, can_ask_user, report_and_exit, run_session
from wakelog.errors import Conflict, UsageError
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import Entry
from wakelog.runtime.wake import next_decision
from wakelog.session import Session


@command(
    "run",
    examples="""
    wakelog run --model demo "list ."            use the offline demo model, which needs no key
    git diff | wakelog run "Review this"         piped input is appended to the prompt
    wakelog run -s @latest "And now?"            continue a session
    wakelog run -s @latest --model demo          answer a pending prompt
    wakelog run --model scripted:replies.jsonl --tools read,list "Hello"
    wakelog run --yes --json 'run `make test`' | jq -r 'select(.event == "delta") | .text'
    """,
)
@click.argument("words", nargs=-1, metavar="[PROMPT]")
@session_option
@run_settings_options
@click.option(
    "--steer", is_flag=True, help="If the session is busy: deliver at the agent's next step, not after the turn."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the text of replies.")
def run(shared: SharedOptions, words: tuple[str, ...], session: str | None, **values: object) -> None:
    """Send one prompt to an agent and print its reply. Without a prompt: process what is pending in SESSION."""
    options = RunSettings(values)
    prompt = _prompt(words)
    if not prompt:
        _check_waiting(shared, session, options)
    with EventLoopRunner() as one_loop:
        opened, after, ref = _opened(shared, session, options, one_loop.list_tools)
        damage = opened.damage
        entry = _append_prompt(opened, prompt, options) if prompt else None
        ending = _run_or_queue(shared, opened, options, entry, after, one_loop)
    note_damage_before_append(ref, damage)
    report_and_exit(shared, opened, ending, quiet=options.quiet)


def _opened(
    shared: SharedOptions, session: str | None, options: RunSettings, list_tools: ListTools
) -> tuple[Session, int, str]:
    """Return the session, the seq after which entries are new, and the reference typed for it."""
    if session is None:
        store, cwd = StoreLocation(shared.store_url).store, options.folder
        sender = options.sender or "user"
        created = begin_session(
            store, options.overrides, agent=options.agent, sender=sender, cwd=cwd, list_tools=list_tools
        )
        return created, -1, created.name
    for name, value in (("--agent", options.agent), ("--sender", options.sender), ("--cwd", options.cwd)):
        if value is not None:
            raise UsageError(f"{name} applies only to a new session", hint=f"leave {name} or -s out")
    address = find_session(shared.store_url, session)
    if address.entry is not None:
        raise UsageError("a run continues from the head", hint=f"`wakelog fork {session}` moves it there first")
    opened = Session(address.store, address.name)
    opened.check_not_ended()
    after = opened.last_seq
    apply_settings(opened, options.overrides, list_tools)
    return opened, after, address.ref


def _append_prompt(session: Session, prompt: str, options: RunSettings) -> Entry:
    message = Prompt(content=(Text(text=prompt),), channel=TERMINAL_CHANNEL)
    entry = session.say(message, mode="steer" if options.steer else "followUp")
    note_clipped(entry)
    return entry


def _run_or_queue(
    shared: SharedOptions,
    session: Session,
    options: RunSettings,
    entry: Entry | None,
    after: int,
    one_loop: EventLoopRunner,
) -> RunOutcome:
    """Run the session. If another process runs it, the message stays queued; `Conflict` if there is no message."""
    if entry is None or session.store.held(session.name) is None:
        run_options = RunOptions(quiet=options.quiet, in_place=can_ask_user(shared), yes=options.overrides.yes)
        try:
            return run_session(shared, session, run_options, one_loop, after=after)
        except Conflict:
            if entry is None or session.store.held(session.name) is None:
                raise
    elif shared.json:
        on_entry = renderer_for(shared, session, quiet=True).on_entry
        EntryReporter(session.store, session.name, max(after, entry.seq - 1), on_entry).catch_up()
    note(f"{session.name} is busy: the message waits in its queue; `wakelog tail -f {session.name}` follows it")
    return RunOutcome("queued")


# ── the prompt ───────────────────────────────────────────────────────────────────────────────────


def _prompt(words: tuple[str, ...]) -> str:
    """Return the prompt followed by piped input; `-` stands for piped input alone. Empty if there is neither."""
    text = single_text(words) if words else ""
    piped = read_stdin() if text == "-" or _is_piped() else ""
    prompt = "\n\n".join(part for part in ("" if text == "-" else text, piped) if part.strip())
    if words and not prompt:
        raise UsageError("the prompt is empty", hint='give a prompt: wakelog run "..."')
    return prompt


def _check_waiting(shared: SharedOptions, session: str | None, options: RunSettings) -> None:
    """Raise `UsageError` unless a session with pending work was named. For a run without a prompt."""
    if session is None:
        raise UsageError("the prompt is empty", hint='give a prompt: wakelog run "..."')
    if options.steer:
        raise UsageError("--steer requires a prompt", hint="leave it out, or give a prompt")
    address = find_session(shared.store_url, session)
    opened = Session(address.store, address.name)
    opened.check_not_ended()
    if next_decision(runtime_for(address.store), opened) is None:
        hint = f'give a prompt: wakelog run -s {address.ref} "..."'
        raise UsageError(f"no prompt is given, and nothing is pending in {opened.name}", hint=hint)


def _is_piped() -> bool:
    """Return whether stdin is a pipe, a file or a socket; not a terminal and not /dev/null."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return not sys.stdin.isatty()
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
