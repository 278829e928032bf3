"""Recovery of a recorded session after a crash: interrupted replies and open tool calls, without running anything.

Rule 1: what was displayed of an interrupted reply, and the live output of a tool, becomes a `partial` entry.
Rule 2 (law 7): every open tool call gets exactly one result. It is the receipt of the tool if there is one; else what
the log alone proves (`settle_unrun`, which the runtime uses too). A receipt function that raises leaves the outcome of
its call `unknown`; the other calls are settled.
Rule 3 (law 6): where a reply is unreadable, the model is told which tools it may have started.
"""

from collections.abc import Mapping

import msgspec

from wakelog.decide import wording
from wakelog.decide.assembly import journal_subject, partial_from_journal
from wakelog.decide.damage import notice_text
from wakelog.decide.open_tool_calls import settle_unknown, settle_unrun
from wakelog.decide.outcomes import outcome_notice, untold_answers
from wakelog.decide.wording import clip
from wakelog.errors import Conflict, UsageError
from wakelog.log.content import BaseMessage, Text, ToolCall, ToolResult
from wakelog.log.entry import Custom, Entry, Partial
from wakelog.log.lines import Damage
from wakelog.log.tree import Tree
from wakelog.ports.runtime import ToolOutcome
from wakelog.ports.stores import Lease
from wakelog.projections.losses import DAMAGE_NOTICE, losses, notice_data
from wakelog.projections.pending import OpenToolCall, open_tool_calls
from wakelog.recording.streams import StreamRecorder
from wakelog.recording.tool_runs import FindReceipt, append_result, ask_receipt, error_text, write_result
from wakelog.redaction.redactor import redact
from wakelog.writer import SessionWriter

_ERROR_MAX_BYTES = 2_000


class FailedReceipt(msgspec.Struct, frozen=True):
    """A receipt function that raised: the tool call it was asked for, and the exception."""

    tool_call: ToolCall
    exception: Exception


class Recovery(msgspec.Struct, frozen=True):
    """What `recover` found and wrote. It is false if there was nothing to recover."""

    tool_results: tuple[ToolResult, ...] = ()
    """The result that each open tool call got."""
    partials: tuple[Partial, ...] = ()
    """What was displayed of interrupted replies, and the output of interrupted tools."""
    damage: tuple[Damage, ...] = ()
    """Unreadable places in the part of the log that was read."""
    notice: str = ""
    """What the model is told about unreadable replies."""
    failed_receipts: tuple[FailedReceipt, ...] = ()
    """The receipt functions that raised; the outcome of their calls is `unknown`."""

    def __bool__(self) -> bool:
        return bool(self.tool_results or self.partials or self.notice)

    @property
    def interrupted_text(self) -> str:
        """The text that was displayed of an interrupted reply."""
        return "".join(BaseMessage(content=each.content).text for each in self.partials if each.tool_call_id is None)


def recover(session: StreamRecorder, receipts: Mapping[str, FindReceipt]) -> Recovery:
    """Recover a session. Tools and the reply that this object itself is running are left alone."""
    _check_receipts(receipts)
    lease = session.hold_lease()
    if session.stream is not None or session.running:
        running = {call for _, call in session.running}
        hint = "wait until their with statements end; recover is for what a crash left open"
        raise Conflict(f"this program is running {', '.join(running) or 'a reply'}", hint=hint)
    partials = recover_journals(session, lease)
    failed: list[FailedReceipt] = []
    results = [_settle(session, lease, call, receipts, failed) for call in open_tool_calls(session.branch())]
    notice = _tell_about_damage(session, lease)
    tell_answers(session, session.tree, lease)
    return Recovery(tuple(results), partials, session.damage, notice, tuple(failed))


def _check_receipts(given: object) -> None:
    if not isinstance(given, Mapping) or not all(callable(find) for find in given.values()):
        hint = 'pass a function for each tool, such as recover({"pay": find_payment})'
        raise UsageError("the receipts are not functions by the name of their tool", hint=hint)


def _settle(
    session: SessionWriter,
    lease: Lease,
    call: OpenToolCall,
    receipts: Mapping[str, FindReceipt],
    failed: list[FailedReceipt],
) -> ToolResult:
    """Write the result of an open tool call and return it; a receipt function that raises is added to `failed`."""
    find = receipts.get(call.tool_call.name)
    result = settle_unrun(session.tree, session.branch(), call, skipped=wording.NOT_BEGUN_BEFORE_STOP)
    try:
        is_unknown = result.status == "unknown" and call.may_have_started
        answer = ask_receipt(find, call) if find is not None and is_unknown else None
    except Exception as error:  # noqa: BLE001 - a receipt function may be any code, and raise anything
        failed.append(FailedReceipt(call.tool_call, error))
        answer = None
        if result.copied_from is None:
            result = settle_unknown(call, wording.UNKNOWN_RECEIPT_FAILED.format(error=_short_text(session, error)))
    if isinstance(answer, ToolOutcome):
        return write_result(session, lease, call, "error" if answer.is_error else "ok", answer)
    append_result(session, lease, result)
    return result


def _short_text(session: SessionWriter, error: Exception) -> str:
    # Redacted before it is clipped: half of a secret is not recognised as one.
    return clip(redact(error_text(error), session.policy.redact, session.known_secrets).text, _ERROR_MAX_BYTES)[0]


def _tell_about_damage(session: SessionWriter, lease: Lease) -> str:
    """Write the notice about unreadable entries since the last compaction, once for each; return its text."""
    tree = session.tree
    found = losses(tree, tree.branch())
    if found is None:
        return ""
    text = notice_text(found)
    body = Custom(custom_type=DAMAGE_NOTICE, data=notice_data(found), in_context=True, content=(Text(text=text),))
    session.append(body, lease=lease)
    return text


def tell_answers(session: SessionWriter, tree: Tree, lease: Lease | None) -> None:
    """Write the notice that tells the model what people have answered about unknown outcomes, once for each answer."""
    answered = untold_answers(tree)
    if answered:
        session.append(outcome_notice(answered), lease=lease)


def recover_journals(session: SessionWriter, lease: Lease) -> tuple[Partial, ...]:
    """Append what each journal holds beyond the log as a `partial` annotation, and drop the journal."""
    entries: list[Entry] = []
    for journal, pieces in session.store.journals(session.name).items():
        tree = _tree_with_subject(session, journal)
        partial = partial_from_journal(tree, journal, pieces)
        if partial is not None:
            # If the reply itself is unreadable, the output of its tool is attached to the head.
            at = partial.parent_id if partial.parent_id in tree.nodes else None
            entries.append(session.append(partial, at=at, lease=lease))
        session.store.drop(session.name, journal)
    return tuple(entry.value for entry in entries if isinstance(entry.value, Partial))


def _tree_with_subject(session: SessionWriter, journal: str) -> Tree:
    """Return a tree that holds the subject of a journal: the loaded tail, or the whole log if the tail does not."""
    tree = session.tree
    return tree if not tree.partial or journal_subject(tree, journal) is not None else session.read().tree
