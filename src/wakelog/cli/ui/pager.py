"""Pager for terminals: `$WAKELOG_PAGER`, `$PAGER` or `less`; plain output if none can be run.

`less` keeps colours, exits at once on short output and does not clear the screen. Its input has passed through
`safe_text`, so the pager does not have to filter it.
"""

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable


def page(pieces: Iterable[str]) -> bool:
    """Show pieces of text in a pager. Return False, with nothing consumed, if there is no pager."""
    pager = _start_pager()
    if pager is None or pager.stdin is None:
        return False
    try:
        # The user may quit early; the rest is then dropped.
        with contextlib.suppress(BrokenPipeError), pager.stdin as feed:
            for piece in pieces:
                feed.write(piece.encode(errors="backslashreplace"))
    finally:
        _wait(pager)
    return True


def _start_pager() -> "subprocess.Popen[bytes] | None":
    words = shlex.split(os.environ.get("WAKELOG_PAGER") or os.environ.get("PAGER") or "less")
    if not words or words == ["cat"]:
        return None
    sys.stdout.flush()
    try:
        return subprocess.Popen(words, stdin=subprocess.PIPE, env={"LESS": "FRX", **os.environ})  # noqa: S603
    except OSError:
        return None


def _wait(pager: "subprocess.Popen[bytes]") -> None:
    """Wait until the pager ends; it handles Ctrl-C itself."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            pager.wait()
            return
