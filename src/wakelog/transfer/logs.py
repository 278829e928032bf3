"""One log, from one store to another: read here, compared with what is there, sent, and read back.

Rule 1: what stands at the target is the beginning of the source's log, or it is a `Conflict` and stays as it is.
Rule 2: bytes go over in runs that end where lines end, so that a copy that dies leaves whole lines. It need not: one
that goes on begins at the byte where the target ends, wherever in a line that is.
Rule 3: a log goes over as far as it went when it was first read, and no further.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator

from wakelog.errors import BadId, Conflict, Damaged, NotFound, StoreError
from wakelog.log.lines import Line, Reader
from wakelog.log.needs import Needs
from wakelog.ports import Store
from wakelog.transfer.copy_state import Seen, Unreadable
from wakelog.transfer.meter import Meter

_RUN_BYTES = 4 * 1024 * 1024
_TRIES_MAX = 1_000


class LogCopy:
    """From the logs of one store to those of another."""

    def __init__(self, source: Store, target: Store, meter: Meter) -> None:
        self._source = source
        self._target = target
        self._meter = meter
        # To find out that a session is not there may take a store long: where there was none, it need not look.
        self._was_empty = next(iter(target.sessions()), None) is None

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def lines(self, name: str) -> Iterator[Line]:
        """The lines of the source. What goes wrong with them is this session's trouble only."""
        with _troubles_of_its_own():
            yield from self._source.load(name)

    def see(self, session: str, name: str, *, needed_by: str | None) -> Seen:
        """Reads a log, and beside it what the target has of it. What went on there, and not here, is a `Conflict`."""
        with _troubles_of_its_own():
            found = self._source.name(name)
        if found != name:
            raise Unreadable(StoreError(f"{name} is the id of another session, so its log cannot be told apart"))
        before = -1
        while True:
            beside = _Beside(self._target, session, name, None if self._was_empty else name_in(self._target, session))
            seen = self._read(session, name, needed_by, beside)
            if not beside.goes_on:
                return seen
            if seen.size == before:
                raise Conflict(f"{name} went on in the other store", hint="copy it from there, or leave it there")
            # Another copy may have been quicker with what was added here meanwhile: that is seen by looking again.
            before = seen.size

    def _read(self, session: str, name: str, needed_by: str | None, beside: "_Beside") -> Seen:
        digest, needs, reader = hashlib.sha256(), Needs(), Reader()
        for line in self.lines(name):
            raw = line.bytes
            beside.take(raw)
            digest.update(raw)
            needs.take(line)
            reader.feed(line)
            self._meter.step(name, len(raw))
        with _troubles_of_its_own():
            journals = len(self._source.journals(name))
        return Seen(
            id=session,
            name=name,
            size=needs.size,
            digest=f"sha256:{digest.hexdigest()}",
            needs=needs,
            journals=journals,
            needed_by=needed_by,
            there=beside.size,
            to=beside.name,
            damage=tuple(reader.damage),
        )

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def send(self, seen: Seen) -> None:
        """Adds what is missing, and reads the whole back. If somebody else was quicker, it is looked at again."""
        at = seen.there
        for _ in range(_TRIES_MAX):
            try:
                at = self._send_from(seen, at)
                break
            except Conflict:
                stood, at = at, self._look_again(seen)
                if at == stood:
                    raise
        self._check(seen)

    def _send_from(self, seen: Seen, at: int) -> int:
        for run in self._runs(seen, at):
            seen.to = self._target.adopt(seen.id, seen.name, run, size=at)
            at += len(run)
            self._meter.step(seen.name, len(run))
        return at

    def _runs(self, seen: Seen, start: int) -> Iterator[bytes]:
        """The bytes from `start` to where the log ended when it was seen, cut where lines end."""
        held: list[bytes] = []
        size = at = 0
        for line in self.lines(seen.name):
            raw = line.bytes
            held.append(raw[max(0, start - at) : max(0, seen.size - at)])
            at, size = at + len(raw), size + len(held[-1])
            # A line that is too long to be held comes in slices, and may go over in them.
            if size >= _RUN_BYTES and (line.ended or not line.whole):
                run, held, size = b"".join(held), [], 0
                yield run
            if at >= seen.size:
                break
        if size or not seen.size:
            yield b"".join(held)

    def _look_again(self, seen: Seen) -> int:
        """How far the target has come by now, if that is still the beginning of what was seen."""
        beside = _Beside(self._target, seen.id, seen.name, name_in(self._target, seen.id))
        seen.to = beside.name
        for raw in _first_bytes(self.lines(seen.name), seen.size):
            beside.take(raw)
        return beside.size

    def _check(self, seen: Seen) -> None:
        digest = hashlib.sha256()
        for raw in _first_bytes(self._target.load(seen.id), seen.size):
            digest.update(raw)
            self._meter.step(seen.name, len(raw))
        found = f"sha256:{digest.hexdigest()}"
        if found != seen.digest:
            message = f"{seen.name} is not the same in the other store: {seen.digest} here, {found} there"
            raise Damaged(message, hint="`wakelog verify` says more on either side")


class _Beside:
    """A log at the target, read beside the source's: as far as it goes it must be the same."""

    def __init__(self, target: Store, session: str, called: str, name: str | None) -> None:
        self.name = name
        self.size = 0
        self._called = called
        self._lines = target.load(session) if self.name is not None else iter(())
        self._rest = b""

    def take(self, raw: bytes) -> None:
        """The next bytes of the source; `Conflict` if the target has others."""
        self._fill(len(raw))
        theirs, self._rest = self._rest[: len(raw)], self._rest[len(raw) :]
        if not raw.startswith(theirs):
            message = f"{self._called} is another log in the other store: they part behind byte {self.size:,}"
            raise Conflict(message, hint="leave it there, or copy this one to a store of its own")
        self.size += len(theirs)

    @property
    def goes_on(self) -> bool:
        """Whether the target has more than the source had."""
        self._fill(1)
        return bool(self._rest)

    def _fill(self, count: int) -> None:
        while len(self._rest) < count and (line := next(self._lines, None)) is not None:
            self._rest += line.bytes


@contextlib.contextmanager
def _troubles_of_its_own() -> Iterator[None]:
    """What the source cannot do for one session, it may well do for the others."""
    try:
        yield
    except StoreError as error:
        raise Unreadable(error) from error


def name_in(store: Store, session: str) -> str | None:
    """The name of a session in a store; None if it is not there."""
    try:
        return store.name(session)
    except (NotFound, BadId):
        return None


def _first_bytes(lines: Iterable[Line], size: int) -> Iterator[bytes]:
    """The first bytes of a log, line by line."""
    for line in lines:
        yield line.bytes[:size]
        size -= len(line.bytes)
        if size <= 0:
            return
