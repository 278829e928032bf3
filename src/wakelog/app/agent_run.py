"""A run of an agent as a program sees it: events while it lasts, and a result when it ends.

`run_events` wakes a session and passes on what its steps do. When the session waits for a person, it yields the open
questions; if one of them has been answered by the time the program asks for the next event, it wakes the session again.
"""

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Literal, TypeAlias

import msgspec

from wakelog.log.content import (
    ContentDelta,
    Reply,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    Usage,
)
from wakelog.log.entry import Entry, FaultReport, Message, Spawned
from wakelog.log.entry import ToolStarted as ToolStartedEntry
from wakelog.questions import PersonDecision, Question
from wakelog.runtime.interface import RunObserver, Runtime
from wakelog.runtime.step import cancel_and_wait
from wakelog.runtime.wake import WakeReport, wake
from wakelog.session import Session


class Restarted(msgspec.Struct, frozen=True):
    """The model call failed in the middle of a reply and is repeated: the pieces since the last tool are void."""


class ToolStarted(msgspec.Struct, frozen=True):
    """A tool is about to run; its start is in the log."""

    call: ToolCall


class ToolFinished(msgspec.Struct, frozen=True):
    """A tool call has its result: what the tool returned, or why it did not run (`result.status`)."""

    call: ToolCall
    result: ToolResult


class RunResult(msgspec.Struct, frozen=True):
    """How a run ended. As the last event of `Agent.stream`, it says that the run is over."""

    session: Session
    report: WakeReport
    """The last decision and the rules of all steps, for tests and for support."""
    usage: Usage
    """Tokens and cost of the model calls of this run. Sub-agents are counted in their own sessions."""
    questions: tuple[Question, ...] = ()
    """What the session, or a sub-agent it waits for, asks a person: answer with `question.answer(…)`, then wake it."""
    unknown_outcomes: tuple[Question, ...] = ()
    """The tool calls of the session that may have run, until a person answers or dismisses them (`question.answer`)."""

    @property
    def text(self) -> str:
        """The text of the last reply of the turn; empty if there is none."""
        return self.report.text

    @property
    def state(self) -> Literal["idle", "failed", "cancelled", "terminated", "waiting"]:
        """The state in which the session was left; `waiting` for a person, a sub-agent or a point in time."""
        return self.report.state

    @property
    def error(self) -> FaultReport | None:
        """The fault that ended the turn, or that a later wake retries (`kind`, `message`); None if there is none."""
        return self.report.error


RunEvent: TypeAlias = TextDelta | ThinkingDelta | Restarted | ToolStarted | ToolFinished | Question | RunResult
Answer: TypeAlias = PersonDecision | bool | None
AnswerQuestion: TypeAlias = Callable[[Question], Answer | Awaitable[Answer]]


async def run_events(
    runtime: Runtime, session: Session, on_question: AnswerQuestion | None = None, *, steps: int | None = None
) -> AsyncGenerator[RunEvent, None]:
    """Wake a session and yield what happens; the last event is the `RunResult`.

    With `steps` it ends after that many steps, and the program is not asked to answer questions. Closing the generator
    stops the run as the end of the process would: the next wake continues it.
    """
    asked: set[str] = set()
    usage = Usage(cost_micros=0)
    while True:
        queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        observed = runtime.with_changes(observer=_EventQueue(session.name, queue))
        running = asyncio.ensure_future(wake(observed, session, steps=steps))
        running.add_done_callback(functools.partial(_end, queue))
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            await cancel_and_wait(running)
        report = running.result()
        usage += report.usage
        questions = session.questions() if report.state == "waiting" else ()
        for question in questions if steps is None else ():
            if question.id not in asked:
                asked.add(question.id)
                if on_question is None or not await _ask(on_question, question):
                    yield question
        if {question.id for question in questions} <= {question.id for question in session.questions()}:
            yield RunResult(session, report, usage, questions, session.unknown_outcomes())
            return


def _end(queue: "asyncio.Queue[RunEvent | None]", _: "asyncio.Future[WakeReport]") -> None:
    """Mark the end of the events of one wake."""
    queue.put_nowait(None)


async def _ask(on_question: AnswerQuestion, question: Question) -> bool:
    """Call the program's function and append its answer; return False if it leaves the question open."""
    answer = on_question(question)
    if inspect.isawaitable(answer):
        answer = await answer
    if answer is None:
        return False
    if isinstance(answer, bool):
        answer = "approve" if answer else "deny"
    question.answer(answer)
    return True


class _EventQueue(RunObserver):
    """Puts what the steps of one session do into a queue, as events. Sub-agents are sessions of their own."""

    def __init__(self, session: str, queue: "asyncio.Queue[RunEvent | None]") -> None:
        self._session = session
        self._queue = queue

    def on_entry(self, session: Session, entry: Entry) -> None:
        """Put an event for a tool that starts and for one that has its result."""
        if session.name != self._session:
            return
        match entry.value:
            case (
                ToolStartedEntry(reply_id=reply_id, tool_call_id=call_id)
                | Spawned(reply_id=reply_id, tool_call_id=call_id)
            ):
                self._queue.put_nowait(ToolStarted(_find_call(session, reply_id, call_id)))
            case Message(message=ToolResult() as result):
                call = _find_call(session, result.reply_id, result.tool_call_id)
                self._queue.put_nowait(ToolFinished(call, result))

    def on_delta(self, session: Session, delta: ContentDelta) -> None:
        """Put a piece of text or reasoning. A tool call becomes an event when its tool starts."""
        if session.name == self._session and not isinstance(delta, ToolCallDelta):
            self._queue.put_nowait(delta)

    def on_restart(self, session: Session) -> None:
        """Put an event that makes the pieces of the reply void."""
        if session.name == self._session:
            self._queue.put_nowait(Restarted())


def _find_call(session: Session, reply_id: str | None, call_id: str) -> ToolCall:
    """Return a tool call of a reply; only its id if the reply cannot be read."""
    node = session.tree.nodes.get(reply_id or "")
    reply = node.value.message if node is not None and isinstance(node.value, Message) else None
    calls = reply.tool_calls if isinstance(reply, Reply) else ()
    return next((call for call in calls if call.id == call_id), ToolCall(id=call_id, name=""))
