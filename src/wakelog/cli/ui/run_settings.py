"""Options with which `run` and `chat` choose the settings of a session, and their values."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from wakelog.app.settings import Overrides
from wakelog.cli.ui.messages import working_folder
from wakelog.config.validation import TOOL_NAMES
from wakelog.errors import UsageError
from wakelog.projections.context import parse_strategy

_Function = TypeVar("_Function", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--model", metavar="PROVIDER:NAME", help="Model to call. [default: the configured one]"),
    click.option("--agent", metavar="NAME", help="Agent of a new session. [default: agent]"),
    click.option("--sender", metavar="NAME", help="Sender of a new session. [default: user]"),
    click.option("--system", metavar="TEXT|@FILE", help="Instructions for the agent."),
    click.option(
        "--tools",
        metavar="NAMES",
        help=f"Tools: names separated by commas, or `none`. [default: {','.join(TOOL_NAMES)}]",
    ),
    click.option("--yes", is_flag=True, help="Run every tool without approval. [default: only read, list and grep]"),
    click.option("--cwd", metavar="DIR", help="Working folder of a new session. [default: the current one]"),
    click.option(
        "--compact-at",
        type=click.IntRange(min=0),
        metavar="TOKENS",
        help="Compact when the context exceeds TOKENS (0 = never).",
    ),
    click.option("--strategy", metavar="HOW", help="What the model sees: full, window:N or budget:TOKENS."),
    click.option(
        "--unknown",
        type=click.Choice(["tell", "ask"]),
        help="If it is unknown whether a tool ran: tell the model, or ask you.",
    ),
    click.option(
        "--reasoning",
        type=click.Choice(["keep", "summary", "drop"]),
        help="How much of the model's reasoning is stored: all, the provider's summaries, or nothing. [default: keep]",
    ),
    click.option(
        "--redact",
        type=click.Choice(["keys", "assignments", "strict", "off"]),
        help="Which secrets are redacted: keys, also random values, also other values, or none. [default: assignments]",
    ),
    click.option(
        "--resume", is_flag=True, help="Continue an interrupted reply, where the model can. [default: request it again]"
    ),
)


def run_settings_options(function: _Function) -> _Function:
    """Add the options that choose the settings of a session, in the order of the help."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


class RunSettings:
    """Values of these options: `overrides` are settings; the others apply to a new session, or to the display."""

    def __init__(self, values: dict[str, object]) -> None:
        def text(key: str) -> str | None:
            value = values[key]
            return value if isinstance(value, str) else None

        compact_at = values["compact_at"]
        self.overrides = Overrides(
            model=text("model"),
            system=_instructions_text(text("system")),
            tools=text("tools"),
            yes=bool(values["yes"]),
            compact_at=compact_at if isinstance(compact_at, int) else None,
            strategy=str(parse_strategy(text("strategy") or "")) if values["strategy"] is not None else None,
            unknown=text("unknown"),
            reasoning=text("reasoning"),
            redact=text("redact"),
            resume=bool(values["resume"]),
        )
        self.agent, self.sender, self.cwd = text("agent"), text("sender"), text("cwd")
        self.steer, self.quiet = bool(values.get("steer")), bool(values.get("quiet"))

    @property
    def folder(self) -> str:
        """Return the working folder of a new session. `UsageError` if it does not exist."""
        cwd = os.path.abspath(self.cwd) if self.cwd is not None else working_folder()
        if not os.path.isdir(cwd):
            what = f"folder {cwd} does not exist" if cwd else "the current folder no longer exists"
            raise UsageError(what, hint="set the working folder with --cwd")
        return cwd


def _instructions_text(text: str | None) -> str | None:
    """Return the instructions; `@FILE` is read from the file."""
    if text is None or not text.startswith("@"):
        return text
    try:
        with open(os.path.expanduser(text[1:]), "rb") as file:
            return file.read().decode()
    except UnicodeDecodeError:
        raise UsageError(f"{text[1:]} is not UTF-8 text", hint="instructions must be UTF-8 text") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read {text[1:]}: {why}", hint="--system takes a text, or @FILE") from None
