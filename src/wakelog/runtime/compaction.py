"""Compaction: ask the model for a summary, which then replaces older entries in the context.

A summary that fails, is empty, or is no shorter than what it replaces changes nothing. An annotation records the answer
and the reason; the decision table counts these annotations, so that compaction is not retried without end.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from wakelog.decide import wording
from wakelog.decide.assembly import ReplyDraft, fit_entry_content
from wakelog.decide.compaction import is_shorter, replaced_part
from wakelog.decide.decisions import Compact
from wakelog.log.content import Delta, Faulted, Finished, Text, Usage
from wakelog.log.entry import Compaction, FaultReport, ModelCall, Partial
from wakelog.projections.context import Context, build_context, estimate_tokens
from wakelog.runtime.model_request import build_request, limited_stream, start_stream
from wakelog.runtime.step import Step, run_until_cancelled, write_cancelled


async def compact(step: Step, decision: Compact) -> None:
    """Ask the model for a summary of everything before the first kept entry, and append the compaction."""
    await _SummaryRequest(step, decision).run()


class _SummaryRequest:
    """One request for one summary."""

    def __init__(self, step: Step, decision: Compact) -> None:
        self.step = step
        self.decision = decision
        self.whole_context: Context = build_context(step.branch)
        self.draft = ReplyDraft()
        self.end: Finished | Faulted = Faulted("cut", "the summary ended before it was finished")
        self.call_id = ""
        self.reply_id = ""

    async def run(self) -> None:
        """Write the call, stream the summary, and write the compaction or the reason why there is none."""
        context = self._context()
        provider = self.step.runtime.open_provider(context.provider or "", context.model or "")
        blobs, answers = self.step.runtime.store.blobs, self.step.state.answers
        request = build_request(context, blobs, answers=answers, purpose="compaction")
        reply = start_stream(provider, request)
        self._write_call(context)
        cancel = await run_until_cancelled(self.step, self._stream(reply))
        if cancel is not None:
            write_cancelled(self.step, cancel)
        elif (error := self._rejection()) is not None:
            content = fit_entry_content(self.draft.content)
            self.step.write(Partial(reply_id=self.reply_id, content=content, error=error, usage=self._usage))
        else:
            self._write_compaction()

    def _context(self) -> Context:
        """Return the context up to the first kept entry (a prefix in the provider's cache), plus the instructions."""
        wanted = self.step.without_secrets(
            "\n\n".join(filter(None, (wording.SUMMARY_INSTRUCTIONS, self.decision.instructions)))
        )
        blob = self.step.runtime.store.blobs.put(wanted.encode(), "text/plain")
        return msgspec.structs.replace(replaced_part(self.whole_context, self.decision.first_kept), injected=(blob,))

    def _write_call(self, context: Context) -> None:
        self.reply_id, self.call_id = self.step.runtime.clock.new_id(), self.step.runtime.clock.new_id()
        self.step.write(
            ModelCall(
                id=self.call_id,
                reply_id=self.reply_id,
                purpose="compaction",
                queued_id=self.decision.queued_id,
                model=context.model,
                provider=context.provider,
                to_id=self.decision.first_kept,
                context_digest=context.digest,
                injected=context.injected,
                tokens_estimate=context.tokens,
            )
        )

    async def _stream(self, reply: AsyncIterator[Delta]) -> None:
        async with contextlib.aclosing(self._limited(reply)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Finished | Faulted):
                    self.end = delta
                    return
                self.draft.add(delta)

    def _limited(self, reply: AsyncIterator[Delta]) -> AsyncGenerator[Delta, None]:
        return limited_stream(reply, reasoning=self.step.reasoning, is_recorded=self.step.is_replay)

    @property
    def _summary(self) -> str:
        text = "".join(part.text for part in self.draft.content if isinstance(part, Text))
        return self.step.without_secrets(text).strip()

    @property
    def _usage(self) -> Usage | None:
        return self.step.with_cost(self.end.usage) if isinstance(self.end, Finished) else None

    def _rejection(self) -> FaultReport | None:
        """Return why the summary cannot be used; None if it can."""
        if isinstance(self.end, Faulted):
            return FaultReport(
                kind=self.end.kind, message=self.step.fault_message(self.end.message), retryable=self.end.retryable
            )
        if not self._summary:
            return FaultReport(kind="empty", message="the summary was empty")
        if not is_shorter(self.whole_context, self.decision.first_kept, wording.with_summary_prefix(self._summary)):
            return FaultReport(kind="did_not_shrink", message="the summary was no shorter than what it stood for")
        return None

    def _write_compaction(self) -> None:
        summary, kept = wording.with_summary_prefix(self._summary), self.decision.first_kept
        folded = replaced_part(self.whole_context, kept)
        self.step.write_compaction(
            Compaction(
                summary=summary,
                first_kept_entry_id=kept,
                tokens_before=self.whole_context.tokens,
                tokens_after=self.whole_context.tokens - folded.tokens + estimate_tokens((Text(text=summary),)),
                trigger=self.decision.trigger,
                call_id=self.call_id,
                usage=self._usage,
            )
        )
