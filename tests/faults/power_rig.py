"""Power cuts after a refused write: a store on ext4 on a loop device on a file that fails (`failing_disk.py`).

Run as root in a mount namespace of its own: `unshare --mount python -m tests.faults.power_rig STORE FAULT WAY`, and
perhaps `broken` behind that.

    STORE  files, sqlite
    FAULT  once: the n-th write is refused; always: it and all behind it, until the second writer starts;
           data: the same without the journal of the file system, which becomes read-only if that is refused
    WAY    same: the first writer goes on after an error, and a second process after it
           other: the first writer ends at the first error, and a second process goes on
    broken the control: doubts are neither marked nor dealt with

For every n, until a run ends before the n-th write, the session is taken from the same image; two writer processes
append to it, each entry being tried again by its id; whatever was acknowledged must be there after a power cut.
Cuts are taken at the first acknowledgement behind the fault and at the end, each with everything that was written and
with only what was flushed. One line of JSON is printed for each n.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

from tests.faults.fuse_file import NAME
from tests.faults.processes import command, environment
from tests.patience import PATIENCE_S
from tests.stores.faults.logs import Kept, last_seq, make, standing, stands
from wakelog.errors import WakelogError
from wakelog.log.content import BlobRef
from wakelog.ports.stores import Store
from wakelog.stores import load, open_store

SIZE = 12 * 1024 * 1024
ENTRIES = 4
TRIES = 3
RUNS_MAX = 400
_SESSION = "s"


# ── the disk ─────────────────────────────────────────────────────────────────────────────────────


class Rig:
    """A failing disk, and the folders that it and copies of it are mounted on."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.disk, self.mount, self.copy = (self._made(name) for name in ("fuse", "mount", "copy"))
        words = command(self.disk, str(SIZE), module="tests.faults.failing_disk")
        pipe = subprocess.PIPE
        self._daemon = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=environment())
        assert self._daemon.stdout is not None
        assert self._daemon.stdout.readline() == "ready\n"

    def _made(self, name: str) -> str:
        os.mkdir(path := os.path.join(self.folder, name))
        return path

    def tell(self, line: str) -> str:
        assert self._daemon.stdin is not None
        assert self._daemon.stdout is not None
        self._daemon.stdin.write(line + "\n")
        self._daemon.stdin.flush()
        return self._daemon.stdout.readline().strip()

    def counts(self) -> tuple[int, int]:
        writes, refused = self.tell("counts").split()
        return int(writes), int(refused)

    @contextlib.contextmanager
    def mounted(self) -> Iterator[str]:
        with _mounted(os.path.join(self.disk, NAME), self.mount):
            yield self.mount

    def close(self) -> None:
        self._daemon.kill()
        self._daemon.wait()
        _run("umount", self.disk)


@contextlib.contextmanager
def _mounted(image: str, folder: str) -> Iterator[None]:
    # The loop device is released with the mount, and the mount with this namespace.
    _run("mount", "-t", "ext4", "-o", "loop,noatime,errors=continue", image, folder)
    try:
        yield
    finally:
        _run("umount", folder)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}"


def formatted(image: str) -> None:
    with open(image, "wb") as file:
        file.truncate(SIZE)
    options = ("-b", "4096", "-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard")
    _run("mkfs.ext4", "-q", "-F", *options, image)


def journal_of(image: str) -> tuple[int, int]:
    """The first and last byte of the file system's journal in an image."""
    words = ["debugfs", "-R", "blocks <8>", image]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    blocks = sorted(map(int, done.stdout.split()))
    return blocks[0] * 4096, (blocks[-1] + 1) * 4096


# ── the store ────────────────────────────────────────────────────────────────────────────────────


def url_on(folder: str, store: str) -> str:
    path = os.path.join(folder, "store")
    return path if store == "files" else f"sqlite:{path}.db"


def body(entry: str) -> bytes:
    """An entry longer than a page, so that no page is rewritten by chance together with the next entry."""
    said = b'{"role":"user","content":[{"type":"text","text":"%s"}]}' % (entry.encode() * (6000 // len(entry)))
    return b'{"type":"message","id":"%s","parentId":"s","message":%s}' % (entry.encode(), said)


class Failed(Exception):
    """The error of a writer that ends at its first error."""


class Writer:
    """A process that appends entries with and without a sync, and puts blobs; each is retried after an error."""

    def __init__(self, url: str, label: str, *, stops: bool, tell: Callable[[str], None]) -> None:
        self.store = open_store(url)
        self.label, self.stops, self.tell = label, stops, tell

    def write(self) -> None:
        with contextlib.suppress(Failed):
            for number in range(ENTRIES):
                self.append(f"{self.label}{number}u", is_durable=False)
                self.append(f"{self.label}{number}d", is_durable=True)
                self.put(f"{self.label}{number}".encode() * 3000)
        self.store.close()

    def append(self, entry: str, *, is_durable: bool) -> None:
        for _ in range(TRIES):
            with self.trying():
                after = _before(self.store, entry)
                sealed = self.store.append(_SESSION, body(entry), after=after, durable=is_durable)
                self.tell(f"{'kept' if is_durable else 'written'} {entry} {sealed.seq}")
                return

    def put(self, content: bytes) -> None:
        for _ in range(TRIES):
            with self.trying():
                ref = self.store.blobs.put(content)
                self.tell(f"blob {ref.digest} {ref.bytes}")
                return

    @contextlib.contextmanager
    def trying(self) -> Iterator[None]:
        try:
            yield
        except WakelogError as error:
            self.tell(f"failed {type(error).__name__} {error}")
            if self.stops:
                raise Failed from error


def _before(store: Store, entry: str) -> int:
    """The position that an attempt names: the end of the log, or before the entry of an earlier attempt."""
    return last_seq(store, _SESSION) - stands(store, _SESSION, entry)


class Run:
    """One n: what was acknowledged to the writers, and what was left after the cuts."""

    def __init__(self, rig: Rig, store: str) -> None:
        self.rig, self.store = rig, store
        self.kept: list[Kept] = []
        self.blobs: list[BlobRef] = []
        self.failures: list[str] = []
        self.lost: list[str] = []
        self.cuts = 0

    def hear(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "kept":
            entry, seq = rest.split()
            self.kept.append((entry, int(seq)))
            if self.cuts == 0 and self.rig.counts()[1]:
                self.cut("first")
        elif word == "blob":
            digest, size = rest.split()
            self.blobs.append(BlobRef(digest=digest, bytes=int(size)))
        elif word == "failed":
            self.failures.append(rest)

    def cut(self, when: str) -> None:
        """Check what a power cut would leave now. The writers wait meanwhile."""
        for which in ("all", "flushed"):
            image = os.path.join(self.rig.folder, "cut")
            self.rig.tell(f"save {image} {which}")
            self.cuts += 1
            with _mounted(image, self.rig.copy):
                self.lost += [f"{when}, {which}: {missing}" for missing in self._missing()]

    def _missing(self) -> list[str]:
        """What a process that opens the store after the cut finds missing."""
        found: list[str] = []

        def tell_each(tell: Callable[[str], None]) -> None:
            for missing in self._looked_for():
                tell(missing)

        _in_child(tell_each, found.append)
        return found

    def _looked_for(self) -> Iterator[str]:
        url = url_on(self.rig.copy, self.store)
        try:
            found = standing(url, _SESSION, body=body)
        except (WakelogError, AssertionError) as error:
            yield f"the log is damaged: {error!r}"
            return
        yield from (entry for entry, seq in self.kept if (entry, seq) not in found)
        blobs = open_store(url).blobs
        for ref in self.blobs:
            try:
                blobs.get(ref)
            except WakelogError as error:
                yield f"a blob: {error}"


def _in_child(does: Callable[[Callable[[str], None]], object], hear: Callable[[str], None]) -> None:
    """Run a function in a process of its own, which waits after each reported line until the line was received."""
    (lines_in, lines_out), (received_in, received_out) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(lines_in)
        os.close(received_out)
        status = 1
        try:
            does(lambda line: _report(line, lines_out, received_in))
            status = 0
        finally:
            os._exit(status)
    os.close(lines_out)
    os.close(received_in)
    try:
        with open(lines_in, encoding="utf-8") as lines:
            for line in lines:
                hear(line.strip())
                os.write(received_out, b".")
    finally:
        os.close(received_out)
        _, status = os.waitpid(child, 0)
    assert status == 0, f"a child ended with {status}"


def _report(line: str, lines_out: int, received_in: int) -> None:
    os.write(lines_out, line.encode() + b"\n")
    if not os.read(received_in, 1):
        os._exit(2)


# ── the runs ─────────────────────────────────────────────────────────────────────────────────────


def one_run(rig: Rig, base: str, number: int, store: str, fault: str, way: str) -> dict[str, object]:
    rig.tell(f"load {base}")
    run = Run(rig, store)
    with rig.mounted() as folder:
        rig.tell(f"refuse {number} {fault}")
        url = url_on(folder, store)
        _in_child(lambda tell: Writer(url, "a", stops=way == "other", tell=tell).write(), run.hear)
        if fault != "once":
            rig.tell("heal")
        before = len(run.kept)
        _in_child(lambda tell: Writer(url, "b", stops=False, tell=tell).write(), run.hear)
        run.cut("end")
        refused = rig.counts()[1]
        rig.tell("heal")
        read_only = _is_read_only(folder)
    later = len(run.kept) - before
    figures = {"kept": len(run.kept), "later": later, "cuts": run.cuts, "failures": run.failures, "lost": run.lost}
    return {"n": number, "refused": refused, "read_only": read_only, **figures}


def _is_read_only(folder: str) -> bool:
    """Whether the file system became read-only after the fault, as ext4 does when its journal cannot be written."""
    try:
        os.mkdir(probe := os.path.join(folder, "probe"))
    except OSError:
        return True
    os.rmdir(probe)
    return False


def without_the_fix() -> None:
    """Control: no bytes are ever marked as in doubt."""
    for module in ("jsonl.open_logs", "sqlite.file", "sqlite.wal"):
        named = load(f"wakelog.stores.{module}")
        for name in {"mark", "doubt_of"} & set(vars(named)):
            setattr(named, name, lambda *_: None)


def main(store: str, fault: str, way: str, *broken: str) -> None:
    if broken:
        without_the_fix()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        rig = Rig(folder)
        try:
            base = os.path.join(folder, "base")
            formatted(base)
            rig.tell("spare {} {}".format(*journal_of(base)))
            with _mounted(base, rig.copy):
                made = open_store(url_on(rig.copy, store))
                make(made, _SESSION)
                made.close()
            for number in range(1, RUNS_MAX):
                done = one_run(rig, base, number, store, fault, way)
                print(json.dumps(done), flush=True)
                if not done["refused"]:
                    return
            raise AssertionError("the runs never ended before the fault")
        finally:
            rig.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
