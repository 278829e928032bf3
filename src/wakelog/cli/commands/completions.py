"""Command `completions`: print a shell completion script for commands, options and session names.

The script runs `wakelog` for its candidates; session names come from the index.
"""

import click
from click.shell_completion import get_completion_class

from wakelog.cli.ui.options import SharedOptions, command
from wakelog.cli.ui.output import put
from wakelog.errors import UsageError

_VARIABLE = "_WAKELOG_COMPLETE"


@command(
    "completions",
    examples="""
    wakelog completions bash > ~/.local/share/bash-completion/completions/wakelog
    wakelog completions zsh > ~/.zfunc/_wakelog
    wakelog completions fish > ~/.config/fish/completions/wakelog.fish
    """,
    json=False,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completions(ctx: click.Context, shared: SharedOptions, shell: str) -> None:  # noqa: ARG001
    """Print a shell completion script for commands, options and session names."""
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"no completion for {shell}")
    root = ctx.find_root()
    put(kind(root.command, {}, "wakelog", _VARIABLE).source())
