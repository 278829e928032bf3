"""The entries of a Codex session, from the lines of its rollout.

A rollout holds two interleaved logs. `response_item` lines are what the model saw and said: messages are made from
these alone. `event_msg` lines are what was displayed: they give turns, usage, interruptions and names. An event that
only repeats an item is counted as skipped, any other is kept verbatim.

**Replies.** The items of one response are lines of their own. A reply is the run of items of the model up to the first
line that ends it: the usage of the response, an input of the model (a message, a tool result), a context of a turn, the
beginning or the end of a turn, a compaction, a rollback, a session header. Other lines do not end it; they are entries
behind the reply. Versions of 2025 wrote each call together with its result: there a response with two calls is two
replies. The id of a reply is made from its last item.

**When a file has grown**, its entries are the same as before, followed by new ones. The reply in which the file ended
may have more items: where its beginning is known from an earlier import, the rest of it becomes a second reply. An
event at the end whose item may not be written yet, and usage whose reply may not be, are only counted. Usage that is
written behind a reply becomes that of the reply; its id stays the same.

**Usage** stands behind the items of a response, behind their results or the end of their turn, or, in versions of 2025,
before the items. It
stands before them if it was written between an event and the item that the event displays, or directly before an item
whose reply has none behind it. Usage that is not that of a reply is kept verbatim.

**Ids**: see `identities.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from wakelog.exchange.codex.entries import EntryBuilder
from wakelog.exchange.codex.identities import digest_of_text
from wakelog.exchange.codex.items import (
    ITEM_TYPES,
    RESULT_TYPES,
    TOOL,
    input_message,
    is_from_model,
    model_parts,
    objects_in,
    text_of,
)
from wakelog.exchange.codex.lines import Line, LineItem
from wakelog.exchange.sessions import ImportedItem, timestamp_of
from wakelog.log.content import AnyPart, JsonObject, Note, Prompt, Reply, Text, ToolCall
from wakelog.log.entry import Cancelled, Compaction, Failed, FaultReport, Head, ModelChange, SessionRenamed

# Keys of a display event that hold nothing besides the text and what the item states, too.
_DISPLAY_KEYS = frozenset({"type", "message", "text", "phase", "client_id", "kind", "id", "content", "turn_id"})


class Transcript:
    """The state while the lines of one session are read."""

    def __init__(self, thread_id: str, started: str, is_known: Callable[[str], bool] | None = None) -> None:
        self._thread_id = thread_id
        self._entries = EntryBuilder(thread_id, started, is_known)
        self._last_settings: dict[str, bytes] = {}
        self._was_compacted = False
        # Where a rollback continues: for each prompt, the entry before it and before the context added for it.
        self._points: list[str | None] = []
        self._is_in_context = False
        self._context_tip: str | None = None

    def read(self, lines: Iterable[LineItem]) -> Iterator[ImportedItem]:
        """Yield the entries of the lines, and what is not an entry."""
        for line in lines:
            if isinstance(line, Line):
                self._entries.begin_line(line, timestamp_of(line.timestamp, self._entries.timestamp))
                self._take(line)
            else:
                self._entries.report(line)
            yield from self._entries.finished()
        self._entries.finish()
        yield from self._entries.finished()
        yield from self._entries.skipped()

    def _take(self, line: Line) -> None:
        entries, payload = self._entries, line.payload
        match line.kind:
            case "response_item":
                self._take_item(line, payload)
            case "event_msg":
                self._take_event(line, payload)
            case "turn_context":
                entries.end_reply()
                self._take_settings(line, payload, payload.get("model"), None)
            case "session_meta" | "session":
                entries.end_reply()
                if line.origin:
                    entries.ids.begin_session(line.origin)
                entries.provider = text_of(payload.get("model_provider")) or entries.provider
                entries.add_verbatim(line)
            case "compacted":
                entries.end_reply()
                self._take_compaction(line, payload)
            case "token_usage_record":
                entries.take_usage_record(line)
            case "inter_agent_communication":
                self._take_message(line, _as_agent_message(payload))
            case _:
                entries.keep(line)

    # ── items ────────────────────────────────────────────────────────────────────────────────────

    def _take_item(self, line: Line, item: JsonObject) -> None:
        entries, kind = self._entries, item.get("type")
        if not isinstance(kind, str) or kind not in ITEM_TYPES or kind == "ghost_snapshot":
            entries.keep(line)
        elif is_from_model(item):
            self._is_in_context = False
            entries.note_displayed(item)
            entries.extend_reply(line, item)
        elif kind in RESULT_TYPES:
            self._is_in_context = False
            entries.end_reply(may_wait=True)
            entries.take_result(line, item)
        else:
            self._take_message(line, item)

    def _take_message(self, line: Line, item: JsonObject) -> None:
        entries, message = self._entries, input_message(item)
        is_prompt, is_from_agent = isinstance(message, Prompt), item.get("type") == "agent_message"
        entries.note_displayed(item, is_prompt=is_prompt)
        entries.end_reply()
        if is_prompt or is_from_agent:
            has_context = self._is_in_context and bool(self._points)
            self._points.append(self._context_tip if has_context else entries.tip)
        elif not self._is_in_context:
            self._context_tip = entries.tip
        self._is_in_context = not (is_prompt or is_from_agent)
        message_id = entries.ids.take(line, entries.ids.of_item(item))
        entries.add_message(message_id, message)
        entries.note_item(item, message_id)
        if is_from_agent:
            # Author and recipient have no place in a message.
            entries.add_verbatim(line, suffix=":line", records=0)

    # ── settings and compactions ─────────────────────────────────────────────────────────────────

    def _take_settings(self, line: Line, settings: JsonObject, model: Any, provider: Any) -> None:
        """Keep settings unless they are those before, and write a change of the model."""
        entries = self._entries
        digest = digest_of_text(repr(settings))
        if self._last_settings.get(line.name) == digest:
            entries.skip(line, "repeats the one before it")
            return
        self._last_settings[line.name] = digest
        entries.keep(line)
        new_model, new_provider = text_of(model) or entries.model, text_of(provider) or entries.provider
        if new_model is None or (new_model, new_provider) == (entries.model, entries.provider):
            return
        if not entries.is_between_replies:
            entries.end_reply()
        entries.model, entries.provider = new_model, new_provider
        body = ModelChange(
            id=entries.ids.take(line, suffix=":model"),
            parent_id=entries.tip,
            timestamp=entries.timestamp,
            model=new_model,
            provider=new_provider,
        )
        entries.add(body, 0)

    def _take_compaction(self, line: Line, payload: JsonObject) -> None:
        entries = self._entries
        self._is_in_context = False
        history = list(objects_in(payload.get("replacement_history")))
        summary = text_of(payload.get("message"))
        # The model sees the summary behind an introduction, as the last such message.
        texts = [_input_text(item) for item in history]
        seen = [number for number, text in enumerate(texts) if summary and text.endswith(summary)][-1:]
        is_first = bool(summary) and texts[:1] == [summary]
        kept_from = entries.first_kept(history[is_first:]) if is_first or not summary else None
        window = text_of(payload.get("window_id"))
        body = Compaction(
            id=entries.ids.take(line, f"compacted:{window}" if window else None),
            parent_id=entries.tip,
            timestamp=entries.timestamp,
            summary=texts[seen[0]] if seen and kept_from is None else summary,
            first_kept_entry_id=kept_from,
            tokens_before=entries.context_tokens,
            trigger="unknown",
        )
        entries.add(body)
        self._was_compacted = True
        for number, item in enumerate(history if kept_from is None else ()):
            if number not in seen:
                self._add_replacement(line, item, f":{number}")
        rest = {key: value for key, value in payload.items() if key not in ("message", "replacement_history")}
        if rest:
            entries.add_verbatim(line, rest, suffix=":rest", records=0)

    def _add_replacement(self, line: Line, item: JsonObject, suffix: str) -> None:
        """Add an item of the history that replaces the one before a compaction: as a note, as a reply, or verbatim."""
        entries = self._entries
        parts: tuple[AnyPart, ...] = model_parts(item, None) if is_from_model(item) else ()
        if item.get("type") == "message" and not parts:
            message = input_message(item)
            kind = message.custom_type.removeprefix(TOOL) if isinstance(message, Note) else ""
            note = Note(content=message.content, custom_type=f"{TOOL}:replacement_history{kind}"[:100])
            entries.add_message(entries.ids.take(line, suffix=suffix), note, 0)
        elif parts and not any(isinstance(part, ToolCall) for part in parts):
            reply = Reply(content=parts, model=entries.model, provider=entries.provider)
            entries.add_message(entries.ids.take(line, suffix=suffix), reply, 0)
        else:
            entries.add_verbatim(line, item, suffix=suffix, records=0)

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    def _take_event(self, line: Line, event: JsonObject) -> None:
        match event.get("type"):
            case "token_count":
                self._entries.take_token_count(line)
            case "user_message" | "agent_message" | "agent_reasoning" | "agent_reasoning_raw_content":
                self._take_display(line, event, text_of(event.get("message")) or text_of(event.get("text")))
            case "item_completed":
                item = event.get("item")
                self._take_displayed_item(line, item if isinstance(item, dict) else {})
            case "thread_name_updated":
                self._take_name(line, event)
            case "thread_settings_applied":
                found = event.get("thread_settings")
                settings = found if isinstance(found, dict) else {}
                self._take_settings(line, event, settings.get("model"), settings.get("model_provider_id"))
            case "context_compacted" if self._was_compacted and len(event) == 1:
                self._was_compacted = False
                self._entries.skip(line, "repeats the compaction before it")
            case "collab_agent_spawn_end":
                self._entries.keep(line)
                self._entries.note_spawned(line, event.get("call_id"), event.get("new_thread_id"))
            case _:
                self._take_turn_event(line, event)

    def _take_turn_event(self, line: Line, event: JsonObject) -> None:
        match event.get("type"):
            case "task_started" | "turn_started":
                self._entries.end_reply()
                self._entries.add_verbatim(line)
            case "task_complete" | "turn_complete":
                self._entries.end_reply(may_wait=True)
                self._entries.add_verbatim(line)
                self._add_failure(line, event.get("error"))
            case "error":
                self._entries.end_reply(may_wait=True)
                self._entries.add_verbatim(line)
                self._add_failure(line, event)
            case "turn_aborted":
                self._take_abort(line, event)
            case "thread_rolled_back":
                self._take_rollback(line, event.get("num_turns"))
            case _:
                self._entries.keep(line)

    def _take_display(self, line: Line, event: JsonObject, text: str) -> None:
        """Skip an event that shows what an item holds; keep one that holds more."""
        if any(value for key, value in event.items() if key not in _DISPLAY_KEYS):
            self._entries.keep(line)
        else:
            self._entries.keep_unless_repeated(line, text)

    def _take_displayed_item(self, line: Line, item: JsonObject) -> None:
        match item.get("type"):
            case "UserMessage" | "AgentMessage":
                contents = list(objects_in(item.get("content")))
                text = "".join(text_of(content.get("text")) for content in contents)
                more = [content[key] for content in contents for key in content if key not in ("type", "text")]
                self._take_display(line, {**item, "more": any(more)}, text)
            case "Reasoning":
                texts = [*_strings(item.get("summary_text")), *_strings(item.get("raw_content"))]
                if texts:
                    rest = {key: item[key] for key in item if key not in ("summary_text", "raw_content")}
                    self._take_display(line, rest, "\n\n".join(texts))
                else:
                    self._entries.skip(line, "displays reasoning without text")
            case "CollabAgentToolCall" if "spawn" in text_of(item.get("tool")).lower():
                self._entries.keep(line)
                for child in _strings(item.get("receiverThreadIds") or item.get("receiver_thread_ids")):
                    self._entries.note_spawned(line, item.get("id"), child)
            case _:
                self._entries.keep(line)

    def _add_failure(self, line: Line, error: Any) -> None:
        if not isinstance(error, dict) or not text_of(error.get("message")):
            return
        entries, kind, message = self._entries, text_of(error.get("codex_error_info")), text_of(error["message"])
        body = Failed(
            id=entries.ids.take(line, suffix=":failed"),
            parent_id=entries.tip,
            timestamp=entries.timestamp,
            reason=message,
            error=FaultReport(kind=kind or "error", message=message),
        )
        entries.add(body, 0)

    def _take_abort(self, line: Line, event: JsonObject) -> None:
        entries = self._entries
        entries.end_reply(may_wait=True)
        body = Cancelled(
            id=entries.ids.take(line, line.identity),
            parent_id=entries.tip,
            timestamp=entries.timestamp,
            reason=text_of(event.get("reason")),
        )
        entries.add(body)
        entries.add_verbatim(line, suffix=":event", records=0)

    def _take_rollback(self, line: Line, count: Any) -> None:
        """Continue before the last prompts; these stay as a branch.

        As for Codex itself, each message of a person counts, also one during a turn. The context that was added for a
        dropped prompt is dropped with it, except before the first prompt.
        """
        entries = self._entries
        entries.end_reply()
        is_count = isinstance(count, int) and not isinstance(count, bool) and count > 0
        first = max(0, len(self._points) - count) if is_count else len(self._points)
        target = self._points[first] if first < len(self._points) else None
        if target is None:
            entries.add_verbatim(line)
            return
        del self._points[first:]
        self._is_in_context = False
        entries.forget_branch()
        entries.tip = target
        body = Head(id=entries.ids.take(line), parent_id=target, timestamp=entries.timestamp, target_id=target)
        entries.add(body)

    def _take_name(self, line: Line, event: JsonObject) -> None:
        entries, title = self._entries, text_of(event.get("thread_name"))
        if not title or event.get("thread_id") != self._thread_id:
            entries.keep(line)
            return
        body = SessionRenamed(
            id=entries.ids.take(line), parent_id=entries.tip, timestamp=entries.timestamp, title=title
        )
        entries.add(body)


def _strings(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str) and each] if isinstance(value, list) else []


def _input_text(item: JsonObject) -> str:
    """Return the text of a message to the model; empty for other items."""
    if item.get("type") != "message" or item.get("role") == "assistant":
        return ""
    return "".join(part.text for part in input_message(item).parts if isinstance(part, Text))


def _as_agent_message(payload: JsonObject) -> JsonObject:
    """Return a message between agents, which versions of mid-2026 write as a line of its own, as the model saw it."""
    content = [{"type": "input_text", "text": text_of(payload.get("content"))}]
    if "encrypted_content" in payload:
        content.append({"type": "encrypted_content", "encrypted_content": payload["encrypted_content"]})
    return {"type": "agent_message", "id": payload.get("id"), "content": content}
