"""A chat in a real terminal: tmux, which keeps a screen and a scroll-back, answers, resizes and pastes as others do.

tmux is the judge because it is nobody's stub: what it shows is what a person sees, and a command that reached it would
have had its effect. Nothing here sleeps: whatever the program writes also comes down a pipe, and the screen is looked
at again when something has come.
"""

import json
import os
import select
import shlex
import subprocess
import time

LIMIT_S = 600
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
        # Both ends are ours, so that neither opening it nor a program that ends can hold us up.
        self._news = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK)
        self.raw = bytearray()
        program = f'tmux -S {self._socket} wait-for go; {shlex.join(command)}; echo "[exit $?]"; exec cat'
        self._tmux("-f", str(settings), "new-session", "-d", "-x", str(columns), "-y", str(rows), program)
        self._tmux("pipe-pane", "-O", f"exec cat > {shlex.quote(self._pipe)}")
        if ahead:
            # Typed while nobody reads: the terminal itself echoes and edits it.
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
            timeout=LIMIT_S,
        )
        return done.stdout

    # ── seeing ───────────────────────────────────────────────────────────────────────────────────

    def screen(self, *, colours=False):
        """What is on the screen."""
        return self._tmux("capture-pane", "-p", *(["-e"] if colours else [])).rstrip("\n")

    def scrolled(self):
        """The screen and everything that was scrolled out of it, lines that were wrapped joined again."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-").rstrip("\n")

    def told(self, what):
        """What tmux knows of the pane: its title, say."""
        return self._tmux("display-message", "-p", f"#{{{what}}}").strip()

    def copied(self):
        """How many texts have been put on the clipboard."""
        return len(self._tmux("list-buffers").splitlines())

    def expect(self, *words):
        """Waits until all these words are on the screen or above it."""
        return self.until(lambda seen: all(word in seen for word in words), words)

    def rests(self, seen):
        """Whether the agent rests: the status says so, and so does the log (a frame may be seen half drawn)."""
        last = seen.splitlines()[-1]
        log = self._store / f"{last.split(' ')[0]}.jsonl"
        if "working" in last or not log.exists():
            return False
        entry = json.loads(log.read_bytes().splitlines()[-1])
        return entry["type"] != "activity" or entry.get("event") == "left"

    def until(self, holds, what="what was waited for"):
        """Waits until the screen, with what is above it, is as it should be."""
        # Something that turns is news for ever: the limit holds for all of it.
        end = time.monotonic() + LIMIT_S
        while not holds(seen := self.scrolled()):
            assert self._take(end - time.monotonic()), f"never came: {what!r}; this did:\n{seen}"
        return seen

    def written(self, *wanted):
        """All bytes that the program has written, once these are among them: the pipe may lag behind the screen."""
        end = time.monotonic() + LIMIT_S
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
        """Types a text."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys):
        """Presses keys by their tmux names: Enter, Escape, C-c, M-Enter."""
        self._tmux("send-keys", *keys)

    def say(self, text):
        """Types a text and sends it."""
        self.type(text)
        self.press("Enter")

    def paste(self, text):
        """Pastes a text, as a terminal does that tells pasting from typing."""
        self._tmux("load-buffer", "-b", "given", "-", given=text)
        self._tmux("paste-buffer", "-d", "-p", "-r", "-b", "given")

    def resize(self, columns, rows=24):
        """Makes the terminal larger or smaller."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    # ── the program ──────────────────────────────────────────────────────────────────────────────

    def pid(self, name="wakelog"):
        """The process of the program, a child of the shell that the pane runs."""
        shell = self.told("pane_pid")
        with open(f"/proc/{shell}/task/{shell}/children") as file:
            return int(file.read().split()[0])

    def ended(self, code=0):
        """Waits for the program to end."""
        return self.expect(f"[exit {code}]")

    def close(self):
        """Ends everything in the pane."""
        subprocess.run(
            ["tmux", "-S", self._socket, "kill-server"], capture_output=True, env=self._environment, check=False
        )
        os.close(self._news)
