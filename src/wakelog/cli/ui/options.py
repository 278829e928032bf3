"""Shared options of all commands, the layout of their help, and the `command` decorator.

A shared option is accepted on `wakelog` and on each command, because users write it in either place; the one nearer to
the command wins. Each command gets one `SharedOptions` and does not read options of other commands.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from wakelog.cli import load
from wakelog.errors import Untrusted, UsageError

_Function = TypeVar("_Function", bound=Callable[..., Any])


class SharedOptions(msgspec.Struct):
    """Values of the shared options."""

    store_url: str | None = None
    color: str = "auto"
    pager: bool = True
    json: bool = False


def _store_value(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Store the value of a shared option in `SharedOptions`; an option that was not given changes nothing."""
    shared = ctx.ensure_object(SharedOptions)
    if value is not None:
        setattr(shared, str(param.name), value)
    return value


def _shared_option(*names: str, **more: Any) -> click.Option:
    return click.Option(list(names), expose_value=False, callback=_store_value, default=None, **more)


STORE = _shared_option(
    "--store",
    "store_url",
    metavar="URL",
    help="Store of the sessions: a folder, or a URL such as sqlite:FILE. [default: $WAKELOG_STORE, else as configured]",
)
COLOR = _shared_option(
    "--color", type=click.Choice(["auto", "always", "never"]), help="When to use colour. [default: auto]"
)
PAGER = _shared_option("--pager/--no-pager", is_flag=True, help="Whether to page long output on a terminal.")
JSON = _shared_option("--json", is_flag=True, flag_value=True, help="Print JSON.")


def _show_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001
    if value and not ctx.resilient_parsing:
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


# The help option that click creates looks for translations on disk at every start.
HELP = click.Option(
    ["-h", "--help"], is_flag=True, is_eager=True, expose_value=False, callback=_show_help, help="Show this help."
)


class Command(click.Command):
    """A command with a help text that begins with examples."""

    def __init__(self, *args: Any, examples: str = "", shared: tuple[click.Option, ...] = (), **more: Any) -> None:
        super().__init__(*args, **{**more, "add_help_option": False})
        self.examples = examples
        self.params += [*shared, STORE, COLOR, HELP]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; a usage error gets this command's context, so that the hint names the command."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; then warn of files that other users own or may write to, unless that was its error."""
        read = load("wakelog.app.stores").track_stores()
        try:
            answer = super().invoke(ctx)
        except (Untrusted, UsageError):
            raise
        except BaseException:
            read.warn_once()
            raise
        read.warn_once()
        return answer

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, usage, description and options."""
        with formatter.section("Examples"):
            for line in self.examples.strip().splitlines():
                formatter.write(f"  {line.strip()}\n")
        formatter.write_paragraph()
        super().format_help(ctx, formatter)


def command(
    name: str, *, examples: str, json: bool = True, paged: bool = False
) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a command of a function with `SharedOptions` and its own options as parameters."""
    shared = (*((JSON,) if json else ()), *((PAGER,) if paged else ()))

    def make(function: Callable[..., Any]) -> Command:
        made = click.command(name, cls=Command, examples=examples, shared=shared)(click.pass_obj(function))
        assert isinstance(made, Command)
        return made

    return make


def session_argument(function: _Function) -> _Function:
    """Add the argument SESSION."""
    return click.argument("session", metavar="SESSION", shell_complete=_complete_session)(function)


def optional_session_argument(function: _Function) -> _Function:
    """Add the optional argument SESSION, for a command that may also apply to all sessions."""
    return click.argument("session", required=False, metavar="[SESSION]", shell_complete=_complete_session)(function)


def sessions_argument(function: _Function) -> _Function:
    """Add the argument for any number of sessions, for a command that may also apply to all."""
    return click.argument("sessions", nargs=-1, metavar="[SESSION]...", shell_complete=_complete_session)(function)


def session_option(function: _Function) -> _Function:
    """Add the option `--session`, for a command that creates a session without it."""
    return click.option(
        "-s",
        "--session",
        metavar="SESSION",
        shell_complete=_complete_session,
        help="Continue this session. [default: create one]",
    )(function)


def at_option(function: _Function) -> _Function:
    """Add the option `--at` for the entry at the end of a branch."""
    return click.option("--at", metavar="ENTRY", help="The branch that ends at this entry. [default: the head]")(
        function
    )


def _complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    shared = ctx.ensure_object(SharedOptions)
    names: list[str] = load("wakelog.app.stores").session_names(shared.store_url, incomplete)
    return names
