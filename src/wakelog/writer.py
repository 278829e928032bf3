"""SessionWriter: the only writer of a log. Every entry is stamped here and appended through the store.

Rule 1: entries from people go to the head, which is read again if another writer was faster. Entries from a worker go
under the node it has read; if that node already has a child, the append is a `Conflict`.
Rule 2: the only state is a tree derived from the bytes of the log. Every append names the last entry the tree knows, so
the store detects a tree that is out of date, and the session catches up.
Rule 3: an append may be retried with the same entry id; the entry is appended once.

`session.py` adds what people and programs do with a session; here is the path of an append, from checks to the store.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec

from wakelog.arguments import append_hint, check_store, checked_message, session_ref
from wakelog.clock import SystemClock
from wakelog.decide.policy import Policy, RedactMode, policy_in_force, redact_mode_in_force
from wakelog.errors import Conflict, Damaged, LeaseLost, NewerFormat, SessionEnded, UsageError
from wakelog.known_secrets import known_values
from wakelog.large_content import (
    is_interrupted_output,
    may_be_large,
    with_clipped_output,
    with_long_texts_in_blobs,
    with_media_in_blobs,
)
from wakelog.log.codec import encode, fits_line
from wakelog.log.content import Prompt
from wakelog.log.entry import (
    FORMAT_VERSION,
    RULES_VERSION,
    Activity,
    Annotation,
    AnyAnnotation,
    AnyNode,
    Compaction,
    ContextEntry,
    DamageNote,
    Entry,
    KnownBody,
    Message,
    Node,
    Origin,
    Queued,
    SessionArchived,
    SessionHeader,
    SessionRenamed,
    Terminated,
)
from wakelog.log.ids import checked_id, digest_of
from wakelog.log.lines import Damage, EntryReader
from wakelog.log.recovered_header import session_id_in
from wakelog.log.redaction_marks import differs_in_marks_only
from wakelog.log.retry_limit import RetryLimit
from wakelog.log.seal import SealVerifier, unseal
from wakelog.log.tail import may_refer_to_unread
from wakelog.log.timestamps import iso_timestamp
from wakelog.log.tree import Branch, Tree
from wakelog.ports.runtime import Clock
from wakelog.ports.stores import Lease, SealedLine, Store
from wakelog.projections.branch_state import branch_state
from wakelog.projections.queue import has_whole_queue, must_record_queue, waiting_messages
from wakelog.projections.session_state import (
    build_carried_state,
    can_build_carried_state,
    is_allowed_after_end,
    is_terminated,
)
from wakelog.reading import Log, read_active, read_log, read_session_header
from wakelog.redaction.entries import redact_entry
from wakelog.redaction.known_values import KnownValues
from wakelog.session_header import new_header

# Types that are not synced. Power loss may lose them; the entries around them suffice to recover.
UNSYNCED_TYPES = frozenset({"call", "partial", "resumed", "activity"})
_BODIES = (Node, Annotation)
_SESSION_WIDE: frozenset[type] = frozenset((SessionRenamed, SessionArchived, Activity, Terminated, DamageNote))
_BodyT = TypeVar("_BodyT", bound=KnownBody)


class SessionWriter:
    """The log of one session, read as far as its head needs, and appended to by any number of these, in any process."""

    def __init__(
        self,
        store: Store,
        session: "str | SessionWriter",
        *,
        clock: Clock | None = None,
        known_secrets: KnownValues | None = None,
    ) -> None:
        """`known_secrets` replaces the values that this process knows to be secrets of the session."""
        check_store(store)
        self.store = store
        self.name = store.name(session_ref(session))
        self.clock = clock or SystemClock()
        first = read_session_header(store, self.name)
        self.id = first.id if first is not None else session_id_in(store.load(self.name)) or self.name
        self._origin = first.value.parent if first is not None and isinstance(first.value, SessionHeader) else None
        self._known_secrets = known_secrets
        self._loaded_log: Log | None = None
        # The tree and the head for which it was last looked up which secrets are redacted.
        self._redacted_at: tuple[tuple[Tree | None, str | None], RedactMode] = (None, None), "assignments"
        self._mutex = threading.RLock()
        self._pid = os.getpid()

    @classmethod
    def create(  # noqa: PLR0913 - the header of a session has this many values
        cls,
        store: Store,
        *,
        agent: str = "agent",
        sender: str = "user",
        cwd: str = "",
        title: str | None = None,
        model: str | None = None,
        provider: str | None = None,
        settings: Mapping[str, Any] | None = None,
        parent: Origin | None = None,
        session_id: str | None = None,
        clock: Clock | None = None,
        redact: RedactMode = "assignments",
        check_number: Callable[[int], None] | None = None,
    ) -> Self:
        """Create a session durably; if one with this id exists, open it unchanged.

        `redact` selects which secrets are removed from the header, because no policy is in the log yet. `check_number`
        gets the number that the session is about to have; if it raises, nothing is created.
        """
        check_store(store)
        clock = clock or SystemClock()
        now_ms = clock.now_ms()
        identity = session_id or clock.new_id()
        entry = new_header(
            id=identity,
            now_ms=now_ms,
            agent=agent,
            sender=sender,
            cwd=cwd,
            title=title,
            model=model,
            provider=provider,
            settings=settings,
            parent=parent,
            redact=redact,
            known=known_values(store, identity, parent),
        )

        def first_line(number: int) -> bytes:
            if check_number is not None:
                check_number(number)
            return encode(msgspec.structs.replace(entry, number=number))

        # Names and titles become file names, so they are taken from the redacted header.
        store.create(entry.id, entry.agent, entry.sender, first_line)
        if entry.title:
            store.set_title(entry.id, entry.title)
        return cls(store, entry.id, clock=clock)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    @property
    def mutex(self) -> "threading.RLock":
        """Held while this object reads or appends, so that threads may share it.

        `UsageError` in a child process that was forked from the one that created this object: a thread of the parent
        may have held the mutex, and then the child would wait for it without end.
        """
        if not self.is_of_this_process:
            hint = "after os.fork(), open the store and the session anew in the child"
            raise UsageError(f"the object of {self.name} belongs to the parent process", hint=hint)
        return self._mutex

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process created the object, not the parent it was forked from."""
        return self._pid == os.getpid()

    @property
    def known_secrets(self) -> KnownValues:
        """The values that are known to be secrets of this session, its forks and its sub-agents."""
        if self._known_secrets is None:
            self._known_secrets = known_values(self.store, self.id, self._origin)
        return self._known_secrets

    @property
    def _log(self) -> Log:
        """The part of the log that projections of the head need. Read on first use: a new fork may never need it."""
        if self._loaded_log is None:
            self._loaded_log = read_active(self.store, self.name, queue=False)
            self._check_format(self._loaded_log.damage)
        return self._loaded_log

    def read(self) -> Log:
        """Read the whole log again, with all seals verified."""
        return read_log(self.store, self.name, verify=True)

    @property
    def tree(self) -> Tree:
        """The tree, up to date, as far as projections of the head need it."""
        with self.mutex:
            self._catch_up()
            return self._tree_with_queue()

    def _tree_with_queue(self) -> Tree:
        """Return the tree with the waiting messages of the whole session, which most appends do not need."""
        if not has_whole_queue(self._log.tree):
            self._loaded_log = read_active(self.store, self.name)
            self._check_format(self._loaded_log.damage)
        return self._log.tree

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The damage found when the session was opened, in the part of the log that was read."""
        return self._log.damage

    def tree_with(self, at: str | None) -> Tree:
        """Return a tree that contains the branch of an entry: the whole log's tree if the tail may not contain it."""
        tree = self.tree
        return self.read().tree if tree.partial and at not in (None, tree.head) else tree

    def branch(self, at: str | None = None) -> Branch:
        """Return the branch of an entry (default: the head)."""
        with self.mutex:
            return self.tree_with(at).branch(at)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def append(
        self,
        body: AnyNode | AnyAnnotation,
        *,
        at: str | None = None,
        fork: bool = False,
        lease: Lease | None = None,
        expected_seq: int | None = None,
    ) -> Entry:
        """Append a body. A node goes under `at` or the head; an annotation describes `at` or the head's node.

        `Conflict` if `at` already has a child, unless `fork` is set. A body with an id is appended once, however often
        it is retried. With `expected_seq`, also `Conflict` unless that seq is still the last one, so that the append
        follows exactly the entries a decision was based on.
        """
        if not isinstance(body, _BODIES):
            raise UsageError(f"append takes the body of an entry, not {type(body).__name__}", hint=append_hint(body))
        if isinstance(body, Message):
            checked_message(body.message)
        entry_id = checked_id(body.id) if body.id else self._new_id()
        return self._append(lambda: self._stamped(body, entry_id, self._resolve(at), fork=fork), lease, expected_seq)

    def _resolve(self, entry: str | None) -> str | None:
        """Return the node that an id refers to; an id outside the known tail is looked up in the whole log."""
        if entry is None or entry in self._log.tree.nodes:
            return entry
        self._catch_up()
        return self._whole_tree().find(entry)

    def append_compaction(self, body: Compaction, *, at: str | None = None, lease: Lease | None = None) -> Entry:
        """Append a compaction together with the state it carries, computed at the moment of the append."""
        entry_id = self._new_id()

        def compose() -> KnownBody:
            # A tail that starts at a compaction of rules 1 lacks values that a new one must carry.
            tree = self._log.tree if can_build_carried_state(self._log.tree) else self._whole_tree()
            place = at or tree.head
            assert place is not None
            stamped = self._stamped(body, entry_id, at, fork=at is not None)
            # Added after redaction: the state repeats entries of this log; readers of the whole log derive the same.
            return msgspec.structs.replace(stamped, state=build_carried_state(tree, place))

        return self._append(compose, lease)

    # ── lease ────────────────────────────────────────────────────────────────────────────────────

    def acquire(self, holder: str, *, ttl_s: float, channels: Sequence[str] = (), recording: bool = False) -> Lease:
        """Acquire the lease to run the session and deliver to `channels`. `Conflict` while another holder has it.

        `recording`: the holder is a program that records its own agent loop, not the runtime.
        """
        entry_id, limit = self._new_id(), RetryLimit(self.name)
        while True:
            self._catch_up()
            self._note_torn_tail()
            held = self.store.held(self.name)
            if held is not None:
                hint = "wait until it ends; if that is this process, close the session object that holds it"
                raise Conflict(f"{self.name} is being run by {held.holder}", hint=hint)
            self.check_not_ended()
            activity = Activity(
                holder=holder,
                channels=tuple(channels),
                rules=RULES_VERSION,
                recording=recording,
                queue=self._queue_to_record(),
            )
            stamped = self._stamped(activity, entry_id)
            holder = stamped.holder
            with contextlib.suppress(Conflict):
                body, after = self._encode(stamped), self._log.next_seq - 1
                return self.store.acquire(self.name, body, after=after, holder=holder, ttl_s=ttl_s)
            self._catch_up_after_refusal(limit)

    def _queue_to_record(self) -> tuple[Queued, ...] | None:
        """Return the queue of the whole session if no entry since the last compaction of rules 1 records it."""
        tree = self._log.tree
        return waiting_messages(self._tree_with_queue()) if must_record_queue(tree) else None

    def release(self, lease: Lease) -> None:
        """Record that the worker leaves, and release the lease. Does nothing if the lease was already lost."""
        try:
            self.append(Activity(holder=lease.holder, event="left", fence=lease.fence), lease=lease)
        except LeaseLost:
            return
        self.store.release(lease)

    @property
    def last_seq(self) -> int:
        """The seq of the last known entry."""
        return self._log.next_seq - 1

    # ── appending ────────────────────────────────────────────────────────────────────────────────

    def _append(
        self, compose: Callable[[], KnownBody], lease: Lease | None = None, expected_seq: int | None = None
    ) -> Entry:
        """Compose and append an entry; if another writer was faster, read its entries and try again."""
        limit = RetryLimit(self.name)
        with self.mutex:
            while True:
                if self._log.torn is not None:
                    self._note_torn_tail()
                if expected_seq is not None and expected_seq != self._log.next_seq - 1:
                    raise Conflict(
                        f"{self.name} has new entries since this was decided", hint="read the session and decide again"
                    )
                value = compose()
                log = self._log
                before = self._appended_before(value)
                if before is None:
                    self.check_not_ended(value)
                try:
                    sealed = self.store.append(
                        self.name,
                        unseal(before.raw) if before else self._encode(value),
                        after=before.seq - 1 if before else log.next_seq - 1,
                        fence=lease.fence if lease else None,
                        durable=value.type not in UNSYNCED_TYPES,
                    )
                except LeaseLost:
                    raise
                except Conflict:
                    self._catch_up_after_refusal(limit)
                    continue
                return before or self._add_acknowledged(value, sealed)

    def _catch_up_after_refusal(self, limit: RetryLimit) -> None:
        """Read what other writers appended; if that is nothing, read the log anew: it may have lost entries."""
        self._catch_up()
        if not limit.refused((self._log.next_seq, self._log.torn)):
            self._loaded_log = None

    def check_not_ended(self, value: KnownBody | None = None) -> None:
        """Raise `SessionEnded` if the session is terminated and does not accept this entry.

        If the `terminated` entry is not in this tree yet, the store rejects the append.
        """
        if is_terminated(self._log.tree) and not is_allowed_after_end(value):
            raise SessionEnded(
                f"{self.name} is terminated",
                hint=f"`wakelog fork {self.name} --new-session` continues it in a new session",
            )

    def _add_acknowledged(self, value: KnownBody, sealed: SealedLine) -> Entry:
        """Add an acknowledged entry to the tree without reading it back."""
        seq, line = sealed.seq, sealed.line
        if seq != self._log.next_seq:
            self._catch_up()
            return self._log.tree.entry(value.id) or Entry(line.raw, value, seq, line.offset)
        entry = Entry(line.raw, msgspec.structs.replace(value, v=FORMAT_VERSION, seq=seq), seq, line.offset)
        self._add_to_tree([entry], seq + 1)
        return entry

    def _add_to_tree(self, entries: list[Entry], next_seq: int) -> None:
        """Add new entries to the tree; read the tail again if they refer to entries before it."""
        log = self._log
        tree = log.tree.add_all(entries)
        log.next_seq = next_seq
        if entries:
            log.last_line = entries[-1].raw
        if tree.partial and (any(may_refer_to_unread(tree, entry) for entry in entries) or tree.may_lack_entries):
            self._loaded_log = read_active(self.store, self.name)

    def _appended_before(self, value: KnownBody) -> Entry | None:
        """Return this entry if an earlier try of the same append succeeded; `Conflict` if its content differs.

        Which values are known as secrets may have changed since then, so one of the two may have marks for them.
        """
        entry = self._log.tree.entry(value.id)
        if entry is None:
            return None
        stored = entry.value
        again = msgspec.structs.replace(
            value, parent_id=stored.parent_id, timestamp=stored.timestamp, turn_id=stored.turn_id
        )
        own, before = self._encode(again), unseal(entry.raw)
        if not (differs_in_marks_only(before, own) or differs_in_marks_only(own, before)):
            raise Conflict(f"another entry with the id {value.id} exists, with other content")
        return entry

    def _stamped(self, body: _BodyT, entry_id: str, at: str | None = None, *, fork: bool = False) -> _BodyT:
        """Return the body with its envelope (id, parent, time, turn), secrets redacted and large content in blobs.

        Law 14: secrets stay out of logs and blobs.
        """
        tree = self._log.tree
        if tree.head is None:
            raise Damaged(f"{self.name} has no entry that can be read", hint="see `wakelog doctor`")
        is_wide = type(body) in _SESSION_WIDE
        parent = self._header_id() if is_wide else at or tree.head
        if at is not None and isinstance(body, Node) and not fork and tree.entry(entry_id) is None:
            self._check_no_child(parent)
        is_prompt = isinstance(body, Message) and isinstance(body.message, Prompt)
        node = tree.nodes.get(parent)
        turn = entry_id if is_prompt else body.turn_id or (node.value.turn_id if node else None)
        is_large = may_be_large(body)
        clean = self._without_secrets(with_media_in_blobs(body, self.store.blobs.put) if is_large else body)
        stamped = msgspec.structs.replace(
            clean,
            id=entry_id,
            parent_id=parent,
            timestamp=clean.timestamp or iso_timestamp(self.clock.now_ms()),
            turn_id=None if is_wide else turn,
        )
        return self._clipped_to_line(stamped) if is_large else stamped

    def _clipped_to_line(self, body: _BodyT) -> _BodyT:
        """Return the body with long texts clipped: interrupted tool output like a tool result, others to fit a line."""
        if is_interrupted_output(body):
            body = with_clipped_output(body, self.policy.clip, self.store.blobs.put)
        return with_long_texts_in_blobs(body, self.store.blobs.put, fits_line)

    def _without_secrets(self, body: _BodyT) -> _BodyT:
        """Return the redacted body, as the policy in force says; a `context` entry follows its own policy."""
        mode = redact_mode_in_force(body) if isinstance(body, ContextEntry) else self._redact_mode()
        return redact_entry(body, mode, self.known_secrets)

    def _redact_mode(self) -> RedactMode:
        """Return which secrets are redacted at the head. Only the nodes since the last append are looked at."""
        tree = self._log.tree
        (known_tree, known), mode = self._redacted_at
        at = tree.head
        while at is not None and not (at == known and tree is known_tree):
            value = tree.nodes[at].value
            if isinstance(value, ContextEntry):
                mode = redact_mode_in_force(value)
                break
            if isinstance(value, Compaction) and value.state is not None:
                mode = redact_mode_in_force(value.state.context)
                break
            at = tree.parent(at)
        if at is None:
            mode = redact_mode_in_force(None)
        self._redacted_at = (tree, tree.head), mode
        return mode

    @property
    def policy(self) -> Policy:
        """The policy in force at the head."""
        return policy_in_force(branch_state(self._log.tree.branch()).context)

    def _check_no_child(self, parent: str) -> None:
        # Children follow their parent in the log, so a tail that contains a node contains its children.
        tree = self._log.tree
        in_tail = parent in tree.nodes and parent != tree.root
        if (tree if in_tail else self._whole_tree()).children(parent):
            raise Conflict(f"another entry already follows {parent}", hint="pass fork=True, or read the session again")

    def _encode(self, value: KnownBody) -> bytes:
        return encode(value)

    def _header_id(self) -> str:
        own = self._log.header
        return own.id if own is not None else self._log.tree.root or ""

    def _note_torn_tail(self) -> None:
        """Append a note about a torn tail before any other entry follows it."""
        torn = self._log.torn
        if torn is None:
            return
        note = DamageNote(offset=torn.offset, bytes=len(torn.raw), digest=digest_of(torn.raw))
        body = self._encode(self._stamped(note, self._new_id()))
        with contextlib.suppress(Conflict):
            self.store.append(self.name, body, after=self._log.next_seq - 1, behind=len(torn.raw))
        self._catch_up()

    def _catch_up(self) -> None:
        """Read the entries that were appended since, by any writer."""
        h = self._log.last_seal
        seals = SealVerifier(h, self._log.next_seq - 1) if h is not None else None
        reader = EntryReader(next_seq=self._log.next_seq, seals=seals)
        entries = reader.feed_all(self.store.load(self.name, after=self._log.next_seq - 1))
        self._log.tree.mark_unreadable(reader.damage)
        self._add_to_tree(entries, reader.next_seq)
        self._log.torn = reader.torn
        self._check_format(reader.damage)

    def _check_format(self, damage: Iterable[Damage]) -> None:
        if any(defect.kind == "newer" for defect in damage):
            raise NewerFormat(
                f"{self.name} has entries in a newer format than {FORMAT_VERSION}, which this wakelog writes",
                hint="upgrade wakelog",
            )

    def _whole_tree(self) -> Tree:
        return self.read().tree if self._log.tree.partial else self._log.tree

    def _new_id(self) -> str:
        return self.clock.new_id()
