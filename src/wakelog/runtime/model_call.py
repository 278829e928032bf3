"""Model calls: request a reply, stream it to the journal and the channels, and append it.

The call is in the log before the request, every delta is in the journal before it is displayed, and the journal is
dropped only when the reply is durable. An interrupted reply is requested again under its own id: from where it stopped
(resume) or from the beginning (replace), as decided. A failure of the provider becomes a `failed` entry. A channel that
raises gets no more of the reply while it is streamed; its failure is written after the entry that ends the call. What
channels were shown of a reply that failed or was cancelled is closed by later steps, as the log then says (RUN-25).
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from wakelog.decide.assembly import ReplyDraft, fit_entry_content, to_deltas
from wakelog.decide.decisions import CallModel, RecoverReply
from wakelog.decide.policy import HookSettings
from wakelog.decide.retries import CONTEXT_OVERFLOW, has_waiting_retry
from wakelog.log.content import (
    BaseMessage,
    ContentDelta,
    Delta,
    Faulted,
    Finished,
    Prompt,
    Reply,
    TextDelta,
    encode_delta,
)
from wakelog.log.entry import Failed, FaultReport, Message, ModelCall, Partial, Resumed
from wakelog.ports.runtime import Channel, HookContext
from wakelog.projections.context import Context, build_context
from wakelog.redaction.entries import DeltaRedactor, redact_entry
from wakelog.runtime.actions import call_channel, count_model_calls, write_send_failed
from wakelog.runtime.checks import check_model
from wakelog.runtime.model_request import build_request, check_reasoning, limited_stream, start_stream
from wakelog.runtime.step import Step, run_until_cancelled, write_cancelled

_ENDED_EARLY = Faulted("cut", "the reply ended before it was finished", retryable=True)


async def call_model(step: Step, decision: CallModel) -> None:
    """Call the model for a new reply."""
    await _ModelCallRun(step, step.runtime.clock.new_id(), decision.strategy).run()


async def recover_reply(step: Step, decision: RecoverReply) -> None:
    """Call the model again for an interrupted reply, under the same id."""
    check_model(step.runtime.open_provider, step.session.name, step.state)
    prior = step.partial_text(decision.reply_id)
    answer = _ModelCallRun(
        step, decision.reply_id, decision.context_strategy, prior=prior if decision.strategy == "resume" else ""
    )
    step.write(Resumed(reply_id=decision.reply_id, strategy=decision.strategy, prior_chars=len(prior)))
    await answer.run()


def _hook_context(step: Step) -> HookContext:
    """Return the description of the coming run that hooks get."""
    header, (turn_id, prompt) = step.header, _last_prompt(step)
    return HookContext(
        session=step.session.name,
        turn_id=turn_id,
        agent=header.agent,
        sender=header.sender,
        cwd=header.cwd,
        prompt=prompt.text,
        now_ms=step.now_ms(),
    )


def _last_prompt(step: Step) -> tuple[str, Prompt]:
    """Return the id and the content of the last prompt; the id is that of the turn."""
    for node in reversed(step.branch.nodes):
        if isinstance(node.value, Message) and isinstance(node.value.message, Prompt):
            return node.id, node.value.message
    return "", Prompt()


def reply_channels(step: Step) -> tuple[str, ...]:
    """Return the channels that get the reply: the one its prompt came from, else all in reach."""
    _, prompt = _last_prompt(step)
    return (prompt.channel,) if prompt.channel is not None else tuple(sorted(step.runtime.channel_names))


class _ModelCallRun:
    """One model call for one reply."""

    def __init__(self, step: Step, reply_id: str, strategy: str, *, prior: str = "") -> None:
        self.step = step
        self.reply_id = reply_id
        self.prior = prior
        self.context: Context = build_context(step.branch, strategy, state=step.state)
        self.draft = ReplyDraft(prior)
        self.end: Finished | Faulted = _ENDED_EARLY
        self.call_id = ""
        self.channel_names = reply_channels(step)
        self.channels = self._streaming_channels()
        self.channel_faults: dict[str, FaultReport] = {}
        # The call itself is written by this step, after the branch it was decided on.
        self.attempt = count_model_calls(step.branch, reply_id) + 1
        self.has_begun = False

    def _streaming_channels(self) -> dict[str, Channel]:
        """Return the channels to stream the reply to; one that waits for an earlier reply gets it later."""
        channels = {name: channel for name, channel in self.step.runtime.channels.items() if name in self.channel_names}
        waiting = self.step.deliveries
        return {name: channel for name, channel in channels.items() if not has_waiting_retry(waiting, name)}

    async def run(self) -> None:
        """Write the call, stream the reply, and write the one entry that ends the call."""
        hooks = self.step.policy.hooks
        if hooks and await run_until_cancelled(self.step, self._inject(hooks)) is not None:
            # No request was made yet: the next decision ends the turn.
            return
        context, state = self.context, self.step.state
        provider = self.step.runtime.open_provider(context.provider or "", context.model or "")
        needs_back, reasoning = getattr(provider, "needs_reasoning_back", False), self.step.reasoning
        check_reasoning(provider.name, needs_back=needs_back, reasoning=reasoning, params=context.params)
        request = build_request(context, self.step.runtime.store.blobs, answers=state.answers, prefill=self.prior)
        # A provider may refuse the request here, before anything is written.
        reply = start_stream(provider, request)
        self._write_call()
        cancel = await run_until_cancelled(self.step, self._stream(reply))
        if cancel is not None:
            self._write_partial()
            write_cancelled(self.step, cancel, self.reply_id, BaseMessage(content=self.draft.content).text)
        elif isinstance(self.end, Finished):
            await self._write_reply(self.end)
        else:
            self._write_fault(self.end)
        self._write_send_failures()

    async def _inject(self, hooks: Sequence[HookSettings]) -> None:
        """Store the hooks' texts as blobs that the call names. They follow the history and never join it (VIEW-7)."""
        texts = await self.step.runtime.hook_texts(hooks, _hook_context(self.step))
        put = self.step.runtime.store.blobs.put
        blobs = tuple(put(self.step.without_secrets(text).encode(), "text/plain") for text in texts)
        self.context = msgspec.structs.replace(self.context, injected=blobs)

    def _write_call(self) -> None:
        self.call_id = self.step.runtime.clock.new_id()
        context = self.context
        self.step.write(
            ModelCall(
                id=self.call_id,
                reply_id=self.reply_id,
                model=context.model,
                provider=context.provider,
                strategy=context.strategy,
                from_id=context.entry_ids[0] if context.strategy != "full" and context.entry_ids else None,
                context_digest=context.digest,
                injected=context.injected,
                channels=self.channel_names,
                tokens_estimate=context.tokens,
                over_limit=context.over_limit or None,
            )
        )

    # ── stream ───────────────────────────────────────────────────────────────────────────────────

    async def _stream(self, reply: AsyncIterator[Delta]) -> None:
        if self.attempt > 1:
            # Channels may show text of an earlier attempt.
            await self._begin_on_channels()
        if self.prior:
            self.step.runtime.observer.on_delta(self.step.session, TextDelta(self.prior))
        sieve = DeltaRedactor(self.step.redact, self.step.session.known_secrets)
        async with contextlib.aclosing(self._limited(reply)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Finished | Faulted):
                    self.end = delta
                    break
                for safe in sieve.take(delta) if self.step.redacts else (delta,):
                    await self._emit(safe)
        if isinstance(self.end, Finished):
            # Text held back from an interrupted reply is dropped: it could be part of a secret.
            for safe in sieve.end():
                await self._emit(safe)

    def _limited(self, reply: AsyncIterator[Delta]) -> AsyncGenerator[Delta, None]:
        return limited_stream(reply, self.prior, reasoning=self.step.reasoning, is_recorded=self.step.is_replay)

    async def _emit(self, delta: ContentDelta) -> None:
        # Journaled first: nothing is displayed that a process crash could lose (law 5).
        self._write_to_journal(encode_delta(delta))
        offset = self.draft.chars
        self.draft.add(delta)
        self.step.runtime.observer.on_delta(self.step.session, delta)
        if isinstance(delta, TextDelta) and delta.text:
            text = delta.text
            await self._begin_on_channels()
            await self._send_to_channels(lambda channel: channel.delta(self.reply_id, offset, text))

    def _write_to_journal(self, piece: bytes) -> None:
        fence = self.step.lease.fence
        self.step.runtime.store.journal(self.step.session.name, self.reply_id, piece, fence=fence)

    async def _begin_on_channels(self) -> None:
        """Begin the reply on every channel, once."""
        if self.has_begun:
            return
        self.has_begun = True

        async def begin(channel: Channel) -> None:
            await channel.begin(self.reply_id, self.attempt)
            if self.prior:
                await channel.delta(self.reply_id, 0, self.prior)
            elif self.attempt > 1:
                await channel.reset(self.reply_id)

        await self._send_to_channels(begin)

    async def _send_to_channels(self, send: Callable[[Channel], Awaitable[None]]) -> None:
        """Call `send` with every channel; a channel that raises gets nothing more of this reply."""
        for name, channel in [*self.channels.items()]:
            fault = await call_channel(self.step, channel, send)
            if fault is not None:
                self.channel_faults[name] = fault
                del self.channels[name]

    # ── end of the call ──────────────────────────────────────────────────────────────────────────

    async def _write_reply(self, end: Finished) -> None:
        """Write the reply, and show it anew if a value became known as a secret after it had been streamed."""
        step = self.step
        reply = Reply(
            content=self.draft.content,
            call_id=self.call_id,
            model=self.context.model,
            provider=self.context.provider,
            stop_reason=end.stop_reason,
            usage=step.with_cost(end.usage),
            request_id=end.request_id,
        )
        safe = redact_entry(reply, step.redact, step.session.known_secrets)
        if safe.text != reply.text:
            # Before the entry: after a crash the channels must not hold another text than the one that is delivered.
            await self._send_to_channels(lambda channel: channel.reset(self.reply_id))
        step.write(Message(id=self.reply_id, message=safe))
        self._drop_journal()
        if safe is not reply:
            step.runtime.observer.on_restart(step.session)
            for delta in to_deltas(safe.parts):
                step.runtime.observer.on_delta(step.session, delta)

    def _write_fault(self, end: Faulted) -> None:
        self._write_partial()
        # A context overflow is retried at once with a shorter context, even if the provider calls it permanent.
        is_curable = end.kind == CONTEXT_OVERFLOW
        error = FaultReport(
            kind=end.kind,
            message=self.step.fault_message(end.message),
            retryable=end.retryable or is_curable,
            delay_ms=0 if is_curable else end.delay_ms,
        )
        self.step.write(Failed(reason="call", error=error, call_id=self.call_id))
        if self.draft.content:
            self.step.runtime.observer.on_restart(self.step.session)

    def _write_partial(self) -> None:
        content = fit_entry_content(self.draft.content)
        if content:
            self.step.write(Partial(reply_id=self.reply_id, content=content))
        self._drop_journal()

    def _write_send_failures(self) -> None:
        """Write which channels failed, in the order in which the call names them: replay relies on that order."""
        about = self.reply_id if self.step.tip == self.reply_id else None
        for name in self.channel_names:
            if name in self.channel_faults:
                write_send_failed(self.step, self.reply_id, name, self.channel_faults[name], about=about)

    def _drop_journal(self) -> None:
        self.step.runtime.store.drop(self.step.session.name, self.reply_id)
