"""Draws the pictures of the README: real sessions, shown by the real commands, as SVG without a web font.

.venv/bin/python docs/picture.py        writes docs/tree.svg and docs/chat.svg; the chat runs in tmux
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
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


REPLIES = [
    {
        "text": "Let me see what the test does.",
        "toolCalls": [{"name": "shell", "input": {"command": "grep -n clock test_login.py"}}],
    },
    {
        "text": "`test_login` reads the **real clock**, and fails when a second ends between its two calls:\n\n"
        "- freeze the clock in the fixture, or\n- allow a second of slack.\n\nI would freeze it."
    },
]
TEST = "import time\n\ndef test_login():\n    clock = time.time()\n    assert login().at == int(clock)  # again\n"


def chat(folder: Path) -> str:
    """A chat in which a tool asks for approval, as a terminal shows it."""
    (folder / "replies").write_text("".join(json.dumps(reply) + "\n" for reply in REPLIES))
    (folder / "test_login.py").write_text(TEST)
    places = {f"XDG_{kind}_HOME": str(folder / "home") for kind in ("CACHE", "CONFIG", "DATA")}
    os.environ |= places | {"WAKELOG_STORE": str(folder / "sessions")}

    def tmux(*words: str) -> str:
        command = ["tmux", "-L", f"picture-{os.getpid()}", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout

    def send(text: str, until: str) -> None:
        tmux("send-keys", text, "Enter")
        while until not in tmux("capture-pane", "-p"):
            time.sleep(0.1)

    line = f"{sys.executable} -m wakelog chat --model scripted:replies"
    tmux("new-session", "-d", "-x", str(WIDTH), "-y", "30", line)
    while "Ctrl-D" not in tmux("capture-pane", "-p"):
        time.sleep(0.1)
    send("Why does test_login fail now and then?", "Run it?")
    send("y", "freeze it")
    drawn = tmux("capture-pane", "-e", "-p")
    tmux("kill-server")
    return drawn.replace(str(folder), "~/boat")


def write_picture(name: str, command: str, drawn: str) -> None:
    """Write what a terminal shows as a picture beside this file."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text(f"$ {command}", style="bold"))
        console.print(Text.from_ansi(drawn.rstrip()))
    picture = console.export_svg(title="wakelog", code_format=PLAIN_FORMAT, unique_id="wakelog")
    Path(__file__).with_name(name).write_text(picture, encoding="utf-8")


def main() -> None:
    """Writes the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        write_picture("tree.svg", "wakelog tree crab_me_1", tell(os.path.join(folder, "sessions")))
    with tempfile.TemporaryDirectory() as folder:
        write_picture("chat.svg", "wakelog chat", chat(Path(folder)))


if __name__ == "__main__":
    main()
