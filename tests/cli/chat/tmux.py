"""A chat in a real terminal: tmux, which keeps a screen and a scroll-back, answers, resizes and pastes.

The screen of tmux is what a person sees, and a control sequence that reached it would have had its effect. Nothing here
sleeps: the output of the program also goes to a pipe, and the screen is read again when something has arrived.
"""

import json
import os
import select
import shlex
import subprocess
import time

from tests.patience import PATIENCE_S

_SETTINGS = """\
set -g history-limit 50000
set -g default-terminal tmux-256color
set -g status off
set -s escape-time 0
set -s set-clipboard on
set -g allow-passthrough on
"""


class Pane:
    """One program on a terminal of its own."""

    def __init__(self, folder, command, environment, columns=80, rows=24, store=None, ahead=()):
        self._store = store
        self._socket = str(folder / "t")
        settings = folder / "tmux.conf"
        settings.write_text(_SETTINGS)
        self._environment = {**environment, "TERM": "xterm-256color"}
        self._pipe = str(folder / "pipe")
        os.mkfifo(self._pipe)
        # Both ends are open here, so that neither opening it nor the end of the program can block.
        self._news = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK)
        self.raw = bytearray()
        program = f'tmux -S {self._socket} wait-for go; {shlex.join(command)}; echo "[exit $?]"; exec cat'
        self._tmux("-f", str(settings), "new-session", "-d", "-x", str(columns), "-y", str(rows), program)
        self._tmux("pipe-pane", "-O", f"exec cat > {shlex.quote(self._pipe)}")
        if ahead:
            # Typed before the program reads: the terminal itself echoes and edits it.
            self.press(*ahead)
        self._tmux("wait-for", "-S", "go")

    def _tmux(self, *words, given=None):
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words],
            input=given,
            capture_output=True,
            text=True,
            env=self._environment,
            check=True,
            timeout=PATIENCE_S,
        )
        return done.stdout

    # ── seeing ───────────────────────────────────────────────────────────────────────────────────

    def screen(self, *, colours=False):
        """Return the text on the screen."""
        return self._tmux("capture-pane", "-p", *(["-e"] if colours else [])).rstrip("\n")

    def scrolled(self):
        """Return the screen and everything that was scrolled out of it, with wrapped lines joined."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-").rstrip("\n")

    def told(self, what):
        """Return what tmux knows of the pane, such as its title."""
        return self._tmux("display-message", "-p", f"#{{{what}}}").strip()

    def copied(self):
        """Return how many texts have been put on the clipboard."""
        return len(self._tmux("list-buffers").splitlines())

    def expect(self, *words):
        """Wait until all these texts are on the screen or above it."""
        return self.until(lambda seen: all(word in seen for word in words), words)

    def rests(self, seen):
        """Return whether the agent is idle: the status says so, and so does the log (a frame may be half drawn)."""
        last = seen.splitlines()[-1]
        log = self._store / f"{last.split(' ')[0]}.jsonl"
        if "working" in last or not log.exists():
            return False
        entry = json.loads(log.read_bytes().splitlines()[-1])
        return entry["type"] != "activity" or entry.get("event") == "left"

    def until(self, holds, what="what was waited for"):
        """Wait until the screen, with the text above it, is as it should be."""
        # A spinner changes the screen for ever: the limit is for the whole wait.
        end = time.monotonic() + PATIENCE_S
        while not holds(seen := self.scrolled()):
            assert self._take(end - time.monotonic()), f"never came: {what!r}; this did:\n{seen}"
        return seen

    def written(self, *wanted):
        """All bytes that the program has written, once these are among them: the pipe may lag behind the screen."""
        end = time.monotonic() + PATIENCE_S
        while not all(each in self.raw for each in wanted):
            assert self._take(end - time.monotonic()), f"never written: {wanted!r}; this was:\n{bytes(self.raw)!r}"
        return bytes(self.raw)

    def _take(self, patience_s):
        if patience_s <= 0 or not select.select([self._news], [], [], patience_s)[0]:
            return False
        self.raw += os.read(self._news, 1 << 20)
        return True

    # ── typing ───────────────────────────────────────────────────────────────────────────────────

    def type(self, text):
        """Type a text."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys):
        """Press keys by their tmux names: Enter, Escape, C-c, M-Enter."""
        self._tmux("send-keys", *keys)

    def say(self, text):
        """Type a text and send it."""
        self.type(text)
        self.press("Enter")

    def paste(self, text):
        """Paste a text, as a terminal with bracketed paste does."""
        self._tmux("load-buffer", "-b", "given", "-", given=text)
        self._tmux("paste-buffer", "-d", "-p", "-r", "-b", "given")

    def resize(self, columns, rows=24):
        """Make the terminal larger or smaller."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    # ── the program ──────────────────────────────────────────────────────────────────────────────

    def pid(self, name="wakelog"):
        """Return the process of the program, a child of the shell that the pane runs."""
        shell = self.told("pane_pid")
        with open(f"/proc/{shell}/task/{shell}/children") as file:
            return int(file.read().split()[0])

    def ended(self, code=0):
        """Wait for the program to end."""
        return self.expect(f"[exit {code}]")

    def close(self):
        """End everything in the pane."""
        subprocess.run(
            ["tmux", "-S", self._socket, "kill-server"], capture_output=True, env=self._environment, check=False
        )
        os.close(self._news)
