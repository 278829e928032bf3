"""Fold of a chat: entries and journal pieces in, display items out. Pure: no clock, no terminal, no store.

Rule 1: displayed items stay; a streamed reply and one that is read whole from the log give the same items.
Rule 2: unfinished items (a block, a tool, a queued message) are live and shown while they last.
Rule 3: texts are returned as stored; the drawing code makes them visible.
"""

import msgspec

from wakelog.cli.chat.replies import Answer
from wakelog.cli.chat.shown import Decided, Notice, Prompted, Shown, Tool, Used
from wakelog.cli.tries import Tries
from wakelog.log.content import BaseMessage, Note, Prompt, Reply, ToolCall, ToolResult
from wakelog.log.deltas import Spoken, TextDelta
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Call,
    Cancelled,
    Compaction,
    ContextEntry,
    Entry,
    Failed,
    Head,
    Message,
    ModelChange,
    Partial,
    Queued,
    Resumed,
    SessionRenamed,
    Spawned,
    Terminated,
    ToolStarted,
)
from wakelog.projections.context_words import context_words
from wakelog.providers import spelled

_OUTPUT_CHARS = 400

Key = tuple[str, str, str]
"""A tool call: session name, reply id, tool call id."""


class ChatState:
    """One session as a chat displays it, with the tools of its sub-agents."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._answers: dict[str, Answer] = {}
        self._early: dict[str, list[Spoken]] = {}
        self._asked: dict[Key, ToolCall] = {}
        self._started: dict[str, Key] = {}
        self._questions: dict[str, Key] = {}
        self._tries = Tries()
        self.tools: dict[Key, Tool] = {}
        self.queue: dict[str, Queued] = {}
        self.summarising = False
        self.cancelling = False
        self.replies: set[str] = set()
        """The replies that were displayed completely."""
        self.told: set[Key] = set()
        """The tool calls with inputs that were shown in full, because approval was requested."""
        self.context: ContextEntry | None = None
        """The settings in force."""
        self.expected: set[str] = set()
        """Ids of head moves that are not reported, because a command made them as part of its work."""

    # ── live ─────────────────────────────────────────────────────────────────────────────────────

    def unfinished(self, most: int) -> list[str]:
        """Return the last lines of the unfinished block."""
        return [line for answer in self._answers.values() for line in answer.rest(most)][-most:]

    @property
    def thinking(self) -> str:
        """Return the current thought; empty if there is none."""
        return next((thought for answer in self._answers.values() if (thought := answer.thinking)), "")

    # ── pieces ───────────────────────────────────────────────────────────────────────────────────

    def piece(self, journal: str, delta: Spoken) -> list[Shown]:
        """Handle a journal piece of a reply or of tool output. One that arrives before its entry is kept for it."""
        if journal in self._started:
            self._put_out(self._started[journal], delta)
        elif journal in self._answers:
            return self._answers[journal].take(delta)
        elif journal not in self.replies:
            self._early.setdefault(journal, []).append(delta)
        return []

    def _put_out(self, key: Key, delta: Spoken) -> None:
        if key in self.tools and isinstance(delta, TextDelta):
            tool = self.tools[key]
            output = (tool.output + delta.text)[-_OUTPUT_CHARS:]
            self.tools[key] = msgspec.structs.replace(tool, output=output)

    def _catch_up(self, journal: str) -> list[Shown]:
        return [shown for delta in self._early.pop(journal, ()) for shown in self.piece(journal, delta)]

    # ── entries ──────────────────────────────────────────────────────────────────────────────────

    def hear(self, session: str, entry: Entry) -> list[Shown]:
        """Handle an entry of the session or of one of its sub-agents; return the items to display."""
        shown = self._tool_entry(session, entry)
        if shown is None:
            shown = self._own_entry(entry) if session == self._session else []
        return shown

    def _tool_entry(self, session: str, entry: Entry) -> list[Shown] | None:
        """Handle an entry about tools, here or in a sub-agent; None for other entries."""
        match entry.value:
            case Message(message=Reply() as reply):
                self._asked |= {(session, entry.id, call.id): call for call in reply.calls}
                return None
            case ToolStarted(reply_id=reply_id, tool_call_id=call_id, name=name):
                return self._begin((session, reply_id, call_id), name, entry)
            case Spawned(reply_id=reply_id, tool_call_id=call_id):
                return self._begin((session, reply_id, call_id), "agent", entry)
            case Message(message=ToolResult() as result):
                return self._settle(session, result)
            case Attention(reply_id=str() as reply_id, tool_call_id=str() as call_id):
                self._questions[entry.id] = (session, reply_id, call_id)
                return []
            case AttentionResolved() as decision:
                return [self._decided(session, decision)]
        return None

    def _begin(self, key: Key, name: str, entry: Entry) -> list[Shown]:
        call = self._asked.get(key)
        self._started[entry.id] = key
        inside = key[0] != self._session
        self.tools[key] = Tool(name or "tool", call.input if call else None, entry.value.timestamp, inside)
        return self._catch_up(entry.id)

    def _settle(self, session: str, result: ToolResult) -> list[Shown]:
        key = (session, result.reply_id or "", result.tool_call_id)
        call = self._asked.pop(key, None)
        self.tools.pop(key, None)
        inside = session != self._session
        return [Used(result.tool_name, call.input if call else None, result, inside, key in self.told)]

    def _decided(self, session: str, decision: AttentionResolved) -> Decided:
        call = self._asked.get(self._questions.pop(decision.attention_id, ("", "", "")))
        name, given = (call.name, call.input) if call is not None else ("", None)
        return Decided(decision, name, given, session != self._session)

    def _own_entry(self, entry: Entry) -> list[Shown]:
        tried = self._tries.hear(self._session, entry)
        match entry.value:
            case Message(message=Reply() as reply):
                return self._reply(entry.id, reply)
            case Message(message=Prompt() as said):
                self._forget_queued(said.queued_id)
                return [Prompted(said.text)]
            case Message(message=Note() as note):
                return [Notice(note.text, "dim")]
            case Queued(mode=mode, message=message):
                self.cancelling = self.cancelling or mode == "cancel"
                if message is not None and mode in ("steer", "followUp"):
                    self.queue[entry.id] = entry.value
                return []
            case Call(reply_id=reply_id, purpose=purpose, queued_id=queued_id):
                again = [Notice(tried, "dim")] if tried else []
                return [*again, *self._call(reply_id, purpose, queued_id)]
            case Failed() if tried:
                return [*self._cut(), Notice(tried, "warn")]
            case Partial() as partial:
                return self._partial(partial)
            case Resumed(reply_id=reply_id, strategy=strategy):
                return self._resumed(reply_id, strategy)
        return self._ended(entry)

    def _ended(self, entry: Entry) -> list[Shown]:
        """Handle an entry that ends a turn or changes something; each gives a line."""
        match entry.value:
            case Cancelled():
                self.cancelling = False
                return [*self._cut(), Notice("cancelled", "warn")]
            case Failed(error=error, reason=reason):
                why = (error.message or error.kind) if error is not None else reason
                return [*self._cut(), Notice(f"the turn failed: {why}; /retry tries it again", "bad")]
            case Compaction(tokens_before=before, tokens_after=after):
                self.summarising = False
                known = before is not None and after is not None
                sizes = f" from about {before:,} to {after:,} tokens" if known else ""
                return [Notice(f"folded{sizes}", "dim")]
            case ModelChange(model=model, provider=provider):
                return [Notice(f"from here on {spelled(provider, model)} answers", "dim")]
            case ContextEntry() as record:
                was, self.context = self.context, record
                return [Notice(f"context: {context_words(record, was)}", "dim")] if was is not None else []
            case SessionRenamed(title=title):
                return [Notice(f"now called {title}" if title else "has no title now", "dim")]
            case Head() if entry.id in self.expected:
                return self._cut()
            case Head():
                return [*self._cut(), Notice("the head was moved: what comes next goes on from there", "dim")]
            case Terminated():
                return [*self._cut(), Notice("this session is over for good", "warn")]
        return []

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def _call(self, reply_id: str, purpose: str, queued_id: str | None) -> list[Shown]:
        self._forget_queued(queued_id)
        self.summarising = purpose == "compaction"
        if purpose != "reply":
            # A summary is for the model; its pieces are not displayed.
            self._early.pop(reply_id, None)
            self.replies.add(reply_id)
            return []
        self._answers.setdefault(reply_id, Answer())
        return self._catch_up(reply_id)

    def _reply(self, reply_id: str, reply: Reply) -> list[Shown]:
        self.replies.add(reply_id)
        self.cancelling = self.cancelling and bool(reply.calls)
        self._early.pop(reply_id, None)
        answer = self._answers.pop(reply_id, None) or Answer()
        shown = [*answer.catch_up(reply.parts), *answer.finish()]
        odd = reply.stop_reason in ("length", "refusal", "filtered", "pause")
        return [*shown, Notice(f"the model stopped: {reply.stop_reason}", "warn")] if odd else shown

    def _partial(self, partial: Partial) -> list[Shown]:
        if partial.error is not None:
            self.summarising = False
            return [Notice(f"not folded: {partial.error.message or partial.error.kind}", "warn")]
        if partial.tool_call_id is not None:
            return []
        self._early.pop(partial.reply_id, None)
        answer = self._answers.setdefault(partial.reply_id, Answer())
        return answer.catch_up(BaseMessage(content=partial.content).parts)

    def _resumed(self, reply_id: str, strategy: str) -> list[Shown]:
        answer = self._answers.get(reply_id)
        if answer is None or strategy == "resume":
            if answer is not None:
                answer.go_on()
            return []
        self._answers[reply_id] = Answer()
        begun = answer.begun
        return [*answer.finish(), *([Notice("cut off there; starting over", "warn")] if begun else ())]

    def _cut(self) -> list[Shown]:
        """Finish the display of replies that will not be continued."""
        left, self._answers = self._answers, {}
        return [shown for answer in left.values() for shown in answer.finish()]

    def _forget_queued(self, queued_id: str | None) -> None:
        self.queue.pop(queued_id or "", None)
