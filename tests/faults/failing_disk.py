"""A disk that refuses the n-th write and records its contents. Run as `python -m tests.faults.failing_disk FOLDER`.

It serves FOLDER/disk over FUSE, and takes commands on its standard input, one line each, answered by one line:

    load IMAGE          holds these bytes and no others; counts from 0; refuses nothing
    refuse N once       refuses the N-th write from now with EIO, and no other
    refuse N always     refuses the N-th write from now and all behind it
    refuse N data       the same, leaving out the spared bytes: they are neither refused nor counted
    spare START END     the bytes that are spared
    heal                refuses nothing any more
    counts              answers `WRITES REFUSED`
    save IMAGE all      writes down the bytes that a power cut leaves if all that was written reached the medium
    save IMAGE flushed  the same if only what was flushed did
"""

import errno
import os
import select
import sys

from tests.faults.fuse_file import answer_one, mounted

_NEVER = 1 << 62


class FailingDisk:
    """See the module docstring. Reads return `written`; `flushed` is updated at each flush."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.spared = range(0)
        self.load(bytes(size))

    def load(self, content: bytes) -> None:
        assert len(content) == self.size
        self.written, self.flushed = bytearray(content), bytearray(content)
        self.unflushed: list[tuple[int, bytes]] = []
        self.writes = self.refused = 0
        self.heal()

    def refuse(self, number: int, how: str) -> None:
        self.first = self.writes + number
        self.last = self.first if how == "once" else _NEVER
        self.sparing = how == "data"

    def heal(self) -> None:
        self.first = self.last = _NEVER
        self.sparing = False

    def read(self, offset: int, count: int) -> bytes:
        return bytes(self.written[offset : offset + count])

    def write(self, offset: int, content: bytes) -> None:
        if not (self.sparing and offset in self.spared):
            self.writes += 1
            if self.first <= self.writes <= self.last:
                self.refused += 1
                raise OSError(errno.EIO, "refused")
        self.written[offset : offset + len(content)] = content
        self.unflushed.append((offset, content))

    def flush(self) -> None:
        for offset, content in self.unflushed:
            self.flushed[offset : offset + len(content)] = content
        self.unflushed.clear()


def obey(disk: FailingDisk, line: str) -> str:
    match line.split():
        case ["load", path]:
            with open(path, "rb") as file:
                disk.load(file.read())
        case ["refuse", number, how]:
            disk.refuse(int(number), how)
        case ["spare", start, end]:
            disk.spared = range(int(start), int(end))
        case ["heal"]:
            disk.heal()
        case ["counts"]:
            return f"{disk.writes} {disk.refused}"
        case ["save", path, which]:
            with open(path, "wb") as file:
                file.write(disk.written if which == "all" else disk.flushed)
        case _:
            raise AssertionError(line)
    return "done"


def main(folder: str, size: str) -> None:
    disk, fuse = FailingDisk(int(size)), mounted(folder)
    os.write(1, b"ready\n")
    commands = b""
    while True:
        ready, _, _ = select.select([0, fuse], [], [])
        if fuse in ready:
            answer_one(fuse, disk)
        if 0 in ready:
            more = os.read(0, 4096)
            if not more:
                return
            *lines, commands = (commands + more).split(b"\n")
            for line in lines:
                os.write(1, obey(disk, line.decode()).encode() + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
