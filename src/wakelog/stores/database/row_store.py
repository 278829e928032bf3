"""Row store: implements `ports.Store` over the rows of a database. `StoreTables` is what differs between databases.

Rule 1: the database decides. The cached end of a log only saves a query: an append names the size that it expects, and
if the log has another size, the end is read again.
Rule 2: a cached end is removed while an append is in progress and stored again when the database has accepted the
append. So a failed append, or one with an unknown outcome, leaves no wrong end behind.
Rule 3: durable appends of several threads share a transaction (`group_commit.py`). One that was refused in a group, or
whose group failed, is tried again by itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from wakelog.errors import BadId, Conflict, LeaseLost, NotFound, WakelogError
from wakelog.log.ids import checked_id, is_id
from wakelog.log.integrity import LogEnd, can_append_after, find_appended
from wakelog.log.lines import Line, lines_after, split_lines, split_lines_backwards
from wakelog.log.retry_limit import RetryLimit
from wakelog.log.seal import find_seal, find_seq, unseal
from wakelog.log.session_names import checked_name, is_name, name_stem, split_name
from wakelog.ports.stores import (
    Blobs,
    Exposure,
    FirstLine,
    FollowResult,
    Lease,
    SealedLine,
    SessionStat,
    StopSignal,
)
from wakelog.stores.database.journal_cursor import JournalCursor, JournalPieces
from wakelog.stores.database.tables import (
    Addition,
    AppendRequest,
    Draft,
    LeaseRow,
    Row,
    SessionRef,
    StoredRow,
    StoreTables,
    make_first_rows,
    split_rows,
)
from wakelog.stores.followers import Followers
from wakelog.stores.group_commit import GroupCommit, GroupFailed
from wakelog.stores.process_identity import this_process
from wakelog.stores.session_numbers import NUMBERS_MAX, last_old_number

# The first page is small, because most readers need only the first line of a log, or its last few.
_FIRST_PAGE_BYTES = 64 * 1024
_PAGE_BYTES_MAX = 4 * 1024 * 1024


class RowStore:
    """Sessions as rows of a database."""

    def __init__(self, tables: StoreTables) -> None:
        self._tables = tables
        self._known: dict[str, SessionRef] = {}
        self._ends: dict[str, LogEnd] = {}
        self._commits: GroupCommit[Addition, bool] = GroupCommit()
        self._journals = JournalCursor(tables)
        self._followers = Followers()

    # ── creating and finding ─────────────────────────────────────────────────────────────────────

    def create(
        self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes], more: Sequence[bytes] = ()
    ) -> str:
        """See `ports.Store`."""
        known = self._tables.known(checked_id(session))
        if known is not None and known.id == session:
            return known.name
        stem = name_stem(agent, sender)
        last = self._tables.last_number(stem) or last_old_number(self.first_lines, agent, sender)
        name, _ = self._create_numbered(
            session, stem, last, lambda number: make_first_rows((first_line(number), *more))
        )
        return name

    def _create_numbered(
        self, session: str, stem: str, last: int, rows: Callable[[int], Sequence[Row]]
    ) -> tuple[str, bool]:
        """Create a session under the next free number; return its name, and False if another process created it."""
        for number in range(last + 1, NUMBERS_MAX):
            name = f"{stem}{number}"
            if self._tables.make(session, name, stem, number, rows(number)):
                return name, True
            known = self._tables.known(session)
            if known is not None and known.id == session:
                return known.name, False
        raise Conflict(f"{stem}N: all session numbers are used")

    def first_lines(self, stem: str) -> Iterator[FirstLine]:
        """See `ports.Store`."""
        below: tuple[int, str] | None = None
        while rows := self._tables.first_rows(stem, below=below):
            for row in rows:
                if split_name(row.name) == (stem, row.number):
                    yield FirstLine(row.name, row.raw.partition(b"\n")[0])
            below = rows[-1].number, rows[-1].name

    def adopt(self, session: str, name: str, raw: bytes, *, size: int = 0) -> str:
        """See `ports.Store`."""
        known = self._tables.known(checked_id(session))
        if size == 0 and (known is None or known.id != session):
            return self._create_adopted(session, checked_name(name), tuple(split_rows(raw, last_seq=-1)))
        known = self._find(session)
        end = self._ends.pop(known.id, None)
        if end is None or end.size != size or end.lacks_newline:
            end = self._end(known.id)
        rows = tuple(split_rows(raw, last_seq=end.seq))
        addition = Addition(known.id, size, rows, refuse_known=False)
        if end.size != size or (rows and not self._tables.add(addition)):
            raise Conflict(f"{known.name} does not end at byte {size:,} in this store")
        self._remember(known.id, end, raw)
        return known.name

    def _create_adopted(self, session: str, name: str, rows: Sequence[Row]) -> str:
        stem, number = split_name(name)
        if self._tables.make(session, name, stem, number or 0, rows):
            return name
        name, is_ours = self._create_numbered(session, stem, self._tables.last_number(stem), lambda _: rows)
        if not is_ours:
            raise Conflict(f"{name} was just created by another process")
        return name

    def _remember(self, session: str, end: LogEnd, added: bytes) -> None:
        """Cache the end of a log that has grown by these bytes, so that the next `adopt` need not read it."""
        if not end.lacks_newline:
            for line in split_lines([added], offset=end.size):
                end.add(line)
            self._ends[session] = end

    def name(self, session: str) -> str:
        """See `ports.Store`."""
        return self._find(session).name

    def _find(self, session: str) -> SessionRef:
        known = self._known.get(session)
        if known is None:
            if not is_name(session):
                raise BadId(f"not a session id or name: {session[:60]!r}")
            known = self._tables.known(session)
            if known is None:
                raise NotFound(f"no session {session}")
            self._known[session] = known
        return known

    def set_title(self, session: str, title: str) -> None:
        """See `ports.Store`. Does nothing: a database has no file names to browse."""

    def sessions(self) -> Iterator[SessionStat]:
        """See `ports.Store`."""
        return self._tables.sessions()

    # ── appending ────────────────────────────────────────────────────────────────────────────────

    def append(
        self,
        session: str,
        body: bytes,
        *,
        after: int,
        behind: int = 0,
        fence: int | None = None,
        durable: bool = True,
    ) -> SealedLine:
        """See `ports.Store`."""
        append = AppendRequest(session, body, after, behind, fence, durable)
        limit, in_group = RetryLimit(session), durable
        while True:
            placed = self._make_draft(append)
            answer = self._add_draft(append, placed, in_group=in_group) if isinstance(placed, Draft) else placed
            if isinstance(answer, SealedLine):
                return answer
            if isinstance(answer, WakelogError):
                raise answer
            in_group = False
            limit.refused(answer)

    def _add_draft(self, append: AppendRequest, draft: Draft, *, in_group: bool) -> SealedLine | WakelogError | int:
        """Add one draft; return the answer, or the size of the log for which the draft was refused."""
        if not (self._add_in_group(draft.addition) if in_group else self._tables.add(draft.addition)):
            return self._refused(append, draft)
        self._ends[draft.addition.session] = draft.end
        return draft.sealed()

    def _add_in_group(self, addition: Addition) -> bool:
        """Add rows, with those of other threads if they add some at the same time; return whether it was accepted."""
        try:
            return self._commits.submit(addition, self._tables.add_group)
        except GroupFailed:
            return self._tables.add(addition)

    def _make_draft(self, append: AppendRequest) -> Draft | SealedLine | WakelogError:
        """The draft of an append for its requested place; or the answer, if the log does not end there."""
        try:
            known = self._find(append.session)
            end = self._ends.pop(known.id, None)
            if end is not None and can_append_after(end, after=append.after, torn_bytes=append.behind):
                return Draft(known.id, append, end)
            end = self._end(known.id)
            if can_append_after(end, after=append.after, torn_bytes=append.behind):
                return Draft(known.id, append, end)
            self._check_fence(known, append.fence)
            self._ends[known.id] = end
            return self._already_there(known, append, end)
        except WakelogError as error:
            return error

    def _already_there(self, known: SessionRef, append: AppendRequest, end: LogEnd) -> SealedLine:
        stored = find_appended(append.body, self.load(known.id, after=append.after), after=append.after)
        if stored is None:
            raise Conflict(f"{known.name} already has entry {end.seq}")
        if append.durable:
            # The writer of the entry may have died before it was durable.
            self._tables.sync()
        return SealedLine(*stored)

    def _refused(self, append: AppendRequest, draft: Draft) -> SealedLine | WakelogError | int:
        """The answer for a refused draft; its size if the log has grown and the end must be read again."""
        try:
            known = self._find(append.session)
            self._check_fence(known, append.fence)
            stored = self._tables.row_of(known.id, draft.row.id) if draft.row.id else None
            if stored is None:
                return draft.addition.size
            raw = stored.raw.strip(b"\n")
            if unseal(raw) != append.body:
                return Conflict(f"another entry with the id {draft.row.id} exists, with other content")
            if append.durable:
                self._tables.sync()
        except WakelogError as error:
            return error
        return SealedLine(find_seq(raw) or 0, Line(raw, stored.size - len(raw) - 1))

    def _end(self, session: str) -> LogEnd:
        """The current end of a log. A sealed last line is trusted; else the log is read from its start."""
        end, stored = LogEnd(), self._tables.end(session)
        last = stored.last.raw if stored.last is not None else b""
        raw = last.strip(b"\n")
        if last.endswith(b"\n") and find_seal(raw) is not None and find_seq(raw) is not None:
            end.add(Line(raw))
        elif last:
            for line in self.load(session):
                end.add(line)
        # Rows may be missing, so the size is not the number of bytes that were read. It was read before them: if the
        # log has grown in between, the addition is refused.
        end.size = stored.size
        return end

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """See `ports.Store`."""
        found = self._find(session).id
        number = self._tables.number_of(found, seq=after) if after >= 0 else None
        if number is None:
            # No row has that seq, so places are found by counting lines from the start.
            rows = self._tables.rows(found, after=0, budget=_FIRST_PAGE_BYTES)
            lines = split_lines(self._blocks(found, rows))
            yield from lines if after < 0 else lines_after(lines, after)
            return
        rows = self._tables.rows(found, after=number, budget=_FIRST_PAGE_BYTES)
        if rows:
            start = rows[0].size - len(rows[0].raw)
            yield from split_lines(self._blocks(found, rows), offset=start, number=0)

    def _blocks(self, session: str, rows: Sequence[StoredRow]) -> Iterator[bytes]:
        """The bytes of these rows and of all rows after them."""
        budget = _FIRST_PAGE_BYTES
        while rows:
            for row in rows:
                yield row.raw
            budget = min(4 * budget, _PAGE_BYTES_MAX)
            rows = self._tables.rows(session, after=rows[-1].number, budget=budget)

    def tail(self, session: str) -> Iterator[Line]:
        """See `ports.Store`."""
        found = self._find(session).id
        last = self._tables.end(found).last
        if last is not None:
            yield from split_lines_backwards(self._blocks_backwards(found, last), end=last.size)

    def _blocks_backwards(self, session: str, last: StoredRow) -> Iterator[bytes]:
        yield last.raw
        before, budget = last.number, _FIRST_PAGE_BYTES
        while rows := self._tables.rows_before(session, before=before, budget=budget):
            for row in rows:
                yield row.raw
            before, budget = rows[-1].number, min(4 * budget, _PAGE_BYTES_MAX)

    # ── leases ───────────────────────────────────────────────────────────────────────────────────

    def acquire(self, session: str, body: bytes, *, after: int, behind: int = 0, holder: str, ttl_s: float) -> Lease:
        """See `ports.Store`."""
        known = self._find(session)
        limit = RetryLimit(known.name)
        while True:
            lease = self._tables.lease(known.id)
            placed = self._make_draft(AppendRequest(session, body, after, behind))
            if isinstance(placed, WakelogError):
                raise placed
            if isinstance(placed, SealedLine):
                # The entry is stored already. If the lease in force is the one it took, an earlier try succeeded.
                if lease is not None and lease.is_in_force and (lease.fence, lease.holder) == (placed.seq, holder):
                    return Lease(session, holder, placed.seq)
                raise Conflict(f"{known.name} has entries after {placed.seq}")
            void = _fence_of_dead_holder(known, lease)
            if self._tables.take(placed.addition, holder, this_process(), ttl_s=ttl_s, void=void):
                self._ends[known.id] = placed.end
                return Lease(session, holder, placed.sealed().seq)
            limit.refused((placed.addition.size, lease))

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """See `ports.Store`."""
        known = self._find(lease.session)
        if not self._tables.renew(known.id, lease.fence, ttl_s=ttl_s):
            raise _lease_lost(known)

    def release(self, lease: Lease) -> None:
        """See `ports.Store`."""
        self._tables.release(self._find(lease.session).id, lease.fence)

    def held(self, session: str) -> Lease | None:
        """See `ports.Store`."""
        lease = self._tables.lease(self._find(session).id)
        if lease is None or not lease.is_in_force or lease.process.is_dead:
            return None
        return Lease(session, lease.holder, lease.fence)

    def _check_fence(self, known: SessionRef, fence: int | None) -> None:
        if fence is not None:
            lease = self._tables.lease(known.id)
            if lease is None or lease.fence != fence:
                raise _lease_lost(known)

    # ── following and journals ───────────────────────────────────────────────────────────────────

    def follow(
        self,
        session: str,
        *,
        after: int,
        pieces: Mapping[str, int] | None,
        timeout_s: float,
        stop: StopSignal | None = None,
    ) -> FollowResult:
        """See `ports.Store`."""
        found = self._find(session).id
        if timeout_s <= 0:
            return self._news(found, after, pieces)
        with self._followers.waiting(timeout_s, stop) as follower, self._tables.watching(found, follower) as wait:
            while True:
                news = self._news(found, after, pieces)
                if news.lines or news.pieces or follower.is_over:
                    return news
                wait()

    def _news(self, session: str, after: int, had: Mapping[str, int] | None) -> FollowResult:
        # A piece is written after the entries it refers to. Reading the log second ensures that they are found.
        fresh = () if had is None else self._journals.new_pieces(session, had)
        return FollowResult(tuple(self.load(session, after=after)), fresh)

    def journal(self, session: str, reply_id: str, piece: bytes, *, fence: int | None = None) -> None:
        """See `ports.Store`."""
        known = self._find(session)
        if not self._tables.journal(known.id, checked_id(reply_id), piece, fence=fence):
            raise _lease_lost(known)

    def journals(self, session: str) -> Mapping[str, Iterable[bytes]]:
        """See `ports.Store`."""
        found = self._find(session).id
        replies = self._tables.journal_replies(found)
        return {reply_id: JournalPieces(self._tables, found, reply_id) for reply_id in replies}

    def drop(self, session: str, reply_id: str) -> None:
        """See `ports.Store`."""
        if is_id(reply_id):
            self._tables.drop(self._find(session).id, reply_id)

    def custody(self, session: str | None = None, *, blobs: Iterable[str] = ()) -> tuple[Exposure, ...]:  # noqa: ARG002
        """See `ports.Store`. Always empty: the roles of the database decide who may write."""
        if session is not None:
            self.name(session)
        return ()

    @property
    def blobs(self) -> Blobs:
        """See `ports.Store`."""
        return self._tables.blobs

    def close(self) -> None:
        """See `ports.Store`."""
        self._followers.close()
        self._tables.close()
        self._known.clear()
        self._ends.clear()


def _fence_of_dead_holder(known: SessionRef, lease: LeaseRow | None) -> int | None:
    """The fence of a lease whose holder is dead, or None; `Conflict` if the lease is in force."""
    if lease is None or not lease.is_in_force:
        return None
    if not lease.process.is_dead:
        raise Conflict(f"{known.name} is being run by {lease.holder}", hint="wait for it, or stop that process")
    return lease.fence


def _lease_lost(known: SessionRef) -> LeaseLost:
    return LeaseLost(f"another worker has taken over {known.name}")
