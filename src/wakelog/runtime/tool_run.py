"""Tool runs: `tool_started` is durable before the effect begins, the result after it has ended (law 6: never twice).

The tool calls of one reply run concurrently; each result is written when its tool ends. Output too long for the log is
clipped once, here; the whole output is a blob, written before the entry that names it (VIEW-6, LOG-12). The child
session of a subagent call is named in the log before it exists (TREE-6): a crash at any point leaves either no child
and no name, or a name under which the next worker creates the child, once.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.decide import wording
from wakelog.decide.assembly import partial_from_output
from wakelog.decide.decisions import AskPerson, CheckReceipt, RunTools
from wakelog.decide.open_tool_calls import decide_unknown, has_redaction_mark, settle_stopped
from wakelog.decide.wording import valid_utf8
from wakelog.errors import NotFound, WakelogError
from wakelog.log.codec import canonical_json
from wakelog.log.content import TextDelta, ToolStatus, encode_delta
from wakelog.log.entry import Entry, Message, Partial, Queued, Spawned, ToolStarted
from wakelog.log.ids import digest_of
from wakelog.ports.runtime import Tool, ToolInvocation, ToolOutcome
from wakelog.projections.pending import OpenToolCall, with_output
from wakelog.providers import split_model
from wakelog.recording.tool_runs import result_of_run
from wakelog.redaction.entries import redacting_show
from wakelog.runtime.actions import ask_person, settle_tool_call
from wakelog.runtime.context_entry import accepts_marks
from wakelog.runtime.interface import SubagentTask
from wakelog.runtime.step import Step, cancel_all_and_wait, cancel_and_wait, elapsed_since, write_cancelled
from wakelog.tools.subagent import SubagentTool, declared_profiles


def write_spawned(step: Step, open_call: OpenToolCall) -> str:
    """Write the id of the child of a tool call, durably, before the child exists; return the id."""
    child = step.runtime.clock.new_id()
    step.write(
        Spawned(child_session=child, reply_id=open_call.reply_id, tool_call_id=open_call.tool_call.id),
        about=open_call.reply_id,
    )
    return child


def subagent_refusal(step: Step, open_call: OpenToolCall) -> str | None:
    """Return why a tool call may not start a child; None if it may."""
    if step.policy.children <= 0:
        return wording.TOO_DEEP
    if not _argument(open_call, "prompt"):
        return wording.NO_PROMPT
    named, others = _argument(open_call, "agent"), declared_profiles(step.tool_declarations())
    if not named or named in others:
        return None
    return wording.NO_SUCH_AGENT.format(name=named, names=", ".join(others)) if others else wording.NO_OTHER_AGENTS


def _argument(open_call: OpenToolCall, key: str) -> str:
    """Return an argument of a tool call, `prompt` or `agent` (which agent to start); empty if it is no string."""
    given = open_call.tool_call.input
    value = given.get(key) if isinstance(given, dict) else None
    return value if isinstance(value, str) else ""


async def run_child(step: Step, open_call: OpenToolCall, child: str) -> ToolOutcome | None:
    """Run the child; return its outcome, or None while it waits."""
    return await step.runtime.run_subagent(_subagent_task(step, open_call, child))


def child_error(step: Step, open_call: OpenToolCall) -> WakelogError | None:
    """Return why the child of a tool call, existing or new, cannot run here; None if it can or would be refused."""
    if open_call.child_session is None and subagent_refusal(step, open_call) is not None:
        return None
    return step.runtime.subagent_error(_subagent_task(step, open_call, open_call.child_session or ""))


def _subagent_task(step: Step, open_call: OpenToolCall, child: str) -> SubagentTask:
    header, named = step.header, _argument(open_call, "agent")
    other = declared_profiles(step.tool_declarations()).get(named)
    provider, model = split_model(other.model) if other is not None and other.model else (None, None)
    return SubagentTask(
        child_session=child,
        prompt=_argument(open_call, "prompt"),
        parent_session=step.session.id,
        reply_id=open_call.reply_id,
        tool_call_id=open_call.tool_call.id,
        agent=named if other is not None else header.agent or "agent",
        sender=header.sender or "user",
        cwd=header.cwd,
        model=model or step.state.model,
        provider=provider or step.state.provider,
        context=step.state.context,
        profile=other,
    )


_JOURNAL_PIECE_CHARS = 64 * 1024


async def run_tools(step: Step, decision: RunTools) -> bool:
    """Run the tools of open calls concurrently. Return False if every call waits for a sub-agent."""
    tools = _ToolSet(step)
    ready = [call for call in decision.open_calls if tools.blocking_error(call) is None]
    if not ready:
        check_runnable(step, decision)
    running: dict[asyncio.Task[ToolOutcome | None], _RunningTool] = {}
    try:
        for call in ready:
            begun = await _start(step, tools, call)
            if begun is not None:
                running[begun.task] = begun
        return await _write_results_as_tools_end(step, running)
    finally:
        await cancel_all_and_wait(running)


def check_runnable(step: Step, decision: RunTools) -> None:
    """Raise the error of the first call if none of these calls can run here. Writes nothing."""
    tools = _ToolSet(step)
    obstacles = [tools.blocking_error(call) for call in decision.open_calls]
    if obstacles and obstacles[0] is not None and None not in obstacles:
        raise obstacles[0]


async def check_receipt(step: Step, decision: CheckReceipt) -> None:
    """Ask a tool for the receipt of a call that was started, and act on the answer."""
    call = decision.open_call
    tools = _ToolSet(step)
    tool = tools.available.get(call.tool_call.name)
    if tool is None:
        raise tools.missing_tool_error(call)
    # A redacted intent is not the one that the tool was started with, so a receipt for it proves nothing.
    is_lost = step.policy.redacts and has_redaction_mark(call.intent)
    answer = "cannot say" if is_lost else await tool.receipt(_invocation(step, call, call.starts, call.intent))
    if isinstance(answer, ToolOutcome):
        _write_result(step, call, answer, None)
    elif answer == "not begun":
        await run_tools(step, RunTools((call,)))
    else:
        doubt = decide_unknown(call, step.policy)
        if isinstance(doubt, AskPerson):
            ask_person(step, doubt)
        else:
            await settle_tool_call(step, doubt)


class _ToolSet:
    """The tools that are declared to the model, and those that are available here."""

    def __init__(self, step: Step) -> None:
        self.declared = {tool.get("name") for tool in step.tool_declarations()}
        self.available = step.available_tools()
        self._step = step

    def blocking_error(self, open_call: OpenToolCall) -> WakelogError | None:
        """Return why a call cannot run here; None if it can, or is refused because its tool was never declared."""
        name = open_call.tool_call.name
        tool = self.available.get(name)
        if open_call.child_session is not None or (name in self.declared and isinstance(tool, SubagentTool)):
            return child_error(self._step, open_call)
        return self.missing_tool_error(open_call) if name in self.declared and not self._can_run(open_call) else None

    def _can_run(self, open_call: OpenToolCall) -> bool:
        """Return whether the tool is available; with a mark in the input it must also accept marks, as it declares."""
        tool = self.available.get(open_call.tool_call.name)
        if tool is None or not self._step.redacts:
            return tool is not None
        return accepts_marks(tool) or not has_redaction_mark(open_call.tool_call.input)

    def missing_tool_error(self, open_call: OpenToolCall) -> NotFound:
        """Return the error for a call whose tool is not available here."""
        return NotFound(
            f"the tool {open_call.tool_call.name!r} of {self._step.session.name} is not available in this process",
            hint="wake the session in a process that has this tool",
        )


class _RunningTool(msgspec.Struct, frozen=True):
    """A running tool: its call, its task, and its `tool_started` entry (None for a subagent)."""

    open_call: OpenToolCall
    task: "asyncio.Task[ToolOutcome | None]"
    started: Entry | None = None


# ── starting tools ───────────────────────────────────────────────────────────────────────────────


async def _start(step: Step, tools: _ToolSet, open_call: OpenToolCall) -> _RunningTool | None:
    """Write `tool_started`, then start the tool; return None if the call got its result at once."""
    if open_call.child_session is not None:
        return _RunningTool(open_call, asyncio.create_task(run_child(step, open_call, open_call.child_session)))
    tool = tools.available.get(open_call.tool_call.name)
    if tool is None or open_call.tool_call.name not in tools.declared:
        _write_result(
            step,
            open_call,
            ToolOutcome(wording.NO_SUCH_TOOL.format(name=open_call.tool_call.name), is_error=True),
            None,
        )
        return None
    if isinstance(tool, SubagentTool):
        return _start_child(step, open_call)
    intent = await tool.prepare(_invocation(step, open_call, open_call.starts + 1))
    started = step.write(_tool_started_body(open_call, tool, intent), about=open_call.reply_id)
    given = msgspec.structs.replace(
        _invocation(step, open_call, open_call.starts + 1, intent), show=_output_writer(step, started)
    )
    return _RunningTool(open_call, asyncio.create_task(_run_tool(tool, given)), started)


def _start_child(step: Step, open_call: OpenToolCall) -> _RunningTool | None:
    why_not = subagent_refusal(step, open_call)
    if why_not is not None:
        _write_result(step, open_call, ToolOutcome(why_not, is_error=True), None)
        return None
    child = write_spawned(step, open_call)
    return _RunningTool(open_call, asyncio.create_task(run_child(step, open_call, child)))


def _tool_started_body(open_call: OpenToolCall, tool: Tool, intent: Mapping[str, Any]) -> ToolStarted:
    return ToolStarted(
        reply_id=open_call.reply_id,
        tool_call_id=open_call.tool_call.id,
        name=open_call.tool_call.name,
        input_digest=digest_of(canonical_json(open_call.tool_call.input)),
        replay=tool.replay,
        attempt=open_call.starts + 1,
        intent=dict(intent),
    )


def _invocation(
    step: Step, open_call: OpenToolCall, attempt: int, intent: Mapping[str, Any] | None = None
) -> ToolInvocation:
    call, given = open_call.tool_call, open_call.tool_call.input
    return ToolInvocation(
        open_call.reply_id,
        call.id,
        given if isinstance(given, dict) else {},
        attempt,
        intent or {},
        find_secrets=step.find_secrets if step.redacts else None,
    )


def _output_writer(step: Step, started: Entry) -> Any:
    """Return a function that writes live output to the tool's journal, in pieces of limited size."""

    def show(text: str) -> None:
        whole = valid_utf8(text)
        for start in range(0, len(whole), _JOURNAL_PIECE_CHARS):
            piece = encode_delta(TextDelta(whole[start : start + _JOURNAL_PIECE_CHARS]))
            step.runtime.store.journal(step.session.name, started.id, piece, fence=step.lease.fence)

    return redacting_show(show, step.redact, step.session.known_secrets) if step.redacts else show


async def _run_tool(tool: Tool, call: ToolInvocation) -> ToolOutcome:
    try:
        return await tool.run(call)
    except Exception as error:  # noqa: BLE001 - a tool may be any code, and raise anything
        return ToolOutcome(f"{type(error).__name__}: {error}", is_error=True)


# ── results ──────────────────────────────────────────────────────────────────────────────────────


async def _write_results_as_tools_end(
    step: Step, running: dict["asyncio.Task[ToolOutcome | None]", _RunningTool]
) -> bool:
    """Write each result when its tool ends, until all have ended or a person cancels. False if all have to wait."""
    watching = asyncio.ensure_future(step.runtime.wait_for_cancel(step.session, step.decided_at_seq))
    left, has_result = dict(running), len(running) == 0
    try:
        while left:
            await asyncio.wait({*left, watching}, return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in left if task.done()]:
                has_result = _write_outcome(step, left.pop(task)) or has_result
            if left and watching.done():
                await _cancel_running(step, left, watching.result())
                return True
    finally:
        await cancel_and_wait(watching)
    return has_result


async def _cancel_running(
    step: Step, left: dict["asyncio.Task[ToolOutcome | None]", _RunningTool], cancel: Queued
) -> None:
    """Stop the tools that still run, write their results and end the turn. Later steps settle the other open calls.

    Only this process knows that a tool was stopped: after a crash before its result, the outcome is unknown.
    """
    for task, ended in left.items():
        await cancel_and_wait(task)
        if ended.started is not None:
            _write_stopped(step, ended.open_call, ended.started)
    write_cancelled(step, cancel)


def _write_stopped(step: Step, open_call: OpenToolCall, started: Entry) -> None:
    """Write the live output of a stopped tool as a `partial` entry, and its result; drop its journal."""
    assert isinstance(started.value, ToolStarted)
    pieces = step.runtime.store.journals(step.session.name).get(started.id, ())
    partial = partial_from_output(started.value, pieces)
    if partial.content:
        stored = step.write(partial, about=open_call.reply_id).value
        assert isinstance(stored, Partial)
        open_call = with_output(open_call, stored)
    step.write(Message(message=settle_stopped(open_call)))
    step.runtime.store.drop(step.session.name, started.id)


def _write_outcome(step: Step, ended: _RunningTool) -> bool:
    outcome = ended.task.result()
    if outcome is None:
        return False
    _write_result(step, ended.open_call, outcome, ended.started)
    if ended.started is not None:
        step.runtime.store.drop(step.session.name, ended.started.id)
    return True


def _write_result(step: Step, open_call: OpenToolCall, outcome: ToolOutcome, started: Entry | None) -> None:
    """Write the one result of a call."""
    status: ToolStatus = "error" if outcome.is_error else "ok"
    put = step.runtime.store.blobs.put
    result = result_of_run(
        open_call,
        status,
        outcome,
        redact_mode=step.redact,
        known=step.session.known_secrets,
        clip_bytes=step.policy.clip,
        put=put,
    )
    now_ms = step.now_ms()
    duration_ms = elapsed_since(started, now_ms) if started is not None else None
    step.write(Message(message=msgspec.structs.replace(result, duration_ms=duration_ms)), now_ms=now_ms)
