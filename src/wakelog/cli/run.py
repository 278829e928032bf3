"""Command `run`: one prompt, one turn, in a new or an existing session.

Replies go to stdout as they stream; the log holds everything else. If this process dies, `wake` needs only the
session's name to continue.
"""

import os
import stat
import sys

import click

from wakelog.cli.addresses import find
from wakelog.cli.configured import world_for
from wakelog.cli.driving import Ending, RunOptions, can_ask, drive, finish
from wakelog.cli.failures import note, note_written
from wakelog.cli.happenings import SessionWatcher
from wakelog.cli.options import Asked, command, session_option
from wakelog.cli.places import Place
from wakelog.cli.renderers import CHANNEL, renderer_for
from wakelog.cli.serving import EventLoopRunner
from wakelog.cli.terms import Served, Terms, agree, begin
from wakelog.cli.write import here, note_clipped, one_text, read_stdin
from wakelog.config.names import TOOL_NAMES
from wakelog.errors import Conflict, UsageError
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import Entry
from wakelog.projections.context import parse_strategy
from wakelog.projections.state import session_state
from wakelog.runtime.wake import next_decision
from wakelog.session import Session


@command(
    "run",
    examples="""
    wakelog run --model demo "list ."            ask the offline demo model, which needs no key
    git diff | wakelog run "Review this"         what is piped in stands behind the prompt
    wakelog run -s @latest "And now?"            go on with a session
    wakelog run -s @latest --model demo          answer a prompt that waits there
    wakelog run --model scripted:replies.jsonl --tools read,list "Hello"
    wakelog run --yes --json 'run `make test`' | jq -r 'select(.event == "delta") | .text'
    """,
)
@click.argument("words", nargs=-1, metavar="[PROMPT]")
@session_option
@click.option("--model", metavar="PROVIDER:NAME", help="Which model answers. [default: what is configured]")
@click.option("--agent", metavar="NAME", help="Who answers, in a new session. [default: agent]")
@click.option("--sender", metavar="NAME", help="Who asks, in a new session. [default: user]")
@click.option("--system", metavar="TEXT|@FILE", help="The instructions.")
@click.option(
    "--tools", metavar="NAMES", help=f"Which tools: names with commas, or `none`. [default: {','.join(TOOL_NAMES)}]"
)
@click.option("--yes", is_flag=True, help="Let every tool run without asking. [default: only read, list and grep]")
@click.option("--cwd", metavar="DIR", help="Where a new session works. [default: here]")
@click.option("--compact-at", type=click.IntRange(min=0), metavar="TOKENS", help="Fold a longer context. 0: never.")
@click.option("--strategy", metavar="HOW", help="What the model sees: full, window:N or budget:TOKENS.")
@click.option(
    "--unknown",
    type=click.Choice(["tell", "ask"]),
    help="A tool that may or may not have run: tell the model, or ask you.",
)
@click.option(
    "--reasoning",
    type=click.Choice(["keep", "summary", "drop"]),
    help="What of the model's thinking is kept: all, the provider's summaries, or nothing. [default: keep]",
)
@click.option(
    "--redact",
    type=click.Choice(["keys", "assignments", "off"]),
    help="Which secrets are taken out: keys, these and values of assignments, or none. [default: assignments]",
)
@click.option(
    "--resume", is_flag=True, help="Go on with a reply that was cut, where the model can. [default: begin it again]"
)
@click.option("--steer", is_flag=True, help="If the session is busy: let the agent know at its next step.")
@click.option("-q", "--quiet", is_flag=True, help="Only what the agent says.")
def run(asked: Asked, words: tuple[str, ...], session: str | None, **said: object) -> None:
    """Ask an agent once, and print what it says. Without a prompt: answer the one that waits in SESSION."""
    options = Options(said)
    prompt = _prompt(words)
    if not prompt:
        _check_waiting(asked, session, options)
    with EventLoopRunner() as one_loop:
        opened, after, ref = _opened(asked, session, options, one_loop.tools_of)
        damage = opened.damage
        entry = _say(opened, prompt, options) if prompt else None
        ending = _answered(asked, opened, options, entry, after, one_loop)
    note_written(ref, damage)
    finish(asked, opened, ending, quiet=options.quiet)


class Options:
    """Options of `run` and `chat`: `terms` are settings, others apply only to a new session or to the display."""

    def __init__(self, said: dict[str, object]) -> None:
        def text(key: str) -> str | None:
            value = said[key]
            return value if isinstance(value, str) else None

        compact_at = said["compact_at"]
        self.terms = Terms(
            model=text("model"),
            system=_system(text("system")),
            tools=text("tools"),
            yes=bool(said["yes"]),
            compact_at=compact_at if isinstance(compact_at, int) else None,
            strategy=str(parse_strategy(text("strategy") or "")) if said["strategy"] is not None else None,
            unknown=text("unknown"),
            reasoning=text("reasoning"),
            redact=text("redact"),
            resume=bool(said["resume"]),
        )
        self.agent, self.sender, self.cwd = text("agent"), text("sender"), text("cwd")
        self.steer, self.quiet = bool(said.get("steer")), bool(said.get("quiet"))

    @property
    def folder(self) -> str:
        """Return the working folder of a new session. `UsageError` if it does not exist."""
        cwd = os.path.abspath(self.cwd) if self.cwd is not None else here()
        if not os.path.isdir(cwd):
            what = f"there is no folder {cwd}" if cwd else "the folder that this is started in is gone"
            raise UsageError(what, hint="--cwd names the folder to work in")
        return cwd


def _opened(asked: Asked, session: str | None, options: Options, served: Served) -> tuple[Session, int, str]:
    """Return the session, the seq after which entries are new, and the reference typed for it."""
    if session is None:
        store, cwd = Place(asked.store_url).store, options.folder
        sender = options.sender or "user"
        begun = begin(store, options.terms, agent=options.agent, sender=sender, cwd=cwd, served=served)
        return begun, -1, begun.name
    for name, value in (("--agent", options.agent), ("--sender", options.sender), ("--cwd", options.cwd)):
        if value is not None:
            raise UsageError(f"{name} is for a new session; this one has its own", hint=f"leave {name} or -s out")
    address = find(asked, session)
    if address.entry is not None:
        raise UsageError("a run goes on from the head", hint=f"`wakelog fork {session}` moves it there first")
    opened = Session(address.store, address.name)
    if session_state(opened.tree).terminated:
        raise UsageError(f"{opened.name} is over for good", hint=f"`wakelog fork {opened.name} --new-session` goes on")
    after = opened.last_seq
    agree(opened, options.terms, served)
    return opened, after, address.ref


def _say(session: Session, prompt: str, options: Options) -> Entry:
    said = Prompt(content=(Text(text=prompt),), channel=CHANNEL)
    entry = session.say(said, mode="steer" if options.steer else "followUp")
    note_clipped(entry)
    return entry


def _answered(
    asked: Asked, session: Session, options: Options, entry: Entry | None, after: int, one_loop: EventLoopRunner
) -> Ending:
    """Run the session. If another process runs it, the message stays queued; `Conflict` if there is no message."""
    if entry is None or session.store.held(session.name) is None:
        manner = RunOptions(quiet=options.quiet, in_place=can_ask(asked), yes=options.terms.yes)
        try:
            return drive(asked, session, manner, one_loop, after=after)
        except Conflict:
            if entry is None or session.store.held(session.name) is None:
                raise
    elif asked.json:
        hear = renderer_for(asked, session, quiet=True).hear
        SessionWatcher(session.store, session.name, max(after, entry.seq - 1), hear).catch_up()
    note(f"{session.name} is busy: this waits in its queue; `wakelog tail -f {session.name}` follows it")
    return Ending("queued")


# ── the prompt ───────────────────────────────────────────────────────────────────────────────────


def _prompt(words: tuple[str, ...]) -> str:
    """Return the prompt followed by piped input; `-` stands for piped input alone. Empty if there is neither."""
    text = one_text(words) if words else ""
    piped = read_stdin() if text == "-" or _is_piped() else ""
    said = "\n\n".join(part for part in ("" if text == "-" else text, piped) if part.strip())
    if words and not said:
        raise UsageError("there is nothing to say", hint='give a prompt: wakelog run "..."')
    return said


def _check_waiting(asked: Asked, session: str | None, options: Options) -> None:
    """Raise `UsageError` unless a session with pending work was named. For a run without a prompt."""
    if session is None:
        raise UsageError("there is nothing to say", hint='give a prompt: wakelog run "..."')
    if options.steer:
        raise UsageError("--steer goes with a prompt", hint="leave it out, or give a prompt")
    address = find(asked, session)
    opened = Session(address.store, address.name)
    if next_decision(world_for(address.store), opened) is None:
        hint = f'give a prompt: wakelog run -s {address.ref} "..."'
        raise UsageError(f"no prompt is given, and none waits in {opened.name}", hint=hint)


def _is_piped() -> bool:
    """Return whether stdin is a pipe, a file or a socket; not a terminal and not /dev/null."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return not sys.stdin.isatty()
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _system(text: str | None) -> str | None:
    """Return the instructions; `@FILE` is read from the file."""
    if text is None or not text.startswith("@"):
        return text
    try:
        with open(os.path.expanduser(text[1:]), "rb") as file:
            return file.read().decode()
    except UnicodeDecodeError:
        raise UsageError(f"{text[1:]} is not UTF-8 text", hint="instructions are text") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{text[1:]} cannot be read: {why}", hint="--system takes a text, or @ and a file") from None
