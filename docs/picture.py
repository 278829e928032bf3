"""Draws the picture of the README: a real session, shown by the real command, as an SVG without a web font.

.venv/bin/python docs/picture.py        writes docs/tree.svg
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

WIDTH = 96
# The template asks a host for a font; the picture uses the reader's own instead.
PLAIN_FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*|<!--.*?-->\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code", "ui-monospace, Menlo, Consolas"
)


def wakelog(store: str, *words: str) -> str:
    """Runs one command on a store and gives what it printed."""
    places = {"WAKELOG_STORE": store, "XDG_CACHE_HOME": store + "-cache", "COLUMNS": str(WIDTH)}
    command = [sys.executable, "-m", "wakelog", *words]
    return subprocess.run(command, env=os.environ | places, capture_output=True, text=True, check=True).stdout


def tell(store: str) -> str:
    """A short session with a way not taken, and what `tree` shows of it."""
    wakelog(store, "new", "--agent", "crab", "--sender", "me", "--title", "The flaky login test")

    def say(text: str, role: str = "user") -> None:
        wakelog(store, "append", "@latest", "--role", role, text)

    say("test_login fails now and then. Why?")
    say("It reads the clock. Freeze the clock, or allow some slack.", "assistant")
    say("Freeze the clock.")
    say("Done: the clock is frozen, and all 42 tests pass.", "assistant")
    wakelog(store, "label", "@latest", "2", "two ways")
    wakelog(store, "fork", "@latest", "--at", "2")
    say("Allow a second of slack instead.")
    say("Done: a second of slack. 41 tests pass, one is skipped.", "assistant")
    wakelog(store, "compact", "@latest", "--summary", "The flaky test now allows a second of slack.")
    say("Why is one skipped?")
    return wakelog(store, "tree", "@latest", "--color", "always")


def main() -> None:
    """Writes the picture."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = tell(os.path.join(folder, "sessions"))
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text("$ wakelog tree crab_me_1", style="bold"))
        console.print(Text.from_ansi(drawn.rstrip("\n")))
    picture = console.export_svg(title="wakelog", code_format=PLAIN_FORMAT, unique_id="wakelog")
    Path(__file__).with_name("tree.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
