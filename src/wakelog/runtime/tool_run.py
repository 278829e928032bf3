"""Tool runs: `tool_started` is durable before the effect begins, the result after it has ended (law 6: never twice).

The tool calls of one reply run concurrently; each result is written when its tool ends. Output too long for the log is
clipped once, here; the whole output is a blob, written before the entry that names it (VIEW-6, LOG-12).
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.decide import wording as words
from wakelog.decide.clip import clip, storable
from wakelog.decide.decisions import Inquire, Raise, Run
from wakelog.decide.journals import partial_output
from wakelog.decide.open_tool_calls import settled, unknown
from wakelog.decide.redacted import holds_mark
from wakelog.errors import NotFound, WakelogError
from wakelog.log.codec import canonical
from wakelog.log.content import Text
from wakelog.log.deltas import TextDelta, piece_of
from wakelog.log.digest import digest_of
from wakelog.log.entry import Entry, Message, Queued, ToolStarted
from wakelog.ports import Invocation, Outcome, Tool
from wakelog.projections.pending import OpenCall
from wakelog.redaction.entries import shown_safely
from wakelog.runtime.interruption import cancel_all_and_wait, end_turn, stopped
from wakelog.runtime.settling import ask_a_person, settle
from wakelog.runtime.step import Step, elapsed_since
from wakelog.runtime.subagents import answer_of_child, obstacle_of_child, refusal, spawn
from wakelog.tools.subagent import SubAgentTool

_PIECE_CHARS = 64 * 1024


async def run(step: Step, decision: Run) -> bool:
    """Run the tools of open calls concurrently. Return False if none has an outcome because all have to wait."""
    box = _Box(step)
    ready = [call for call in decision.calls if box.obstacle(call) is None]
    if not ready:
        check_runnable(step, decision)
    running: dict[asyncio.Task[Outcome | None], _Running] = {}
    try:
        for call in ready:
            begun = await _begin(step, box, call)
            if begun is not None:
                running[begun.task] = begun
        return await _settle_as_they_end(step, running)
    finally:
        await cancel_all_and_wait(running)


def check_runnable(step: Step, decision: Run) -> None:
    """Raise the error of the first call if none of these calls can run here. Writes nothing."""
    box = _Box(step)
    obstacles = [box.obstacle(call) for call in decision.calls]
    if obstacles and obstacles[0] is not None and None not in obstacles:
        raise obstacles[0]


async def inquire(step: Step, decision: Inquire) -> None:
    """Ask a tool for the receipt of a call that was started, and act on the answer."""
    call = decision.call
    box = _Box(step)
    tool = box.at_hand.get(call.call.name)
    if tool is None:
        raise box.missing(call)
    # A redacted intent is not the one that the tool was started with, so a receipt for it proves nothing.
    is_lost = step.rules >= 2 and step.policy.redacts and holds_mark(call.intent)
    answer = "cannot say" if is_lost else await tool.receipt(_invocation(call, call.started, call.intent))
    if isinstance(answer, Outcome):
        _keep(step, call, answer, None)
    elif answer == "not begun":
        await run(step, Run((call,)))
    else:
        doubt = unknown(call, step.policy)
        if isinstance(doubt, Raise):
            ask_a_person(step, doubt)
        else:
            await settle(step, doubt)


class _Box:
    """The tools that are declared to the model, and those that are available here."""

    def __init__(self, step: Step) -> None:
        self.declared = {tool.get("name") for tool in step.declared()}
        self.at_hand = step.tools()
        self._step = step

    def obstacle(self, call: OpenCall) -> WakelogError | None:
        """Return why a call cannot run here; None if it can, or is refused because its tool was never declared."""
        name = call.call.name
        tool = self.at_hand.get(name)
        if call.child is not None or (name in self.declared and isinstance(tool, SubAgentTool)):
            return obstacle_of_child(self._step, call)
        return self.missing(call) if name in self.declared and tool is None else None

    def missing(self, call: OpenCall) -> NotFound:
        """Return the error for a call whose tool is not available here."""
        return NotFound(
            f"the tool {call.call.name!r} of {self._step.session.name} is not at hand here",
            hint="wake the session where that tool is",
        )


class _Running(msgspec.Struct, frozen=True):
    """A running tool: its call, its task, and its `tool_started` entry (None for a subagent)."""

    call: OpenCall
    task: "asyncio.Task[Outcome | None]"
    started: Entry | None = None


# ── starting tools ───────────────────────────────────────────────────────────────────────────────


async def _begin(step: Step, box: _Box, call: OpenCall) -> _Running | None:
    """Write `tool_started`, then start the tool; return None if the call got its result at once."""
    if call.child is not None:
        return _Running(call, asyncio.create_task(answer_of_child(step, call, call.child)))
    tool = box.at_hand.get(call.call.name)
    if tool is None or call.call.name not in box.declared:
        _keep(step, call, Outcome(words.NO_SUCH_TOOL.format(name=call.call.name), is_error=True), None)
        return None
    if isinstance(tool, SubAgentTool):
        return _begin_child(step, call)
    intent = await tool.prepare(_invocation(call, call.started + 1))
    started = step.write(_started(call, tool, intent), about=call.reply_id)
    given = msgspec.structs.replace(_invocation(call, call.started + 1, intent), show=_shown(step, started))
    return _Running(call, asyncio.create_task(_outcome(tool, given)), started)


def _begin_child(step: Step, call: OpenCall) -> _Running | None:
    why_not = refusal(step, call)
    if why_not is not None:
        _keep(step, call, Outcome(why_not, is_error=True), None)
        return None
    child = spawn(step, call)
    return _Running(call, asyncio.create_task(answer_of_child(step, call, child)))


def _started(call: OpenCall, tool: Tool, intent: Mapping[str, Any]) -> ToolStarted:
    return ToolStarted(
        reply_id=call.reply_id,
        tool_call_id=call.call.id,
        name=call.call.name,
        input_digest=digest_of(canonical(call.call.input)),
        replay=tool.replay,
        attempt=call.started + 1,
        intent=dict(intent),
    )


def _invocation(call: OpenCall, attempt: int, intent: Mapping[str, Any] | None = None) -> Invocation:
    given = call.call.input if isinstance(call.call.input, dict) else {}
    return Invocation(call.reply_id, call.call.id, given, attempt, intent or {})


def _shown(step: Step, started: Entry) -> Any:
    """Return a function that writes live output to the tool's journal, in pieces of limited size."""

    def show(text: str) -> None:
        whole = storable(text)
        for start in range(0, len(whole), _PIECE_CHARS):
            piece = piece_of(TextDelta(whole[start : start + _PIECE_CHARS]))
            step.world.store.journal(step.session.name, started.id, piece, fence=step.lease.fence)

    return shown_safely(show, step.redact) if step.redacts else show


async def _outcome(tool: Tool, call: Invocation) -> Outcome:
    try:
        return await tool.run(call)
    except Exception as error:  # noqa: BLE001 - a tool may be any code, and raise anything
        return Outcome(f"{type(error).__name__}: {error}", is_error=True)


# ── results ──────────────────────────────────────────────────────────────────────────────────────


async def _settle_as_they_end(step: Step, running: dict["asyncio.Task[Outcome | None]", _Running]) -> bool:
    """Write each result when its tool ends, until all have ended or a person cancels. False if all have to wait."""
    watching = asyncio.ensure_future(step.world.cancelled(step.session, step.decided_on))
    left, came = dict(running), len(running) == 0
    try:
        while left:
            await asyncio.wait({*left, watching}, return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in left if task.done()]:
                came = _keep_outcome(step, left.pop(task)) or came
            if left and watching.done():
                await _cancel(step, left, watching.result())
                return True
    finally:
        await stopped(watching)
    return came


async def _cancel(step: Step, left: dict["asyncio.Task[Outcome | None]", _Running], asked: Queued) -> None:
    """Stop the tools that still run and end the turn. Later steps settle their calls."""
    for task, ended in left.items():
        await stopped(task)
        _keep_shown(step, ended)
    end_turn(step, asked)


def _keep_shown(step: Step, ended: _Running) -> None:
    """Write the live output of a stopped tool as a `partial` entry and drop its journal."""
    if ended.started is None:
        return
    assert isinstance(ended.started.value, ToolStarted)
    pieces = step.world.store.journals(step.session.name).get(ended.started.id, ())
    partial = partial_output(ended.started.value, pieces)
    if partial.content:
        step.write(partial, about=ended.call.reply_id)
    step.world.store.drop(step.session.name, ended.started.id)


def _keep_outcome(step: Step, ended: _Running) -> bool:
    outcome = ended.task.result()
    if outcome is None:
        return False
    _keep(step, ended.call, outcome, ended.started)
    if ended.started is not None:
        step.world.store.drop(step.session.name, ended.started.id)
    return True


def _keep(step: Step, call: OpenCall, outcome: Outcome, started: Entry | None) -> None:
    """Write the one result of a call: its clipped text, then its media."""
    whole = step.without_secrets(storable(outcome.text))
    text, truncated = clip(whole, step.policy.clip)
    blob = step.world.store.blobs.put(whole.encode(), "text/plain") if truncated else None
    now_ms = step.now_ms()
    content = (*((Text(text=text),) if text else ()), *outcome.media)
    result = settled(call, "error" if outcome.is_error else "ok", content)
    step.write(
        Message(
            message=msgspec.structs.replace(
                result,
                duration_ms=elapsed_since(started, now_ms) if started is not None else None,
                truncated=truncated,
                blob=blob,
            )
        ),
        now_ms=now_ms,
    )
