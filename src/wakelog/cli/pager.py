"""A pager for a terminal: `$WAKELOG_PAGER`, `$PAGER` or `less`, and plain output where none can be run.

`less` is asked to keep colours, to leave short output alone and not to clear the screen. It gets text
that `safe` has been over, so there is nothing in it that a pager would have to hold back.
"""

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable


def page(pieces: Iterable[str]) -> bool:
    """Shows pieces of text one screen at a time. Where there is no pager nothing is taken, and the answer is no."""
    pager = _started()
    if pager is None or pager.stdin is None:
        return False
    try:
        # The reader may leave early; then the rest is of no interest.
        with contextlib.suppress(BrokenPipeError), pager.stdin as feed:
            for piece in pieces:
                feed.write(piece.encode(errors="backslashreplace"))
    finally:
        _wait(pager)
    return True


def _started() -> "subprocess.Popen[bytes] | None":
    words = shlex.split(os.environ.get("WAKELOG_PAGER") or os.environ.get("PAGER") or "less")
    if not words or words == ["cat"]:
        return None
    sys.stdout.flush()
    try:
        return subprocess.Popen(words, stdin=subprocess.PIPE, env={"LESS": "FRX", **os.environ})  # noqa: S603
    except OSError:
        return None


def _wait(pager: "subprocess.Popen[bytes]") -> None:
    """An interrupt is for the pager to handle: this process waits until it is gone."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            pager.wait()
            return
