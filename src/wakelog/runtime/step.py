"""One step of the runtime: the decision, the log it is based on, how its entries are appended and its work cancelled.

Rule 1: the first entry of a step is appended directly after the entries it was decided on, or not at all; then the
session decides again. So a decision is always a function of the log before it.
Rule 2: later entries of the same step are appended whatever other writers appended in between, and a node whose place
is taken becomes a fork instead of being lost.
Rule 3: cancellable work runs until it ends or a person cancels, whichever comes first. The displayed text of a
cancelled reply is written into the entry that ends the turn, so that the model knows what the next message refers to.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.decide.policy import Policy, ReasoningMode, RedactMode
from wakelog.decide.table import Verdict, decide
from wakelog.decide.wording import clip, valid_utf8
from wakelog.log.content import BaseMessage, Text, Usage
from wakelog.log.entry import AnyAnnotation, AnyNode, Cancelled, Compaction, Entry, Node, Partial, Queued
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.log.timestamps import iso_timestamp, parse_ms
from wakelog.log.tree import Branch, Tree
from wakelog.ports.runtime import Tool
from wakelog.ports.stores import Lease
from wakelog.projections.branch_state import BranchState
from wakelog.projections.deliveries import PendingDeliveries
from wakelog.redaction.redactor import SecretSpan, redact
from wakelog.runtime.interface import Runtime
from wakelog.runtime.tool_declarations import ToolDeclarations
from wakelog.session import Session


class Step:
    """One decision and its action, on a session that this worker holds."""

    def __init__(self, runtime: Runtime, session: Session, lease: Lease, verdict: Verdict) -> None:
        self.runtime = runtime
        self.session = session
        self.lease = lease
        self.verdict = verdict
        self.tree: Tree = verdict.snapshot.tree
        self.branch: Branch = verdict.snapshot.branch
        self.state: BranchState = verdict.snapshot.state
        self.deliveries: PendingDeliveries = verdict.snapshot.deliveries
        self.decided_at_seq = session.last_seq
        tools = verdict.snapshot.tools
        # Those that the decision has read already.
        self._declarations = tools if isinstance(tools, ToolDeclarations) else ToolDeclarations(runtime.store.blobs)
        assert self.branch.tip is not None
        self.tip = self.branch.tip.id
        self.has_written = False

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.verdict.snapshot.policy

    @property
    def header(self) -> SessionEntry:
        """The session header."""
        return self.tree.header

    @property
    def cwd(self) -> str:
        """The working folder of the agent."""
        return self.header.cwd

    def tool_declarations(self) -> Sequence[Mapping[str, Any]]:
        """Return the declarations of the tools in force."""
        return self._declarations.of(self.state.context)

    def available_tools(self) -> Mapping[str, Tool]:
        """Return the available tools by name."""
        return self.runtime.tools(self.cwd, self.tool_declarations())

    @property
    def redact(self) -> RedactMode:
        """Which secrets are redacted in input from outside; "off" in replay."""
        return self.policy.redact if self.runtime.redacts_input else "off"

    @property
    def redacts(self) -> bool:
        """Whether any secrets are redacted."""
        return self.redact != "off"

    @property
    def reasoning(self) -> ReasoningMode:
        """How much of a model's reasoning is kept; in replay, all of it."""
        return "keep" if self.is_replay else self.policy.reasoning

    @property
    def is_replay(self) -> bool:
        """Whether replies and results come from a log (replay), where they were filtered before they were written."""
        return not self.runtime.redacts_input

    def without_secrets(self, text: str) -> str:
        """Return a text from outside with its secrets redacted."""
        return redact(text, self.redact, self.session.known_secrets).text

    def find_secrets(self, text: str) -> tuple[SecretSpan, ...]:
        """Return the secrets of a text from outside, which the log shows as marks."""
        return redact(text, self.redact, self.session.known_secrets).spans

    def fault_message(self, message: str) -> str:
        """Return a fault message for an entry, clipped: a provider may answer with a page of any length."""
        return clip(valid_utf8(message))[0]

    def with_cost(self, usage: Usage | None) -> Usage | None:
        """Return the usage of a model call, with its cost if the policy has a price."""
        price = self.policy.price
        return price.add_cost(usage) if usage is not None and price is not None else usage

    def partial_text(self, reply_id: str) -> str:
        """Return the text of an interrupted reply, from its last `partial` entry."""
        sealed = [annotation.value for annotation in self.branch.annotations if isinstance(annotation.value, Partial)]
        content = next((partial.content for partial in reversed(sealed) if partial.reply_id == reply_id), ())
        return BaseMessage(content=content).text

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        return self.runtime.clock.now_ms()

    def write(self, body: AnyNode | AnyAnnotation, *, about: str | None = None, now_ms: int | None = None) -> Entry:
        """Append an entry of this step: a node at the step's tip, or an annotation `about` a node."""
        stamp = iso_timestamp(self.now_ms() if now_ms is None else now_ms)
        entry = self.session.append(
            msgspec.structs.replace(self.runtime.with_recorded_marks(body), timestamp=stamp),
            at=about or self.tip,
            # Fork instead of failing: the place has a child only if a person moved the head back to it.
            fork=True,
            lease=self.lease,
            expected_seq=None if self.has_written else self.decided_at_seq,
        )
        self._note_written(entry)
        return entry

    def write_compaction(self, body: Compaction) -> Entry:
        """Append a compaction, which carries the branch state as of this append."""
        entry = self.session.append_compaction(body, at=self.tip, lease=self.lease)
        self._note_written(entry)
        return entry

    def _note_written(self, entry: Entry) -> None:
        self.has_written = True
        if isinstance(entry.value, Node):
            self.tip = entry.id
        self.runtime.observer.on_entry(self.session, entry)


def decide_now(runtime: Runtime, session: Session, *, new_worker: bool = False) -> Verdict:
    """Return what is to be done in a session now: by the worker that holds it, or by a new worker."""
    tools = ToolDeclarations(runtime.store.blobs)
    return decide(session.tree, runtime.clock.now_ms(), runtime.channel_names, new_worker=new_worker, tools=tools)


def elapsed_since(entry: Entry, now_ms: int) -> int:
    """Return the milliseconds since the timestamp of an entry, at least 0."""
    return max(0, now_ms - (parse_ms(entry.value.timestamp) or now_ms))


async def run_until_cancelled(step: Step, work: Coroutine[Any, Any, None]) -> Queued | None:
    """Run the work. If a person cancels before it is done, stop it and return the cancel; else return None."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(step.runtime.wait_for_cancel(step.session, step.decided_at_seq))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return None
        return watching.result()
    finally:
        try:
            await cancel_and_wait(working)
        finally:
            await cancel_and_wait(watching)


def write_cancelled(step: Step, request: Queued, reply_id: str | None = None, text: str = "") -> None:
    """Write the entry that ends the turn at a person's request; `text` was displayed of the reply in progress."""
    content = (Text(text=text),) if text else ()
    step.write(Cancelled(reason="asked by a person", queued_id=request.id, reply_id=reply_id, content=content))


async def cancel_and_wait(task: "asyncio.Future[Any]") -> None:
    """Cancel a task and wait for its end. Raises an error of the cancellation; a task that is done is left alone."""
    if task.done():
        if not task.cancelled():
            # Marks the exception as retrieved, so that the event loop does not report it.
            task.exception()
        return
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


async def cancel_all_and_wait(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancel tasks concurrently, wait until all have ended, and raise the first error."""
    ended = await asyncio.gather(*map(cancel_and_wait, tasks), return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException):
            raise error
