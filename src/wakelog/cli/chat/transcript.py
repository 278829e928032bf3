"""Transcript of a chat: entries and journal pieces in, display items out. Pure: no clock, terminal or store.

Rule 1: displayed items stay; a streamed reply and one that is read whole from the log give the same items.
Rule 2: unfinished items (a block, a tool, a queued message) are live and shown while they last.
Rule 3: texts are returned as stored; the drawing code makes them visible.
A session that is opened is shown from its last exchange on, through the same code as all later entries: an interrupted
reply, a running tool and a queued message are live at once. Messages above the exchange are counted, and a long
exchange is shown from its end.
"""

import msgspec

from wakelog.cli.chat.items import Decision, Item, Notice, ReplyAssembler, RunningTool, ToolUse, UserMessage
from wakelog.cli.ui.quantities import plural
from wakelog.cli.ui.renderers import RecallNotices, RetryNotices
from wakelog.log.content import BaseMessage, ContentDelta, Note, Prompt, Reply, TextDelta, ToolCall, ToolResult
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Cancelled,
    Compaction,
    ContextEntry,
    Entry,
    Failed,
    Head,
    Message,
    ModelCall,
    ModelChange,
    Partial,
    Queued,
    Resumed,
    SessionRenamed,
    Spawned,
    Terminated,
    ToolStarted,
)
from wakelog.log.tree import Branch, Tree
from wakelog.ports.stores import Blobs
from wakelog.projections.context_changes import describe_context
from wakelog.projections.queue import waiting_messages
from wakelog.providers import format_model

_OUTPUT_MAX_CHARS = 400
ToolCallKey = tuple[str, str, str]
"""A tool call: session name, reply id, tool call id."""


class ChatTranscript:
    """One session as a chat displays it, with the tools of its sub-agents."""

    def __init__(self, session: str, blobs: Blobs | None = None) -> None:
        self._session = session
        self._open_replies: dict[str, ReplyAssembler] = {}
        self._early_pieces: dict[str, list[ContentDelta]] = {}
        self._tool_calls: dict[ToolCallKey, ToolCall] = {}
        self._running_calls: dict[str, ToolCallKey] = {}
        self._questions: dict[str, ToolCallKey] = {}
        self._retries = RetryNotices()
        self._recalls = RecallNotices(blobs) if blobs is not None else None
        self.tools: dict[ToolCallKey, RunningTool] = {}
        self.queue: dict[str, Queued] = {}
        self.compacting = False
        self.cancelling = False
        self.printed_replies: set[str] = set()
        """The replies that were displayed completely."""
        self.inputs_shown: set[ToolCallKey] = set()
        """The tool calls whose input was shown in full, because approval was requested."""
        self.context: ContextEntry | None = None
        """The settings in force."""
        self.expected_head_moves: set[str] = set()
        """Ids of head moves that are not reported, because a command made them as part of its work."""

    # ── live ─────────────────────────────────────────────────────────────────────────────────────

    def unfinished_lines(self, limit: int) -> list[str]:
        """Return the last lines of the unfinished block."""
        return [line for answer in self._open_replies.values() for line in answer.last_lines(limit)][-limit:]

    @property
    def thinking(self) -> str:
        """Return the current thought; empty if there is none."""
        return next((thought for answer in self._open_replies.values() if (thought := answer.thinking)), "")

    # ── pieces ───────────────────────────────────────────────────────────────────────────────────

    def add_piece(self, journal: str, delta: ContentDelta) -> list[Item]:
        """Handle a journal piece of a reply or of tool output. One that arrives before its entry is kept for it."""
        if journal in self._running_calls:
            self._add_tool_output(self._running_calls[journal], delta)
        elif journal in self._open_replies:
            return self._open_replies[journal].take(delta)
        elif journal not in self.printed_replies:
            self._early_pieces.setdefault(journal, []).append(delta)
        return []

    def _add_tool_output(self, key: ToolCallKey, delta: ContentDelta) -> None:
        if key in self.tools and isinstance(delta, TextDelta):
            tool = self.tools[key]
            output = (tool.output + delta.text)[-_OUTPUT_MAX_CHARS:]
            self.tools[key] = msgspec.structs.replace(tool, output=output)

    def _apply_early_pieces(self, journal: str) -> list[Item]:
        return [shown for delta in self._early_pieces.pop(journal, ()) for shown in self.add_piece(journal, delta)]

    # ── entries ──────────────────────────────────────────────────────────────────────────────────

    def add_entry(self, session: str, entry: Entry) -> list[Item]:
        """Handle an entry of the session or of one of its sub-agents; return the items to display."""
        shown = self._tool_entry(session, entry)
        if shown is None:
            shown = self._own_entry(entry) if session == self._session else []
        return shown

    def _tool_entry(self, session: str, entry: Entry) -> list[Item] | None:
        """Handle an entry about tools, here or in a sub-agent; None for other entries."""
        match entry.value:
            case Message(message=Reply() as reply):
                self._tool_calls |= {(session, entry.id, call.id): call for call in reply.tool_calls}
                return None
            case ToolStarted(reply_id=reply_id, tool_call_id=call_id, name=name):
                return self._tool_started((session, reply_id, call_id), name, entry)
            case Spawned(reply_id=reply_id, tool_call_id=call_id):
                return self._tool_started((session, reply_id, call_id), "agent", entry)
            case Message(message=ToolResult() as result):
                return self._tool_finished(session, result)
            case Attention(reply_id=str() as reply_id, tool_call_id=str() as call_id):
                self._questions[entry.id] = (session, reply_id, call_id)
                return []
            case AttentionResolved() as decision:
                return [self._decision(session, decision)]
        return None

    def _tool_started(self, key: ToolCallKey, name: str, entry: Entry) -> list[Item]:
        call = self._tool_calls.get(key)
        self._running_calls[entry.id] = key
        inside = key[0] != self._session
        self.tools[key] = RunningTool(name or "tool", call.input if call else None, entry.value.timestamp, inside)
        return self._apply_early_pieces(entry.id)

    def _tool_finished(self, session: str, result: ToolResult) -> list[Item]:
        key = (session, result.reply_id or "", result.tool_call_id)
        call = self._tool_calls.pop(key, None)
        self.tools.pop(key, None)
        inside = session != self._session
        return [ToolUse(result.tool_name, call.input if call else None, result, inside, key in self.inputs_shown)]

    def _decision(self, session: str, decision: AttentionResolved) -> Decision:
        call = self._tool_calls.get(self._questions.pop(decision.attention_id, ("", "", "")))
        name, tool_input = (call.name, call.input) if call is not None else ("", None)
        return Decision(decision, name, tool_input, session != self._session)

    def _own_entry(self, entry: Entry) -> list[Item]:
        retry_notice = self._retries.on_entry(self._session, entry)
        match entry.value:
            case Message(message=Reply() as reply):
                return self._reply(entry.id, reply)
            case Message(message=Prompt() as prompt):
                self._remove_queued(prompt.queued_id)
                return [UserMessage(prompt.text)]
            case Message(message=Note() as note):
                return [Notice(note.text, "dim")]
            case Queued(mode=mode, message=message):
                self.cancelling = self.cancelling or mode == "cancel"
                if message is not None and mode in ("steer", "followUp"):
                    self.queue[entry.id] = entry.value
                return []
            case ModelCall(reply_id=reply_id, purpose=purpose, queued_id=queued_id):
                recall_notice = self._recalls.on_entry(self._session, entry) if self._recalls is not None else ""
                notices = [Notice(text, "dim") for text in (retry_notice, recall_notice) if text]
                return [*notices, *self._model_call(reply_id, purpose, queued_id)]
            case Failed() if retry_notice:
                return [*self._finish_replies(), Notice(retry_notice, "warn")]
            case Partial() as partial:
                return self._partial(partial)
            case Resumed(reply_id=reply_id, strategy=strategy):
                return self._resumed(reply_id, strategy)
        return self._change_items(entry)

    def _change_items(self, entry: Entry) -> list[Item]:
        """Handle an entry that ends a turn or changes something; each gives a line."""
        match entry.value:
            case Cancelled():
                self.cancelling = False
                return [*self._finish_replies(), Notice("cancelled", "warn")]
            case Failed(error=error, reason=reason):
                why = (error.message or error.kind) if error is not None else reason
                return [*self._finish_replies(), Notice(f"the turn failed: {why}; /retry runs it again", "bad")]
            case Compaction(tokens_before=before, tokens_after=after):
                self.compacting = False
                known = before is not None and after is not None
                sizes = f" from about {before:,} to {after:,} tokens" if known else ""
                return [Notice(f"compacted{sizes}", "dim")]
            case ModelChange(model=model, provider=provider):
                return [Notice(f"model changed to {format_model(provider, model)}", "dim")]
            case ContextEntry() as context:
                previous, self.context = self.context, context
                return (
                    [Notice(f"context: {describe_context(context, previous)}", "dim")] if previous is not None else []
                )
            case SessionRenamed(title=title):
                return [Notice(f"renamed to {title}" if title else "title removed", "dim")]
            case Head() if entry.id in self.expected_head_moves:
                return self._finish_replies()
            case Head():
                return [
                    *self._finish_replies(),
                    Notice("head moved; the next message continues from there", "dim"),
                ]
            case Terminated():
                return [*self._finish_replies(), Notice("the session is terminated", "warn")]
        return []

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def _model_call(self, reply_id: str, purpose: str, queued_id: str | None) -> list[Item]:
        self._remove_queued(queued_id)
        self.compacting = purpose == "compaction"
        if purpose != "reply":
            # A summary is for the model; its pieces are not displayed.
            self._early_pieces.pop(reply_id, None)
            self.printed_replies.add(reply_id)
            return []
        self._open_replies.setdefault(reply_id, ReplyAssembler())
        return self._apply_early_pieces(reply_id)

    def _reply(self, reply_id: str, reply: Reply) -> list[Item]:
        self.printed_replies.add(reply_id)
        self.cancelling = self.cancelling and bool(reply.tool_calls)
        self._early_pieces.pop(reply_id, None)
        answer = self._open_replies.pop(reply_id, None) or ReplyAssembler()
        shown = [*answer.catch_up(reply.parts), *answer.finish()]
        odd = reply.stop_reason in ("length", "refusal", "filtered", "pause")
        return [*shown, Notice(f"the model stopped: {reply.stop_reason}", "warn")] if odd else shown

    def _partial(self, partial: Partial) -> list[Item]:
        if partial.error is not None:
            self.compacting = False
            return [Notice(f"not compacted: {partial.error.message or partial.error.kind}", "warn")]
        if partial.tool_call_id is not None:
            return []
        self._early_pieces.pop(partial.reply_id, None)
        answer = self._open_replies.setdefault(partial.reply_id, ReplyAssembler())
        return answer.catch_up(BaseMessage(content=partial.content).parts)

    def _resumed(self, reply_id: str, strategy: str) -> list[Item]:
        answer = self._open_replies.get(reply_id)
        if answer is None or strategy == "resume":
            if answer is not None:
                answer.resume()
            return []
        self._open_replies[reply_id] = ReplyAssembler()
        begun = answer.has_begun
        return [*answer.finish(), *([Notice("reply interrupted; starting over", "warn")] if begun else ())]

    def _finish_replies(self) -> list[Item]:
        """Finish the display of replies that will not be continued."""
        left, self._open_replies = self._open_replies, {}
        return [shown for answer in left.values() for shown in answer.finish()]

    def _remove_queued(self, queued_id: str | None) -> None:
        self.queue.pop(queued_id or "", None)


_ITEMS_MAX = 40
# Queued messages are taken from the state, because they may have been used; an earlier head move is not shown.
_OMITTED_TYPES = (Queued, Head)


def initial_items(transcript: ChatTranscript, name: str, tree: Tree, messages: int) -> list[Item]:
    """Return the items of the last exchange at the head; `messages` is the number of messages in all."""
    branch = tree.branch()
    entries = last_exchange(branch)
    transcript.context = _settings_before(branch, entries)
    for queued in waiting_messages(tree):
        if queued.message is not None:
            transcript.queue[queued.id] = queued
    shown = [one for entry in entries for one in transcript.add_entry(name, entry)]
    above = max(0, messages - sum(isinstance(entry.value, Message) for entry in entries))
    omitted = max(0, len(shown) - _ITEMS_MAX)
    return [*_omitted_notice(name, above, omitted), *shown[-_ITEMS_MAX:]]


def _settings_before(branch: Branch, entries: list[Entry]) -> ContextEntry | None:
    shown = {entry.id for entry in entries}
    contexts = [node.value for node in branch.nodes if isinstance(node.value, ContextEntry)]
    return next((context for context in reversed(contexts) if context.id not in shown), None)


def _omitted_notice(name: str, messages: int, omitted: int) -> list[Item]:
    counts = [plural(messages, "message")] if messages else []
    counts += [f"{plural(omitted, 'block')} of the last exchange"] if omitted else []
    return [Notice(f"{' and '.join(counts)} not shown; `wakelog show {name}` shows all", "dim")] if counts else []


def last_exchange(branch: Branch) -> list[Entry]:
    """Return the last prompt and everything after it: nodes in branch order, with their annotations."""
    nodes = branch.nodes
    start = next((at for at in range(len(nodes) - 1, -1, -1) if _is_prompt(nodes[at])), len(nodes))
    here = nodes[start:]
    own = {node.id for node in nodes[max(start, branch.inherited) :]}
    # Selected by parent: in log order, annotations of an earlier node may lie among these entries.
    annotations = [
        annotation
        for annotation in branch.annotations
        if annotation.value.parent_id in own and not isinstance(annotation.value, _OMITTED_TYPES)
    ]
    inherited = [node for node in here if node.id not in own]
    return [
        *inherited,
        *sorted((*(node for node in here if node.id in own), *annotations), key=lambda entry: entry.seq),
    ]


def _is_prompt(node: Entry) -> bool:
    return isinstance(node.value, Message) and isinstance(node.value.message, Prompt)
