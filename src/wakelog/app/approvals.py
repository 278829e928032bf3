"""Approvals and questions: the decisions that a session and the sub-agents it waits for need from a person.

An approval must not cover anything unseen: a front end shows the whole input of a tool call. A decision is one new
entry; `always` also changes the settings, so that the tool runs without approval from then on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wakelog.app.addresses import Address, find_entry
from wakelog.decide.policy import Approval, Policy, policy_in_force
from wakelog.errors import NotFound, UsageError
from wakelog.log.entry import ContextEntry, Origin
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.ports.stores import Store
from wakelog.projections.branch_state import branch_state
from wakelog.questions import Question, open_questions, unknown_outcomes
from wakelog.reading import read_session_header
from wakelog.runtime.context_entry import with_policy
from wakelog.runtime.model_request import declared_tools
from wakelog.runtime.tool_declarations import ToolDeclarations
from wakelog.session import Session
from wakelog.writer import SessionWriter


def root_session(store: Store, name: str) -> str:
    """Return the root of a chain of sub-agents: the session to wake so that all of them continue."""
    seen: set[str] = set()
    while name not in seen:
        seen.add(name)
        first = read_session_header(store, name)
        origin = first.value.parent if first is not None and isinstance(first.value, SessionEntry) else None
        if not isinstance(origin, Origin) or origin.kind != "subagent":
            return name
        try:
            name = store.name(origin.session)
        except NotFound:
            return name
    return name


def decide_question(root: Session, item: Question, word: str) -> bool:
    """Append a decision; `always` also lets the tool run without approval from now on. False if it decides nothing.

    For a sub-agent of the same agent as `root`, `always` holds for `root` too, and so for its later sub-agents.
    """
    if word == "always":
        allow_always(item.session, item.tool)
        if root.tree.header.agent == item.session.tree.header.agent:
            allow_always(root, item.tool)
        word = "approve"
    return _append_decision(item, word)


def approve_all(left: list[Question]) -> bool:
    """Approve every question that only waits for approval; return whether there was any."""
    decided = [_append_decision(item, "approve") for item in left if item.reason == "approve"]
    return any(decided)


def _append_decision(item: Question, word: str) -> bool:
    decision = next((choice for choice in item.choices if choice == word), None)
    if decision is None:
        return False
    item.answer(decision)
    return True


def find_question(address: Address, opened: Session) -> Question:
    """Return the addressed question or unknown outcome: named by its own entry or by its reply, or the only one.

    Without an entry, a question that stops the session comes before unknown outcomes.
    """
    waiting, outcomes = open_questions(opened), unknown_outcomes(opened)
    found = waiting or outcomes
    if address.entry is not None:
        entry_id = find_entry(opened.read(), address.entry)
        found = [
            question
            for question in (*waiting, *outcomes)
            if entry_id in (question.attention.id, question.attention.reply_id)
        ]
        if not found:
            raise NotFound(
                f"entry {address.entry} of {address.ref} has no open question", hint="see `wakelog questions`"
            )
    if not found:
        raise NotFound(f"{address.ref} has no open question", hint="see `wakelog questions`")
    if len(found) > 1:
        places = ", ".join(f"{address.ref}:{question.attention.seq}" for question in found)
        raise UsageError(f"{address.ref} has {len(found)} open questions", hint=f"name one of {places}")
    return found[0]


def allow_always(session: SessionWriter, tool: str) -> None:
    """Let a tool of a session run without approval from now on, if it needed approval before."""
    context = branch_state(session.branch()).context
    asks = policy_in_force(context).approval_of(tool) == "ask"
    if (
        asks
        and ToolDeclarations(session.store.blobs).approvals_error(context, Policy(approvals={tool: "auto"})) is None
    ):
        _set_approval(session, tool, "auto")


def require_approval(session: Session, tool: str) -> None:
    """Make a tool ask for approval from now on. `UsageError` if the session has no such tool."""
    names = [str(declared.get("name", "")) for declared in _tool_declarations(session)]
    if tool not in names:
        raise UsageError(f"the session has no tool {tool!r}", hint=f"its tools are {', '.join(names)}" if names else "")
    _set_approval(session, tool, "ask")


def tools_without_approval(session: Session) -> list[str]:
    """Return the tools that run without approval."""
    policy = policy_in_force(branch_state(session.branch()).context)
    names = [str(declared.get("name", "")) for declared in _tool_declarations(session)]
    return [name for name in names if policy.approval_of(name) == "auto"]


def _tool_declarations(session: Session) -> Sequence[Mapping[str, Any]]:
    context = branch_state(session.branch()).context
    return declared_tools(session.store.blobs, context.tools, context.id) if context is not None else ()


def _set_approval(session: SessionWriter, tool: str, how: Approval) -> None:
    context = branch_state(session.branch()).context or ContextEntry()
    policy = policy_in_force(context)
    if policy.approval_of(tool) != how:
        approvals = {**policy.approvals, tool: how}
        session.append(with_policy(context.without_envelope, msgspec.structs.replace(policy, approvals=approvals)))
