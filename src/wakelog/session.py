"""Session: the only writer of a log. Every entry is stamped here and appended through the store.

Rule 1: entries from people go to the head, which is read again if another writer was faster. Entries from a worker go
under the node it has read; if that node already has a child, the append is a `Conflict`.
Rule 2: the only state is a tree derived from the bytes of the log. Every append names the last entry the tree knows, so
the store detects a tree that is out of date, and the session catches up.
Rule 3: an append may be retried with the same entry id; the entry is appended once.

This module has more than 500 lines because the path of an append is one piece: check, stamp, encode, append, catch up.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from wakelog.clock import SystemClock
from wakelog.decide.policy import QUEUE_MAX, Policy, RedactMode, policy_in_force
from wakelog.errors import Conflict, Damaged, LeaseLost, NewerFormat, SessionEnded, UsageError
from wakelog.large_content import (
    is_interrupted_output,
    may_be_large,
    with_clipped_output,
    with_long_texts_in_blobs,
    with_media_in_blobs,
)
from wakelog.log.codec import encode, fits_line
from wakelog.log.content import AnyMessage, BaseMessage, Prompt, Text
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
    Head,
    KnownBody,
    Label,
    Message,
    Node,
    Origin,
    Queued,
    SessionArchived,
    SessionRenamed,
    Terminated,
)
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.log.ids import checked_id, digest_of
from wakelog.log.lines import Damage, EntryReader
from wakelog.log.seal import SealVerifier, unseal
from wakelog.log.tail import may_refer_to_unread
from wakelog.log.timestamps import iso_timestamp
from wakelog.log.tree import Branch, Tree
from wakelog.ports.runtime import Clock
from wakelog.ports.stores import Lease, SealedLine, Store
from wakelog.projections.branch_state import branch_state
from wakelog.projections.pending import DroppedWork, SessionEnding, is_turn_open, open_tool_calls, work_dropped_by_end
from wakelog.projections.queue import has_whole_queue, must_record_queue, queue_at_head, waiting_messages
from wakelog.projections.session_state import build_carried_state, can_build_carried_state, is_terminated
from wakelog.reading import Log, read_active, read_log, read_session_header
from wakelog.redaction.entries import redact_entry, redact_identity
from wakelog.version import APP
from wakelog.watcher import follow_entries

# Types that are not synced. Power loss may lose them; the entries around them suffice to recover.
UNSYNCED_TYPES = frozenset({"call", "partial", "resumed", "activity"})
_BODIES = (Node, Annotation)
_SESSION_WIDE = (SessionRenamed, SessionArchived, Activity, Terminated, DamageNote)
_ALLOWED_AFTER_END = (DamageNote, Label, SessionRenamed, SessionArchived)
_APPEND_TRIES_MAX = 10_000
_BodyT = TypeVar("_BodyT", bound=KnownBody)
# A killed worker writes no entry when its lease ends, so its lease is checked at this interval.
_LEASE_POLL_S = 0.2


class Session:
    """One session of a store: read it, add messages, branch it. Cheap to create and to discard.

    An instance belongs to one thread. Any number of instances, in any process, may share a session.
    """

    def __init__(
        self, store: Store, session: str, *, clock: Clock | None = None, rules_version: int = RULES_VERSION
    ) -> None:
        self.store = store
        self.rules_version = rules_version
        self.name = store.name(session)
        self.clock = clock or SystemClock()
        first = read_session_header(store, self.name)
        self.id = first.id if first is not None else self.name
        self._loaded_log: Log | None = None

    @classmethod
    def create(
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
    ) -> "Session":
        """Create a session durably; if one with this id exists, open it unchanged.

        `redact` selects which secrets are removed from the header, because no policy is in the log yet.
        """
        clock = clock or SystemClock()
        now_ms = clock.now_ms()
        given = SessionEntry(
            id=checked_id(session_id) if session_id else clock.new_id(),
            timestamp=iso_timestamp(now_ms),
            version=FORMAT_VERSION,
            cwd=cwd,
            agent=agent,
            sender=sender,
            app=APP,
            title=title,
            provider=provider,
            model=model,
            settings=dict(settings or {}),
            parent=parent,
        )
        # The pair (agent, sender) identifies the session: redaction must not make two identities equal.
        names = {"agent": redact_identity(agent, redact), "sender": redact_identity(sender, redact)}
        entry = redact_entry(msgspec.structs.replace(given, **names), rule=redact)
        # Names and titles become file names, so they are taken from the redacted header.
        store.create(
            entry.id, entry.agent, entry.sender, lambda number: encode(msgspec.structs.replace(entry, number=number))
        )
        if entry.title:
            store.set_title(entry.id, entry.title)
        return cls(store, entry.id, clock=clock)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

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
            raise UsageError(f"append takes the body of an entry, not {type(body).__name__}", hint=_append_hint(body))
        entry_id = checked_id(body.id) if body.id else self._new_id()
        return self._append(lambda: self._stamped(body, entry_id, self._resolve(at), fork=fork), lease, expected_seq)

    def _resolve(self, entry: str | None) -> str | None:
        """Return the node that an id refers to; an id outside the known tail is looked up in the whole log."""
        if entry is None or entry in self._log.tree.nodes:
            return entry
        self._catch_up()
        return self._whole_tree().find(entry)

    def say(self, message: AnyMessage | str, *, mode: Literal["steer", "followUp"] = "followUp") -> Entry:
        """Append a person's message at the head, or queue it while the agent is busy."""
        body: AnyMessage = Prompt(content=(Text(text=message),)) if isinstance(message, str) else message
        _check_message(body)
        entry_id = self._new_id()

        def compose() -> KnownBody:
            busy = self.store.held(self.name) is not None or bool(open_tool_calls(self._log.tree.branch()))
            if not busy:
                return self._stamped(Message(message=body), entry_id)
            if not isinstance(body, Prompt):
                raise Conflict(
                    f"{self.name} is busy: only user messages can be queued", hint="try again when it is idle"
                )
            self._check_queue()
            return self._stamped(Queued(message=body, mode=mode), entry_id)

        return self._append(compose)

    def _check_queue(self) -> None:
        tree = self._tree_with_queue()
        waiting = len(queue_at_head(tree, branch_state(tree.branch()).queue))
        if waiting >= QUEUE_MAX:
            raise Conflict(
                f"the queue of {self.name} is full: {waiting} messages",
                hint="wake the session, or wait until it has taken some of them up",
            )

    def compact(self, summary: str, *, first_kept: str | None = None) -> Entry:
        """Replace everything before `first_kept` on the head's branch by a summary in the context. Deletes nothing."""
        if not summary.strip():
            raise UsageError("the summary is empty", hint="pass the text of the summary")
        if first_kept is not None and first_kept not in {node.id for node in self._whole_tree().branch().nodes}:
            raise UsageError(f"{first_kept} is not on the active branch", hint="use the id of an entry on it")
        return self.append_compaction(Compaction(summary=summary, first_kept_entry_id=first_kept))

    def append_compaction(self, body: Compaction, *, at: str | None = None, lease: Lease | None = None) -> Entry:
        """Append a compaction together with the state it carries, computed at the moment of the append."""
        entry_id = self._new_id()

        def compose() -> KnownBody:
            # A tail that starts at a compaction of rules 1 lacks values that one of rules 2 must carry.
            tree = (
                self._log.tree
                if self.rules_version < 2 or can_build_carried_state(self._log.tree)
                else self._whole_tree()
            )
            place = at or tree.head
            assert place is not None
            stamped = self._stamped(body, entry_id, at, fork=at is not None)
            # Added after redaction: the state repeats entries of this log; readers of the whole log derive the same.
            return msgspec.structs.replace(stamped, state=build_carried_state(tree, place, self.rules_version))

        return self._append(compose, lease)

    def move_head(self, entry: str, *, reason: Literal["retry", "rerun"] | None = None) -> Entry:
        """Move the head to `entry`. With a `reason` this is also a request to run the session."""
        target = self._resolve(entry) or entry
        return self.append(Head(target_id=target, reason=reason), at=target)

    def label(self, entry: str, text: str) -> Entry:
        """Label an entry; an empty text removes the label."""
        target = self._resolve(entry) or entry
        return self.append(Label(target_id=target, label=text), at=target)

    def rename(self, title: str) -> Entry:
        """Set the title of the session."""
        entry = self.append(SessionRenamed(title=title))
        if isinstance(entry.value, SessionRenamed):
            self.store.set_title(self.name, entry.value.title)
        return entry

    def archive(self, *, archived: bool = True) -> Entry:
        """Archive or restore the session."""
        return self.append(SessionArchived(archived=archived))

    def end(self, reason: str = "", *, force: bool = False, wait_s: float = 30.0) -> SessionEnding:
        """Terminate the session. After that only labels, titles and archiving are accepted.

        `Conflict` while a worker runs it, with open tool calls, or with undelivered replies. `force` cancels the turn
        first, waits up to `wait_s` seconds for the worker to leave (this blocks the thread), and drops the rest.
        """
        self._catch_up()
        self._check_not_ended()
        cancelled = self._cancel_and_wait(wait_s) if force else None
        entry_id, dropped = self._new_id(), DroppedWork()

        def compose() -> KnownBody:
            nonlocal dropped
            dropped = self._work_dropped_by_end(force=force)
            return self._stamped(Terminated(reason=reason), entry_id)

        return SessionEnding(self._append(compose), cancelled, dropped)

    def _work_dropped_by_end(self, *, force: bool) -> DroppedWork:
        held = self.store.held(self.name)
        if held is not None:
            raise Conflict(
                f"{self.name} is being run by {held.holder}", hint="wait until the run ends, or force the end"
            )
        dropped = work_dropped_by_end(self._tree_with_queue())
        if dropped.needs_force and not force:
            raise Conflict(f"{self.name} has {', '.join(dropped.descriptions)}", hint="wake it, or force the end")
        return dropped

    def _cancel_and_wait(self, wait_s: float) -> Entry | None:
        """Request cancellation of the current turn, if any, and wait for the worker to release the session."""
        is_held = self.store.held(self.name) is not None
        request = self.append(Queued(mode="cancel")) if is_held or is_turn_open(self._log.tree.branch()) else None
        until = time.monotonic() + wait_s
        while self.store.held(self.name) is not None and (left_s := until - time.monotonic()) > 0:
            self._catch_up()
            self.store.follow(self.name, after=self.last_seq, pieces=None, timeout_s=min(left_s, _LEASE_POLL_S))
        self._catch_up()
        return request

    # ── lease ────────────────────────────────────────────────────────────────────────────────────

    def acquire(self, holder: str, *, ttl_s: float, channels: Sequence[str] = ()) -> Lease:
        """Acquire the lease to run the session and deliver to `channels`. `Conflict` while another holder has it."""
        entry_id = self._new_id()
        for _ in range(_APPEND_TRIES_MAX):
            self._catch_up()
            self._note_torn_tail()
            held = self.store.held(self.name)
            if held is not None:
                raise Conflict(f"{self.name} is being run by {held.holder}")
            self._check_not_ended()
            activity = Activity(
                holder=holder, channels=tuple(channels), rules=self.rules_version, queue=self._queue_to_record()
            )
            stamped = self._stamped(activity, entry_id)
            holder = stamped.holder
            with contextlib.suppress(Conflict):
                body, after = self._encode(stamped), self._log.next_seq - 1
                return self.store.acquire(self.name, body, after=after, holder=holder, ttl_s=ttl_s)
        raise Conflict(f"{self.name} is too busy: {_APPEND_TRIES_MAX} tries to acquire it failed")

    def _queue_to_record(self) -> tuple[Queued, ...] | None:
        """Return the queue of the whole session if no entry since the last compaction of rules 1 records it."""
        tree = self._log.tree
        return (
            waiting_messages(self._tree_with_queue()) if self.rules_version >= 2 and must_record_queue(tree) else None
        )

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
        for _ in range(_APPEND_TRIES_MAX):
            self._note_torn_tail()
            if expected_seq is not None and expected_seq != self._log.next_seq - 1:
                raise Conflict(
                    f"{self.name} has new entries since this was decided", hint="read the session and decide again"
                )
            value = compose()
            before = self._appended_before(value)
            if before is None:
                self._check_not_ended(value)
            try:
                sealed = self.store.append(
                    self.name,
                    unseal(before.raw) if before else self._encode(value),
                    after=before.seq - 1 if before else self._log.next_seq - 1,
                    fence=lease.fence if lease else None,
                    durable=value.type not in UNSYNCED_TYPES,
                )
            except LeaseLost:
                raise
            except Conflict:
                self._catch_up()
                continue
            return before or self._add_acknowledged(value, sealed)
        raise Conflict(f"{self.name} is too busy: other writers were faster {_APPEND_TRIES_MAX} times")

    def _check_not_ended(self, value: KnownBody | None = None) -> None:
        """Raise `SessionEnded` if the session is terminated and does not accept this entry.

        If the `terminated` entry is not in this tree yet, the store rejects the append.
        """
        if is_terminated(self._log.tree) and not _is_allowed_after_end(value):
            raise SessionEnded(
                f"{self.name} is terminated",
                hint=f"`wakelog fork {self.name} --new-session` continues it in a new session",
            )

    def _add_acknowledged(self, value: KnownBody, sealed: SealedLine) -> Entry:
        """Add an acknowledged entry to the tree without reading it back."""
        if sealed.seq != self._log.next_seq:
            self._catch_up()
            return self._log.tree.entry(value.id) or Entry(sealed.line.raw, value, sealed.seq, sealed.line.offset)
        placed = msgspec.structs.replace(value, v=FORMAT_VERSION, seq=sealed.seq)
        entry = Entry(sealed.line.raw, placed, sealed.seq, sealed.line.offset)
        self._add_to_tree([entry], sealed.seq + 1)
        return entry

    def _add_to_tree(self, entries: list[Entry], next_seq: int) -> None:
        """Add new entries to the tree; read the tail again if they refer to entries before it."""
        tree = self._log.tree.add_all(entries)
        self._log.next_seq = next_seq
        if entries:
            self._log.last_line = entries[-1].raw
        if tree.partial and (any(may_refer_to_unread(tree, entry) for entry in entries) or tree.may_lack_entries):
            self._loaded_log = read_active(self.store, self.name)

    def _appended_before(self, value: KnownBody) -> Entry | None:
        """Return this entry if an earlier try of the same append succeeded; `Conflict` if its content differs."""
        entry = self._log.tree.entry(value.id)
        if entry is None:
            return None
        stored = entry.value
        again = msgspec.structs.replace(
            value, parent_id=stored.parent_id, timestamp=stored.timestamp, turn_id=stored.turn_id
        )
        if self._encode(again) != unseal(entry.raw):
            raise Conflict(f"another entry with the id {value.id} exists, with other content")
        return entry

    def _stamped(self, body: _BodyT, entry_id: str, at: str | None = None, *, fork: bool = False) -> _BodyT:
        """Return the body with its envelope (id, parent, time, turn), secrets redacted and large content in blobs.

        Law 14: secrets stay out of logs and blobs.
        """
        tree = self._log.tree
        if tree.head is None:
            raise Damaged(f"{self.name} has no entry that can be read", hint="see `wakelog doctor`")
        is_wide = isinstance(body, _SESSION_WIDE)
        parent = self._header_id() if is_wide else at or tree.head
        if at is not None and isinstance(body, Node) and not fork and tree.entry(entry_id) is None:
            self._check_no_child(parent)
        is_prompt = isinstance(body, Message) and isinstance(body.message, Prompt)
        node = tree.nodes.get(parent)
        turn = entry_id if is_prompt else body.turn_id or (node.value.turn_id if node else None)
        is_large = self.rules_version >= 2 and may_be_large(body)
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
            body = with_clipped_output(body, self._policy().clip, self.store.blobs.put)
        return with_long_texts_in_blobs(
            body, self.store.blobs.put, lambda made: fits_line(made, rules_version=self.rules_version)
        )

    def _without_secrets(self, body: _BodyT) -> _BodyT:
        """Return the redacted body, as the policy in force says; a `context` entry follows its own policy."""
        found = redact_entry(body, self.rules_version)
        if found is body:
            return body
        policy = self._policy()
        if isinstance(body, ContextEntry) and self.rules_version >= 2:
            policy = policy_in_force(body, self.rules_version)
        return found if policy.redact == "assignments" else redact_entry(body, self.rules_version, policy.redact)

    def _policy(self) -> Policy:
        """Return the policy in force at the head."""
        return policy_in_force(branch_state(self._log.tree.branch()).context, self.rules_version)

    def _check_no_child(self, parent: str) -> None:
        # Children follow their parent in the log, so a tail that contains a node contains its children.
        tree = self._log.tree
        in_tail = parent in tree.nodes and parent != tree.root
        if (tree if in_tail else self._whole_tree()).children(parent):
            raise Conflict(f"another entry already follows {parent}", hint="pass fork=True, or read the session again")

    def _encode(self, value: KnownBody) -> bytes:
        return encode(value, rules_version=self.rules_version)

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

    def follow(self, after: int | None = None, *, timeout_s: float | None = None) -> Iterator[Entry]:
        """Yield the entries after seq `after` (default: after the last known one) as any process appends them.

        Ends when no entry has arrived for `timeout_s` seconds, and when the generator or the store is closed.
        """
        start = self.last_seq if after is None else after
        return follow_entries(self.store, self.name, after=start, timeout_s=timeout_s)


def _check_message(given: object) -> None:
    if not isinstance(given, BaseMessage):
        what = f"say takes a text or a message such as Prompt(…), not {type(given).__name__}"
        raise UsageError(what, hint="`append` takes the bodies of entries")


def _append_hint(given: object) -> str:
    """Return a hint on what to call for a value that `append` does not accept."""
    if isinstance(given, BaseMessage):
        return f"use session.append(Message(message={type(given).__name__}(…))), or session.say(…)"
    return "use session.say(…) for a message of a person" if isinstance(given, str) else "see wakelog.log.entry"


def _is_allowed_after_end(value: KnownBody | None) -> bool:
    """Return whether a terminated session accepts this entry: worker left, damage note, label, title or archiving."""
    is_leaving = isinstance(value, Activity) and value.event == "left"
    return is_leaving or isinstance(value, _ALLOWED_AFTER_END)
