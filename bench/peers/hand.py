"""`python -m bench.peers.hand append|read NAME PLACE COUNT`: a process that can be traced, and killed at any moment.

Appending, it prints `open`, waits for the end of its standard input, and then prints `ack N`, in one system call, when
the peer has acknowledged message N. Reading, it prints how many messages there are, or fails if they are not the first
of those that were to be appended.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

from bench.peers.peer import Row, make, row
from bench.peers.work import messages


def append(of: Row, place: str, count: int) -> None:
    peer = make(of)
    peer.open(place)
    texts = messages(count)
    os.write(1, b"open\n")
    sys.stdin.read()
    for number, text in enumerate(texts):
        peer.append(text)
        os.write(1, b"ack %d\n" % number)
    peer.close()


def count_kept(of: Row, place: str, count: int) -> int:
    """Return how many messages a place has; they must be the first of all, in order and each once."""
    peer = make(of)
    peer.open(place)
    found = peer.texts(peer.load())
    peer.close()
    if found != messages(count)[: len(found)]:
        raise AssertionError("what was read back is not what was said")
    return len(found)


def command(act: str, of: Row, place: str, count: int) -> list[str]:
    """Return the command line of such a process."""
    return [sys.executable, "-m", "bench.peers.hand", act, of.name, place, str(count)]


def count_kept_apart(of: Row, place: str, count: int) -> int:
    """Return the same, counted in a process of its own."""
    done = subprocess.run(command("read", of, place, count), check=True, stdout=subprocess.PIPE, text=True)
    return int(done.stdout.split()[-1])


class Writer:
    """A process that appends, from its start until all messages are appended or it is killed."""

    def __init__(self, of: Row, place: str, count: int) -> None:
        self._run = subprocess.Popen(
            command("append", of, place, count),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.acknowledged = 0

    def wait_until_open(self) -> None:
        """Return when the next thing it does is an append."""
        next(self._heard())

    def start(self) -> None:
        """Let it append."""
        self._run.stdin.close()

    def wait_for(self, acknowledged: int) -> None:
        """Return when so many messages are acknowledged."""
        for _ in self._heard():
            if self.acknowledged >= acknowledged:
                return
        raise RuntimeError("the writer ended early")

    def kill(self) -> int:
        """Kill it at once; return how many messages it had acknowledged, up to the last line that it printed."""
        self._run.send_signal(signal.SIGKILL)
        for _ in self._heard():
            pass
        if self._run.stdout is not None:
            self._run.stdout.close()
        self._run.wait()
        return self.acknowledged

    def _heard(self) -> Iterator[str]:
        for line in self._run.stdout or ():
            self.acknowledged += line.startswith("ack ")
            yield line


if __name__ == "__main__":
    _, asked, name, where, number = sys.argv
    if asked == "append":
        append(row(name), where, int(number))
    else:
        print(count_kept(row(name), where, int(number)))
