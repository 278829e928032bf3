"""Session: what people and programs do with one session of a store.

Three groups of methods. Writing: messages of people, compaction, head, labels, title, end. Recording: the log under a
program's own agent loop (`recording/`). Reading: messages for a request, transcript, usage, search, verification.
`writer.py` has the rules of every append.

The recording methods are synchronous: each returns when its entry is durable, after one sync of the store. They may be
called from any thread, one after the other or at once; in an async program a direct call holds the event loop for that
sync, and `await asyncio.to_thread(session.user, text)` does not.
"""

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import ModuleType, TracebackType
from typing import Any, Literal, Self

import msgspec

from wakelog.arguments import check_spoken, check_store, checked_reply, checked_text, entry_ref
from wakelog.auditing import audit_calls
from wakelog.decide.assembly import with_unique_call_ids
from wakelog.decide.policy import QUEUE_MAX, RedactMode
from wakelog.decide.wording import valid_utf8
from wakelog.errors import Conflict, StoreError, UsageError
from wakelog.forking import fork
from wakelog.identity import NumberLimit, NumberRefused, latest
from wakelog.journals import read_journals
from wakelog.large_content import messages_with_media
from wakelog.log.content import AnyMessage, Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import (
    Compaction,
    Entry,
    Head,
    KnownBody,
    Label,
    Message,
    Queued,
    ReplayMode,
    SessionArchived,
    SessionRenamed,
    Terminated,
)
from wakelog.log.lines import EntryReader
from wakelog.ports.catalogs import SearchHit
from wakelog.ports.runtime import Clock
from wakelog.ports.stores import Lease, Store
from wakelog.projections.branch_state import branch_state
from wakelog.projections.context import ContextMessage, build_context
from wakelog.projections.pending import DroppedWork, SessionEnding, is_turn_open, open_tool_calls, work_dropped_by_end
from wakelog.projections.queue import queue_at_head
from wakelog.projections.session_state import is_recorded, is_terminated
from wakelog.projections.tool_audit import AuditedCall
from wakelog.projections.transcript import TranscriptRow, transcript
from wakelog.projections.usage import UsageTotal, usage
from wakelog.prompts import PromptContent, prompt_from
from wakelog.questions import Question, collect_questions, unknown_outcomes
from wakelog.recording.held_lease import HeldLease
from wakelog.recording.recovery import Recovery, recover, tell_answers
from wakelog.recording.streams import StreamedReply, StreamRecorder
from wakelog.recording.tool_runs import FindReceipt, ToolRun, as_outcome, find_open_call, write_result
from wakelog.redaction.known_values import KnownValues
from wakelog.stores import load, open_catalog, open_store
from wakelog.verification import Verification, verify_session
from wakelog.watcher import follow_entries
from wakelog.writer import SessionWriter

# A killed worker writes no entry when its lease ends, so its lease is checked at this interval.
_LEASE_POLL_S = 0.2


class Session(StreamRecorder):
    """One session of a store: record it, read it, branch it. Cheap to create and to discard.

    `Session.open` returns the latest session of an agent and a sender, `create` a new one, `get` an existing one by its
    id or name. Any number of objects, in any process, may share a session; only one at a time may record replies and
    tool runs in it. That one holds the lease of the session until `close()` or the end of its `with` statement.
    """

    def __init__(
        self,
        store: Store,
        session: str | SessionWriter,
        *,
        clock: Clock | None = None,
        known_secrets: KnownValues | None = None,
    ) -> None:
        super().__init__(store, session, clock=clock, known_secrets=known_secrets)
        self._held: HeldLease | None = None
        self.running: set[tuple[str, str]] = set()
        self.stream: StreamedReply | None = None

    @classmethod
    def open(
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
        clock: Clock | None = None,
        redact: RedactMode = "assignments",
    ) -> Self:
        """Return the latest session of exactly this agent and sender; create one if there is none or it is terminated.

        `UnreadableHeader` if the latest session may be one whose header is damaged: `get` opens it by its name. The
        other arguments but `clock` are those of `create`, and apply only to a session that is created.
        """
        check_store(store)
        numbers = NumberLimit()
        while True:
            name = latest(store, agent, sender)
            found = cls(store, name, clock=clock) if name is not None else None
            if found is not None and not is_terminated(found.tree):
                return found
            with contextlib.suppress(NumberRefused):
                return cls.create(
                    store,
                    agent=agent,
                    sender=sender,
                    cwd=cwd,
                    title=title,
                    model=model,
                    provider=provider,
                    settings=settings,
                    clock=clock,
                    redact=redact,
                    check_number=numbers.check,
                )

    @classmethod
    def get(cls, store: Store, session: str | SessionWriter) -> Self:
        """Return the session with this id or name; `NotFound` if there is none."""
        return cls(store, session)

    def __enter__(self) -> Self:
        """Return the session; `close` is called at the end of the `with` statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lease of this object, if it holds one. The object may be used again.

        Does nothing in a child process that was forked from the one that created this object.
        """
        if not self.is_of_this_process:
            return
        with self.mutex:
            held, self._held = self._held, None
            if held is not None:
                held.release(self)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def say(self, message: AnyMessage | str, *, mode: Literal["steer", "followUp"] = "followUp") -> Entry:
        """Append a person's message at the head, or queue it while the agent is busy."""
        body: AnyMessage = Prompt(content=(Text(text=message),)) if isinstance(message, str) else message
        check_spoken(body)
        if mode not in ("steer", "followUp"):
            raise UsageError(f"not a mode of a message: {mode!r}", hint='use mode="steer" or mode="followUp"')
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

    def compact(self, summary: str, *, first_kept: str | Entry | None = None) -> Entry:
        """Replace everything before `first_kept` on the head's branch by a summary in the context. Deletes nothing."""
        if not checked_text("a summary", summary).strip():
            raise UsageError("the summary is empty", hint="pass the text of the summary")
        kept_id = entry_ref(first_kept) if first_kept is not None else None
        if kept_id is not None and kept_id not in {node.id for node in self._whole_tree().branch().nodes}:
            raise UsageError(f"{kept_id} is not on the active branch", hint="use an entry on it, or its id")
        with self.mutex:
            self.check_not_streaming("compact the session after its with statement")
            if self._held is not None:
                self._check_calls_are_kept(kept_id)
            return self.append_compaction(Compaction(summary=summary, first_kept_entry_id=kept_id))

    def _check_calls_are_kept(self, first_kept: str | None) -> None:
        """Raise `OpenToolCalls` if a compaction would replace a tool call of the loop that this object records.

        Such a call would never get a result.
        """
        nodes = [node.id for node in self.branch().nodes]
        kept = set(nodes[nodes.index(first_kept) :] if first_kept in nodes else ())
        if any(call.reply_id not in kept for call in open_tool_calls(self.branch())):
            self.check_no_open_tool_calls()

    def move_head(self, entry: str | Entry, *, reason: Literal["retry", "rerun"] | None = None) -> Entry:
        """Move the head to `entry`. With a `reason` this is also a request to run the session."""
        entry_id = entry_ref(entry)
        target = self._resolve(entry_id) or entry_id
        return self.append(Head(target_id=target, reason=reason), at=target)

    def label(self, entry: str | Entry, text: str | None) -> Entry:
        """Label an entry; an empty text or None removes the label."""
        entry_id = entry_ref(entry)
        target = self._resolve(entry_id) or entry_id
        return self.append(Label(target_id=target, label=checked_text("a label", text or "")), at=target)

    def rename(self, title: str) -> Entry:
        """Set the title of the session."""
        entry = self.append(SessionRenamed(title=checked_text("a title", title)))
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
        self.close()
        self._catch_up()
        self.check_not_ended()
        cancelled = self._cancel_and_wait(wait_s) if force else None
        entry_id, dropped = self._new_id(), DroppedWork()

        def compose() -> KnownBody:
            nonlocal dropped
            dropped = self._work_dropped_by_end(force=force)
            return self._stamped(Terminated(reason=checked_text("a reason", reason)), entry_id)

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

    # ── recording ────────────────────────────────────────────────────────────────────────────────

    def user(self, content: PromptContent) -> Entry:
        """Record a message of a person: text, parts, or files (`pathlib.Path`).

        From here on, programs that wake sessions automatically leave this one to the program that records it; use `say`
        for a session that the runtime runs. `OpenToolCalls` while tool calls have no result; `Conflict` while another
        process records or runs the session.
        """
        prompt, entry_id = prompt_from(content), self._new_id()

        def compose() -> KnownBody:
            self._check_no_other_holder()
            self.check_no_open_tool_calls()
            if self._held is None and not is_recorded(self._log.tree):
                raise _NotMarked(f"{self.name} is not marked as recorded")
            return self._stamped(Message(message=prompt), entry_id)

        with self.mutex:
            self.check_not_streaming("record the prompt after its with statement")
            if self._held is not None:
                return self._append_prompt(compose, self.hold_lease())
            with contextlib.suppress(_NotMarked):
                return self._append_prompt(compose)
            with self._brief_lease() as lease:
                return self._append_prompt(compose, lease)

    def _append_prompt(self, compose: Callable[[], KnownBody], lease: Lease | None = None) -> Entry:
        """Append a prompt, and what people have answered about unknown outcomes."""
        entry = self._append(compose, lease)
        # An append succeeds only on the whole log, so the tree has the answers of other processes too.
        tell_answers(self, self._log.tree, lease)
        return entry

    @contextlib.contextmanager
    def _brief_lease(self) -> Iterator[Lease]:
        """Hold the lease for one entry: its `activity` entry marks the session as recorded.

        A prompt keeps no lease, so that a front end can record prompts without keeping the recording worker out.
        """
        try:
            yield self.hold_lease()
        finally:
            # The prompt is recorded already, and a lease that cannot be released ends by itself.
            with contextlib.suppress(StoreError):
                self.close()

    def take_queued(self) -> Entry | None:
        """Record the oldest message that another process left with `say` as a prompt; None if there is none."""
        with self.mutex:
            tree = self._tree_with_queue()
            waiting = queue_at_head(tree, branch_state(tree.branch()).queue)
            queued = next((each for each in waiting if isinstance(each.message, Prompt)), None)
            if queued is None or not isinstance(queued.message, Prompt):
                return None
            return self.user(msgspec.structs.replace(queued.message, queued_id=queued.id))

    def assistant(self, reply: object, *, model: str | None = None, provider: str | None = None) -> Reply:
        """Record a reply of the model and return it, with its tool calls.

        `reply` is text, a `Reply`, or a response of the Anthropic Messages, OpenAI Chat Completions or OpenAI Responses
        API, as an object of the SDK or as JSON. `model` and `provider` complete a reply that does not name them. The
        reply returned is as it arrived; in the log its secrets are redacted. `OpenToolCalls` while tool calls have no
        result, `UsageError` in the body of `streaming`: pass the final message of a stream to its `finish`.
        """
        given = self._as_reply(reply)
        whole = checked_reply(
            msgspec.structs.replace(given, model=given.model or model, provider=given.provider or provider)
        )
        entry_id = self._new_id()

        def compose() -> KnownBody:
            self.check_no_open_tool_calls()
            return self._stamped(Message(message=whole), entry_id)

        with self.mutex:
            self.check_not_streaming("pass the final message of the stream to stream.finish(…)")
            self._append(compose, self.hold_lease())
        return whole

    def streaming(self, *, model: str | None = None, provider: str | None = None) -> StreamedReply:
        """Record a reply while it is streamed, in a `with` statement. See `StreamedReply`."""
        with self.mutex:
            self.hold_lease()
            return StreamedReply(self, self._as_reply, model=model, provider=provider)

    def tool(
        self, call: ToolCall | object, *, replay: ReplayMode | None = None, receipt: FindReceipt | None = None
    ) -> ToolRun:
        """Record a tool run in a `with` statement whose body runs the tool. See `ToolRun`.

        `call` is one of `reply.tool_calls`, a tool call object or dict of the API, or its id. `replay` says whether the
        tool may run again after a crash: `never` (default), `safe`, or `receipt` with a function that looks up what an
        earlier run did.
        """
        mode: ReplayMode = replay or ("receipt" if receipt is not None else "never")
        if mode not in ("never", "safe", "receipt") or (mode == "receipt") != (receipt is not None):
            hint = 'use replay="never", replay="safe", or receipt=FUNCTION'
            raise UsageError(f"not a valid replay mode with this receipt: {mode!r}", hint=hint)
        with self.mutex:
            self.hold_lease()
            return ToolRun(self, call, replay=mode, receipt=receipt)

    def tool_result(self, call: ToolCall | object, result: object, *, is_error: bool = False) -> ToolResult:
        """Record the result of a tool that ran elsewhere. `call` and `result` are as for `tool`."""
        with self.mutex:
            lease, open_call = self.hold_lease(), find_open_call(self, call)
            if (open_call.reply_id, open_call.tool_call.id) in self.running:
                raise Conflict(f"the tool call {open_call.tool_call.id} is running", hint="set run.result in its body")
            outcome = as_outcome(result, is_error=is_error)
            return write_result(self, lease, open_call, "error" if outcome.is_error else "ok", outcome)

    def recover(self, receipts: Mapping[str, FindReceipt] | None = None) -> Recovery:
        """Settle what a crash left open, and return what that was. Nothing is run; see `Recovery`.

        Interrupted replies become `partial` entries, and every open tool call gets a result: from the function in
        `receipts` that has the name of its tool, else `interrupted` or `unknown`. `Conflict`, and nothing is written,
        while another process records or runs the session: its tools may still be running.
        """
        with self.mutex:
            if self._held is not None and not self._held.is_valid:
                self.close()
            return recover(self, receipts or {})

    def hold_lease(self) -> Lease:
        """Return the lease of this object; acquire it on first use. `Conflict` while another holder has it."""
        with self.mutex:
            if self._held is None:
                self._held = HeldLease(self)
            return self._held.check()

    def _check_no_other_holder(self) -> None:
        held, own = self.store.held(self.name), self._held
        if held is not None and (own is None or held.fence != own.lease.fence):
            hint = "wait until it ends, or use session.say(…) to leave the message in its queue"
            raise Conflict(f"{self.name} is being run by {held.holder}", hint=hint)

    def _as_reply(self, reply: object) -> Reply:
        if isinstance(reply, Reply):
            return msgspec.structs.replace(reply, content=with_unique_call_ids(reply.parts))
        if isinstance(reply, str):
            return Reply(content=(Text(text=valid_utf8(reply)),))
        # Loaded by name on first use: the parsers of three APIs, which commands do not need.
        parsed: Reply = load("wakelog.recording.replies").reply_from(reply)
        return parsed

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def entries(self) -> Iterator[Entry]:
        """Yield every readable entry of the session, oldest first, without holding them in memory."""
        reader = EntryReader()
        for line in self.store.load(self.name):
            yield from reader.feed(line)

    def follow(self, after: int | None = None, *, timeout_s: float | None = None) -> Generator[Entry, None, None]:
        """Yield the entries after seq `after` (default: after the last known one) as any process appends them.

        Ends when no entry has arrived for `timeout_s` seconds, and when the generator or the store is closed.
        """
        start = self.last_seq if after is None else after
        return follow_entries(self.store, self.name, after=start, timeout_s=timeout_s)

    def messages(self, *, strategy: str = "full") -> tuple[ContextMessage, ...]:
        """Return the messages of the next request: the active branch after its last compaction, results after calls."""
        return messages_with_media(build_context(self.branch(), strategy), self.store.blobs)

    @property
    def needs_reply(self) -> bool:
        """Whether the conversation ends in a prompt or a tool result, so that the model is to be called next."""
        branch = self.branch()
        return branch_state(branch).ends_in in ("prompt", "result", "faulted") and not open_tool_calls(branch)

    def to_anthropic(self, *, model: str | None = None, cache: bool = False) -> list[Any]:
        """Return the `messages` of a request to the Anthropic Messages API.

        Reasoning is sent back to the model that produced it: `model`, by default that of the last reply. With `cache`,
        the last two user messages have cache marks.
        """
        built: list[Any] = _load_requests().anthropic_messages(self.messages(), model=model, cache=cache)
        return built

    def to_openai_chat(self, *, model: str | None = None, system: str = "") -> list[Any]:
        """Return the `messages` of a request to the OpenAI Chat Completions API, or a compatible one."""
        built: list[Any] = _load_requests().openai_chat_messages(self.messages(), model=model, system=system)
        return built

    def to_openai_responses(self, *, model: str | None = None) -> list[Any]:
        """Return the `input` of a request to the OpenAI Responses API with `store=False`.

        Encrypted reasoning is sent back to the model that produced it: `model`, by default that of the last reply.
        Request it with `include=["reasoning.encrypted_content"]`.
        """
        built: list[Any] = _load_requests().openai_responses_items(self.messages(), model=model)
        return built

    def transcript(self) -> tuple[TranscriptRow, ...]:
        """Return the conversation of the active branch as people read it, with the text of an interrupted reply."""
        journals = read_journals(self.store, self.name)
        return transcript(self.branch(), journals.partials, running=journals.running)

    def usage(self) -> UsageTotal:
        """Return the tokens and cost of all model calls of the session, on all branches."""
        return usage(self.entries())

    def audit(self) -> Iterator[AuditedCall]:
        """Yield every tool call of the active branch: input, status, duration and who or what allowed it."""
        return audit_calls(self.store, self.name)

    def search(self, query: str, *, limit: int = 50) -> Sequence[SearchHit]:
        """Return the entries of this session that match a full-text query, the best first."""
        checked_text("a query", query)
        copy = open_store("memory:")
        copy.adopt(self.id, self.name, b"".join(line.bytes for line in self.store.load(self.name)))
        catalog = open_catalog("memory:", copy)
        catalog.refresh()
        return catalog.search(query, limit=limit)

    def verify(self) -> Verification:
        """Check every line, seal and blob of the session, inherited history included. `ok`: all are intact."""
        return verify_session(self.store, self.name)

    def questions(self) -> tuple[Question, ...]:
        """Return what this session, and the sub-agents it waits for, ask a person; see `Question.answer`."""
        return tuple(collect_questions(self))

    def unknown_outcomes(self) -> tuple[Question, ...]:
        """Return the tool calls that may have run and that no person has answered about; see `Question.answer`."""
        return tuple(unknown_outcomes(self))

    def fork(self, at: str | Entry | None = None) -> Self:
        """Create a new session that continues from an entry of this one, by default from the head. Copies nothing."""
        return fork(self, None if at is None else entry_ref(at))


class _NotMarked(Exception):
    """No `activity` entry says yet that a program records the session."""


def _load_requests() -> ModuleType:
    """Load the request builders of three APIs on first use: commands do not need them."""
    return load("wakelog.recording.requests")
