"""Questions to a person: what a session, and the sub-agents it waits for, need to continue, and unknown outcomes.

An open question stops its turn until it is answered. An unknown outcome stops nothing: the model was told that the
tool may have run. It is shown to people until one of them answers or dismisses it; the model is told the answer with
its next request.
An approval must not cover anything unseen: a front end shows the whole input of a tool call. An answer is one new
entry. Nothing has to run when it is given: the process that runs the session, now or later, reads it from the log.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from wakelog.decide.damage import DAMAGE_REASON
from wakelog.decide.outcomes import answer_text
from wakelog.errors import NotFound, UsageError
from wakelog.log.codec import canonical_json
from wakelog.log.content import Content, Reply, Text, ToolCall
from wakelog.log.entry import Attention, AttentionResolved, Entry, Message, UnknownOutcome
from wakelog.projections.pending import OpenToolCall, pending
from wakelog.projections.session_state import session_state
from wakelog.writer import SessionWriter

PersonDecision: TypeAlias = Literal[
    "approve", "deny", "ran", "did not run", "unknown", "run again", "result", "dismiss"
]
OUTCOME_REASON = "outcome"
"""The reason of a question about a tool result whose outcome is unknown. No `attention` entry asks it."""
# The decisions allowed for each reason of a question.
DECISIONS_BY_REASON: dict[str, tuple[PersonDecision, ...]] = {
    "approve": ("approve", "deny"),
    "unknown": ("ran", "did not run", "run again", "result"),
    # The tools of a lost reply cannot be run again: their input is lost.
    DAMAGE_REASON: ("ran", "did not run", "unknown", "result"),
    OUTCOME_REASON: ("ran", "did not run", "result", "dismiss"),
}
_REASON_TEXTS = {
    "approve": "requests approval",
    "unknown": "may or may not have run",
    DAMAGE_REASON: "a reply is lost: the tools it called may or may not have run",
    OUTCOME_REASON: "may have run; the model was told so",
}


class Question(msgspec.Struct, frozen=True):
    """An open question of a session to a person, or a tool call whose outcome is unknown."""

    session: SessionWriter
    attention: Attention
    open_call: OpenToolCall | None = None

    @property
    def id(self) -> str:
        """The id of the entry that asks; for an unknown outcome, of the tool result."""
        return self.attention.id

    @property
    def reason(self) -> str:
        """Why a person is asked: `approve`, `unknown` (it may have run), `damage` (a reply is lost) or `outcome`.

        `outcome`: it may have run, and the session goes on without an answer.
        """
        return self.attention.reason

    @property
    def reason_text(self) -> str:
        """The reason in words."""
        return _REASON_TEXTS.get(self.reason, self.reason)

    @property
    def tool(self) -> str:
        """The name of the tool; empty if the question is not about a tool call."""
        return self.open_call.tool_call.name if self.open_call is not None else ""

    @property
    def input(self) -> Any:
        """The input of the tool call, or None."""
        return self.open_call.tool_call.input if self.open_call is not None else None

    @property
    def choices(self) -> tuple[PersonDecision, ...]:
        """The allowed decisions."""
        return DECISIONS_BY_REASON.get(self.reason, DECISIONS_BY_REASON["unknown"])

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of the tool call: session name, reply id, tool call id."""
        call = self.open_call
        return (self.session.name, *((call.reply_id, call.tool_call.id) if call is not None else ("", "")))

    def answer(self, decision: PersonDecision, *, result: str | None = None, by: str | None = None) -> Entry:
        """Append a person's decision, one of `choices`. With `result`, that text is the result of the tool call.

        `by` names the person in the log, for audits. `NotFound` if the question was answered before.
        """
        return resolve_question(self.session, self.attention.id, decision, result=result, by=by)


def open_questions(session: SessionWriter) -> list[Question]:
    """Return the open questions on the head branch of a session, oldest first."""
    open_work = pending(session.branch())
    calls = {call.question_id: call for call in open_work.open_tool_calls if call.question_id is not None}
    return [Question(session, attention, calls.get(attention.id)) for attention in open_work.attention]


def unknown_outcomes(session: SessionWriter) -> list[Question]:
    """Return the tool calls of a session whose outcome is unknown and that no person has answered, oldest first."""
    found = session_state(session.tree).unknown_outcomes
    return [_question_about(session, outcome) for outcome in found if outcome.answer_id is None]


def _question_about(session: SessionWriter, outcome: UnknownOutcome) -> Question:
    asked = Attention(
        id=outcome.result_id,
        parent_id=outcome.result_id,
        timestamp=outcome.timestamp,
        seq=outcome.seq,
        reason=OUTCOME_REASON,
        reply_id=outcome.reply_id,
        tool_call_id=outcome.tool_call_id,
    )
    call = OpenToolCall(outcome.reply_id or "", _tool_call(session, outcome), is_own=True)
    return Question(session, asked, call)


def _tool_call(session: SessionWriter, outcome: UnknownOutcome) -> ToolCall:
    """Return the tool call of a result; without an input if its reply cannot be read."""
    nodes = session.tree.nodes
    if outcome.reply_id is not None and outcome.reply_id not in nodes:
        # The reply may be older than the last compaction.
        nodes = session.read().tree.nodes
    node = nodes.get(outcome.reply_id or "")
    reply = node.value.message if node is not None and isinstance(node.value, Message) else None
    calls = reply.tool_calls if isinstance(reply, Reply) else ()
    named = (call for call in calls if call.id == outcome.tool_call_id)
    return next(named, ToolCall(id=outcome.tool_call_id, name=outcome.tool_name))


def collect_questions(session: SessionWriter, seen: frozenset[str] = frozenset()) -> list[Question]:
    """Return the open questions of a session and of the sub-agents it waits for."""
    found = open_questions(session)
    for call in pending(session.branch()).open_tool_calls:
        if call.child_session is None or call.child_session in seen:
            continue
        try:
            child = type(session)(session.store, call.child_session, clock=session.clock)
        except NotFound:
            continue
        found += collect_questions(child, seen | {session.id, call.child_session})
    return found


def resolve_question(
    session: SessionWriter,
    attention_id: str,
    decision: PersonDecision,
    *,
    result: str | None = None,
    by: str | None = None,
) -> Entry:
    """Append the decision on a question or an unknown outcome; `by` names the person.

    A `result` is what the model is told of the tool.
    """
    asked = (*open_questions(session), *unknown_outcomes(session))
    question = next((found for found in asked if found.attention.id == attention_id), None)
    if question is None:
        raise NotFound(f"{session.name} has no open question {attention_id}")
    if decision not in question.choices:
        raise UsageError(
            f"the decision {decision!r} is not possible here", hint=f"use one of {', '.join(question.choices)}"
        )
    if (decision == "result") != (result is not None):
        raise UsageError("the decision `result` needs a result text, and no other decision takes one")
    told = _text_for_model(question, decision, result)
    content: Content | None = (Text(text=told),) if told is not None else None
    body = AttentionResolved(attention_id=attention_id, decision=decision, result=content, by=by)
    return session.append(body, at=question.attention.parent_id)


def _text_for_model(question: Question, decision: PersonDecision, result: str | None) -> str | None:
    """Return the text that the entry of a decision carries: the result of an open call, or a notice about a closed."""
    if question.reason != OUTCOME_REASON:
        return result
    return answer_text(f"{question.tool}({canonical_json(question.input).decode()})", decision, result)
