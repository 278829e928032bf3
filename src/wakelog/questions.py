"""Questions to a person: the decisions that a session, and the sub-agents it waits for, need before they can continue.

An approval must not cover anything unseen: a front end shows the whole input of a tool call. An answer is one new
entry. Nothing has to run when it is given: the process that runs the session, now or later, reads it from the log.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from wakelog.decide.damage import DAMAGE_REASON
from wakelog.errors import NotFound, UsageError
from wakelog.log.content import Content, Text
from wakelog.log.entry import Attention, AttentionResolved, Entry
from wakelog.projections.pending import OpenToolCall, pending
from wakelog.writer import SessionWriter

PersonDecision: TypeAlias = Literal["approve", "deny", "ran", "did not run", "unknown", "run again", "result"]
# The decisions allowed for each reason of a question.
DECISIONS_BY_REASON: dict[str, tuple[PersonDecision, ...]] = {
    "approve": ("approve", "deny"),
    "unknown": ("ran", "did not run", "run again", "result"),
    # The tools of a lost reply cannot be run again: their input is lost.
    DAMAGE_REASON: ("ran", "did not run", "unknown", "result"),
}
_REASON_TEXTS = {
    "approve": "requests approval",
    "unknown": "may or may not have run",
    DAMAGE_REASON: "a reply is lost: the tools it called may or may not have run",
}


class Question(msgspec.Struct, frozen=True):
    """An open question of a session to a person, and the tool call it is about."""

    session: SessionWriter
    attention: Attention
    open_call: OpenToolCall | None = None

    @property
    def id(self) -> str:
        """The id of the entry that asks."""
        return self.attention.id

    @property
    def reason(self) -> str:
        """Why a person is asked: `approve`, `unknown` (it may have run) or `damage` (a reply is lost)."""
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
    """Append the decision on a question; `by` names the person.

    A `result` is passed to the model as the result of the tool.
    """
    question = next((found for found in open_questions(session) if found.attention.id == attention_id), None)
    if question is None:
        raise NotFound(f"{session.name} has no open question {attention_id}")
    if decision not in question.choices:
        raise UsageError(
            f"the decision {decision!r} is not possible here", hint=f"use one of {', '.join(question.choices)}"
        )
    if (decision == "result") != (result is not None):
        raise UsageError("the decision `result` needs a result text, and no other decision takes one")
    content: Content | None = (Text(text=result),) if result is not None else None
    body = AttentionResolved(attention_id=attention_id, decision=decision, result=content, by=by)
    return session.append(body, at=question.attention.parent_id)
