"""The click group `wakelog`: find commands by name, and turn exceptions into exit codes."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from wakelog.app.notices import OutputClosed, set_receivers
from wakelog.cli import ALIASES, COMMANDS, SECTIONS, load
from wakelog.cli.ui.errors import FAILED, PIPE_CLOSED, exit_code, note, report_error
from wakelog.cli.ui.options import COLOR, HELP, JSON, PAGER, STORE
from wakelog.cli.ui.output import progress_bar, put
from wakelog.version import VERSION

_EXAMPLES = """\
  wakelog run --model demo "list ."          send a prompt, here to a model that needs no key
  wakelog run -s @latest "And now?"          continue the session
  wakelog wake --all                         continue all interrupted sessions
  wakelog show @latest                       show the transcript
  wakelog tree @latest                       show the branches
  wakelog search "flaky test"                search all sessions
  wakelog demo                               run a demonstration\
"""
_ABOUT = "wakelog keeps agent sessions as append-only, branching logs and derives everything else from them."
_SESSIONS = """\
A session is named by its id, a unique prefix of it, its name (crab_user_3), @latest, or the path of a
log file; an entry by its number, its id, a unique prefix of it, or its label. SESSION:ENTRY names both.\
"""

# Names that other programs use. wakelog deletes nothing, so `rm` and `delete` suggest `archive`.
_SUGGESTIONS = {
    **dict.fromkeys(("rm", "delete", "remove"), "archive"),
    **dict.fromkeys(("view", "cat", "open", "inspect", "info"), "show"),
    **dict.fromkeys(("say", "add", "reply", "send"), "append"),
    **dict.fromkeys(("prompt", "ask", "exec", "start"), "run"),
    **dict.fromkeys(("resume", "continue", "recover"), "wake"),
    **dict.fromkeys(("stop", "kill", "abort", "interrupt"), "cancel"),
    **dict.fromkeys(("terminate", "close", "finish"), "end"),
    **dict.fromkeys(("approve", "deny", "decide", "pending", "waiting", "attention"), "questions"),
    **dict.fromkeys(("retry", "redo"), "rerun"),
    **dict.fromkeys(("summarise", "summarize", "fold"), "compact"),
    **dict.fromkeys(("log", "branches", "graph"), "tree"),
    **dict.fromkeys(("sessions", "history"), "ls"),
    **dict.fromkeys(("find", "grep"), "search"),
    **dict.fromkeys(("checkout", "rewind", "undo"), "head"),
    **dict.fromkeys(("fsck", "check", "repair", "salvage"), "doctor"),
    **dict.fromkeys(("create", "init"), "new"),
    **dict.fromkeys(("cp", "backup", "clone", "migrate", "sync"), "copy"),
    **dict.fromkeys(("watch", "follow"), "tail"),
    **dict.fromkeys(("cost", "stats"), "usage"),
}


# Commands whose name is a word of the language.
_FUNCTIONS = {"import": "import_"}


class CommandGroup(click.Group):
    """The commands by name. Each is loaded on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return every command name, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command of a name or alias; None if there is none."""
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(load(f"wakelog.cli.{COMMANDS[name][0]}"), _FUNCTIONS.get(name, name))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the typed command. `click.UsageError` with suggestions if there is none of that name."""
        word = args[0]
        if word.startswith("-") or self.get_command(ctx, word) is not None:
            return super().resolve_command(ctx, args)
        close = (
            [_SUGGESTIONS[word]]
            if word in _SUGGESTIONS
            else load("difflib").get_close_matches(word, [*COMMANDS, *ALIASES], n=2)
        )
        meant = f"; did you mean {' or '.join(close)}?" if close else ""
        raise click.UsageError(f"unknown command {word!r}{meant}", ctx)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the commands under their headings, then the options."""
        formatter.write(f"{_ABOUT}\n\nExamples:\n{_EXAMPLES}\n")
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()])
        self.format_options(ctx, formatter)
        formatter.write(f"\n{_SESSIONS}\n`wakelog COMMAND --help` begins with examples of that command.\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options only; `format_help` writes the commands before them."""
        rows = [row for param in self.get_params(ctx) if (row := param.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(rows)

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> Any:
        """Run a command line and exit with its code."""
        sys.exit(run(list(sys.argv[1:] if args is None else args)))

    def run_command_line(self, args: list[str]) -> int:
        """Run a command line and return its code; exceptions are not caught."""
        code = super().main(args, prog_name="wakelog", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0


def run(args: list[str]) -> int:
    """Run a command line and return its code; an exception becomes one line on stderr."""
    # Characters that the terminal's encoding lacks are escaped, so that output never fails on one.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    set_receivers(note, progress_bar)
    try:
        return wakelog.run_command_line([*args[1:], "--help"] if args[:1] in ([], ["help"]) else args)
    except (BrokenPipeError, OutputClosed):
        _discard_stdout()
        return PIPE_CLOSED
    except (click.ClickException, click.Abort, OSError, KeyboardInterrupt) as error:
        return report_error(error, as_json=_wants_json(args))
    except Exception as error:  # noqa: BLE001 - a user must never meet a traceback
        return report_error(error, as_json=_wants_json(args)) if exit_code(error) else FAILED


def _wants_json(args: list[str]) -> bool:
    return "--json" in (args[: args.index("--")] if "--" in args else args)


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that buffered output is not written to the closed pipe at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001
    if value:
        put(f"wakelog {VERSION}")
        ctx.exit()


wakelog = CommandGroup(
    "wakelog",
    params=[
        STORE,
        JSON,
        COLOR,
        PAGER,
        click.Option(
            ["-V", "--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_version,
            help="Show the version.",
        ),
        HELP,
    ],
    add_help_option=False,
    context_settings={"max_content_width": 100},
)
