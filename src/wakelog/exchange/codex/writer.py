"""Writer of Codex sessions: one rollout in the form that Codex 0.166 writes, with the active branch.

`written_items.py` maps messages to response items; this module writes the lines around them.

- The file is "paginated": each line has an ordinal, and what Codex displays is in `item_completed` events.
- Codex pairs calls and results by id in the whole file, and tells the model that a call without a result was aborted.
  So open calls stay open. A turn that ended without an answer has no `task_complete`, as after a crash. What came while
  a tool ran is written behind the result, as the model was given it.
- Codex takes model, provider and approval policy of a resumed session from its file, and refuses a provider that is not
  in its configuration. So a provider is written only if Codex recorded it, a `turn_context` only for replies that Codex
  recorded, and the policy there is always the careful one. Without them Codex uses its configuration.
- A compaction is a `compacted` line whose `replacement_history` is all that the model sees from there on: the summary
  and the kept items. What is older stays in the file.
- The id, also that of each turn and message, derives from the session; it holds its time, as those of Codex do.
- Titles are not written: Codex has them in one file for all sessions (`session_index.jsonl`).
"""

from collections.abc import Iterator, Sequence

import msgspec

from wakelog.exchange.codex.items import TOOL, text_of
from wakelog.exchange.codex.own_records import (
    OwnRecords,
    moved_results,
    replacement_nodes,
    replacement_role_and_kind,
    role_and_kind,
)
from wakelog.exchange.codex.written_items import (
    CallIds,
    agent_message,
    input_content,
    message_item,
    reply_parts,
    result_item,
    usage_fields,
    uuid7,
)
from wakelog.exchange.provider_calls import with_tool_calls
from wakelog.exchange.writing import (
    MOVED_RESULT,
    Losses,
    SessionToWrite,
    WrittenFile,
    WrittenNode,
    WrittenSession,
    kind_of,
)
from wakelog.log.content import AnyPart, BaseMessage, JsonObject, Note, Reply, Text, ToolResult, Usage
from wakelog.log.entry import Cancelled, Compaction, ContextEntry, Custom, Failed, Message, ModelChange, Setting
from wakelog.log.provider_calls import ProviderCall
from wakelog.log.timestamps import iso_timestamp, parse_ms
from wakelog.projections.context import estimate_tokens

_ABORT_REASONS = frozenset({"interrupted", "replaced", "review_ended", "budget_limited"})
_OWN_RECORD = "a record of Codex about its settings or its display: written anew where it is needed"
_REASONS: dict[type[WrittenNode], str] = {
    ContextEntry: "Codex has instructions and tools of its own",
    Failed: "Codex does not keep failed calls of the model",
    ModelChange: "Codex would resume with this model, which may not be one of its own",
    Setting: "Codex has settings of its own",
}


def write_session(session: SessionToWrite) -> WrittenSession:
    """Return the active branch of a session as a rollout of Codex."""
    thread_id = uuid7(session.started_ms, session.session, session.head)
    rollout = _Rollout(session, thread_id)
    rollout.write()
    at = iso_timestamp(session.started_ms)
    name = f"rollout-{at[:19].replace(':', '-')}-{thread_id}.jsonl"
    path = f"sessions/{at[:4]}/{at[5:7]}/{at[8:10]}/{name}"
    return WrittenSession(
        tool=TOOL,
        id=thread_id,
        files=(WrittenFile(path, b"".join(rollout.lines)),),
        losses=tuple(rollout.losses),
        resume=("codex", "resume", thread_id),
        model_option="--model",
        without_folder="Codex continues the session in the folder where it is started",
    )


class _Turn(msgspec.Struct):
    """The turn in progress."""

    id: str
    started_ms: int
    usage: Usage = Usage()
    is_answered: bool = False
    """Whether the last message is a reply without tool calls."""
    model: str | None = None
    """The model of the last `turn_context`."""
    last_text: str | None = None


class _Rollout:
    """The lines of a file while the nodes of a branch are written."""

    def __init__(self, session: SessionToWrite, thread_id: str) -> None:
        self.lines: list[bytes] = []
        self.losses = Losses()
        self._thread_id = thread_id
        self._own = OwnRecords(session.branch)
        self._session = with_tool_calls(session, self._keeps_call)
        self._nodes = self._own.with_results_next_to_calls(self._session.branch)
        self._at_ms = session.started_ms
        self._turn: _Turn | None = None
        self._calls = CallIds()
        self._items: dict[str, list[JsonObject]] = {}
        self._open_calls: set[tuple[str | None, str]] = set()
        self._is_in_reply = False
        self._usage = Usage()
        self._has_usage = False
        self._windows = [uuid7(session.started_ms, thread_id, "window")]

    def _keeps_call(self, node: Message, call: ProviderCall) -> bool:
        reply = node.message
        return call.api == "openai" and isinstance(reply, Reply) and self._own.is_own(reply)

    def write(self) -> None:
        """Write the header and every node."""
        self._write_header()
        nodes, at = self._nodes, 0
        while at < len(nodes):
            self._at_ms = parse_ms(nodes[at].timestamp) or self._at_ms
            at += self._write_node(nodes, at)
        self._end_turn()
        session = self._session
        if session.title:
            self.losses.add("title", "Codex has titles in session_index.jsonl, one file for all sessions")
        if session.labels:
            self.losses.add("label", "Codex has no labels", len(session.labels))
        if others := len(session.nodes) - len(nodes):
            self.losses.add("entry of another branch", "a file of Codex holds one branch", others)
        if moved := moved_results(session.branch, nodes):
            self.losses.add(MOVED_RESULT, "it is written next to its call, before what came meanwhile", moved)

    # ── lines ────────────────────────────────────────────────────────────────────────────────────

    def _line(self, kind: str, payload: JsonObject) -> None:
        line = {
            "timestamp": iso_timestamp(self._at_ms),
            "ordinal": len(self.lines),
            "type": kind,
            "payload": payload,
        }
        self.lines.append(msgspec.json.encode(line) + b"\n")

    def _event(self, kind: str, **fields: object) -> None:
        self._line("event_msg", {"type": kind, **fields})

    def _item(self, node_id: str, item: JsonObject) -> None:
        self._line("response_item", item)
        self._items.setdefault(node_id, []).append(item)

    def _show(self, shown: JsonObject, item_id: str) -> None:
        """Write an item of the display."""
        self._event(
            "item_completed",
            thread_id=self._thread_id,
            turn_id=self._turn_id,
            item={"type": shown["type"], "id": item_id, **shown},
            completed_at_ms=self._at_ms,
        )

    def _write_header(self) -> None:
        session = self._session
        meta: JsonObject = {
            "session_id": self._thread_id,
            "id": self._thread_id,
            "timestamp": iso_timestamp(session.started_ms),
            "cwd": session.cwd,
            "originator": "wakelog",
            "cli_version": session.version or "0.0.0",
            "source": "cli",
            "thread_source": "user",
            **self._own.header,
            "history_mode": "paginated",
            "context_window": {"window_id": self._windows[0]},
        }
        self._line("session_meta", meta)

    # ── turns ────────────────────────────────────────────────────────────────────────────────────

    @property
    def _turn_id(self) -> str:
        assert self._turn is not None
        return self._turn.id

    def _begin_turn(self, node: WrittenNode) -> _Turn:
        """Return the turn in progress; begin one if there is none."""
        if self._turn is None:
            self._turn = _Turn(uuid7(self._at_ms, node.id, "turn"), self._at_ms)
            self._is_in_reply = False
            self._event(
                "task_started",
                turn_id=self._turn.id,
                started_at=self._at_ms // 1000,
                model_context_window=None,
                collaboration_mode_kind="default",
            )
        return self._turn

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        self._open_calls.clear()
        if turn is not None and turn.is_answered:
            self._event(
                "task_complete",
                turn_id=turn.id,
                last_agent_message=turn.last_text,
                started_at=turn.started_ms // 1000,
                completed_at=self._at_ms // 1000,
                duration_ms=max(0, self._at_ms - turn.started_ms),
            )

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────

    def _write_node(self, nodes: Sequence[WrittenNode], at: int) -> int:
        """Write a node, and those after it that belong to it; return how many these are."""
        match node := nodes[at]:
            case Message(message=Reply() as reply):
                self._write_reply(node, reply)
            case Message(message=ToolResult() as result):
                self._write_result(node, result)
            case Message(message=Note(custom_type="codex:agent_message")) if self._write_own_item(nodes[at + 1 :][:1]):
                return 2
            case Message():
                self._write_input(node, node.message)
            case Custom() if node.in_context:
                self._write_input(node, Note(content=node.content, custom_type=node.custom_type))
                self.losses.add(kind_of(node), "only what the model sees of it is written")
            case Custom() if self._write_own_item((node,)):
                pass
            case Compaction():
                is_of_codex = node.trigger == "unknown" and self._own.is_imported
                replaced = list(replacement_nodes(nodes[at + 1 :])) if is_of_codex else []
                self._write_compaction(node, nodes[:at], replaced)
                return 1 + len(replaced)
            case Cancelled():
                self._write_cancelled(node)
            case ModelChange() if self._own.is_own_provider(node.provider):
                pass
            case _:
                is_record = isinstance(node, Custom) and node.custom_type.startswith(f"{TOOL}:")
                reason = _OWN_RECORD if is_record else _REASONS.get(type(node), "Codex has no place for it")
                self.losses.add(kind_of(node), reason)
        return 1

    def _write_input(self, node: WrittenNode, message: BaseMessage) -> None:
        role, kind = role_and_kind(message)
        content = input_content(message.parts, self.losses, kind_of(node))
        if not content:
            self.losses.add(kind_of(node), "it has no content")
            return
        if self._turn is not None and (self._turn.is_answered or self._open_calls):
            self._end_turn()
        turn = self._begin_turn(node)
        turn.is_answered = self._is_in_reply = False
        kinds = [f"user.{each['type'].removeprefix('input_')}" if kind is None else kind for each in content]
        self._item(node.id, message_item(role, content, f"msg_{uuid7(self._at_ms, node.id)}", turn.id, kinds))
        if kind is None:
            texts = [{"type": "text", "text": each["text"], "text_elements": []} for each in content if "text" in each]
            self._show({"type": "UserMessage", "content": texts}, uuid7(self._at_ms, node.id, "shown"))

    def _write_reply(self, node: WrittenNode, reply: Reply) -> None:
        is_own = self._own.is_own(reply)
        written = reply_parts(reply, node.id, self._calls, self.losses, is_own=is_own)
        if not any(part.item for part in written):
            self.losses.add("reply", "it has no text and no tool calls")
        if not written:
            return
        if self._is_in_reply:
            # Nothing but a turn tells two replies apart that have no input between them.
            self._end_turn()
        turn = self._begin_turn(node)
        self._write_model(reply, is_own=is_own)
        for number, part in enumerate(written):
            if part.shown is not None:
                self._show(part.shown, (part.item or {}).get("id") or uuid7(self._at_ms, node.id, str(number)))
            if part.item is not None:
                self._item(node.id, part.item)
        calls = {(node.id, call.id) for call in reply.tool_calls}
        turn.is_answered, self._is_in_reply = not calls, True
        turn.last_text = reply.text or turn.last_text
        self._open_calls |= calls
        if reply.stop_reason not in (None, "tools" if calls else "stop"):
            self.losses.add("stop reason", "Codex does not keep why a reply ended")
        if reply.usage is not None:
            self._write_usage(reply.usage, reply.request_id)
        elif reply.request_id:
            self.losses.add("id of a response", "Codex has it only together with usage")

    def _write_model(self, reply: Reply, *, is_own: bool) -> None:
        """Write the model of a reply where it differs from the last one of the turn."""
        assert self._turn is not None
        if reply.model is None or reply.model == self._turn.model:
            return
        if not is_own:
            self.losses.add("model", _REASONS[ModelChange])
            return
        self._turn.model = reply.model
        self._line(
            "turn_context",
            {
                "turn_id": self._turn_id,
                "cwd": self._session.cwd or "/",
                "approval_policy": "on-request",
                "sandbox_policy": {"type": "read-only"},
                "model": reply.model,
                "summary": "auto",
            },
        )

    def _write_usage(self, usage: Usage, request_id: str | None) -> None:
        assert self._turn is not None
        if usage.cost_micros is not None:
            self.losses.add("cost of a reply", "Codex does not keep costs")
        self._turn.usage, self._usage, self._has_usage = self._turn.usage + usage, self._usage + usage, True
        record = {
            "thread_id": self._thread_id,
            "turn_id": self._turn_id,
            "session_id": self._thread_id,
            "root_turn_id": self._turn_id,
            "response_id": request_id or "",
            "usage": usage_fields(usage),
            "turn_token_usage": usage_fields(self._turn.usage),
            "thread_token_usage": usage_fields(self._usage),
        }
        self._line("token_usage_record", record)
        self._is_in_reply = False
        self._write_token_count(usage_fields(usage))

    def _write_token_count(self, last: JsonObject) -> None:
        """Write the size of the context, from which Codex decides when to compact it."""
        info = {
            "total_token_usage": usage_fields(self._usage),
            "last_token_usage": last,
            "model_context_window": None,
        }
        self._event("token_count", info=info, rate_limits=None)

    def _write_result(self, node: WrittenNode, result: ToolResult) -> None:
        found = self._calls.take(result)
        if found is None:
            self.losses.add("toolresult", "there is no call for it on this branch, or another result")
            return
        turn = self._begin_turn(node)
        turn.is_answered = self._is_in_reply = False
        self._open_calls.discard((result.reply_id, result.tool_call_id))
        self._item(node.id, result_item(result, *found, self.losses))

    def _write_cancelled(self, node: Cancelled) -> None:
        text = BaseMessage(content=node.content).text
        if text and self._is_in_reply:
            self._end_turn()
        turn = self._begin_turn(node)
        if text:
            self.losses.add("cancelled", "the displayed text of the cancelled reply is written as a reply")
            self._show(agent_message(text), uuid7(self._at_ms, node.id, "shown"))
            self._item(
                node.id, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
            )
        self._event(
            "turn_aborted", turn_id=turn.id, reason=node.reason if node.reason in _ABORT_REASONS else "interrupted"
        )
        self._turn = None
        self._open_calls.clear()

    def _write_own_item(self, nodes: Sequence[WrittenNode]) -> bool:
        """Write a response item of Codex that was kept verbatim; return whether the first of the nodes is one."""
        node = nodes[0] if nodes else None
        if not isinstance(node, Custom) or not isinstance(node.data, dict):
            return False
        payload, kind = node.data.get("payload", node.data), node.custom_type.removeprefix(f"{TOOL}:")
        if not isinstance(payload, dict) or not kind.startswith(("response_item/", "inter_agent_communication")):
            return False
        if text_of(payload.get("type")).endswith("_output"):
            self.losses.add(kind_of(node), "there is no call for it")
            return True
        self._begin_turn(node)
        self._is_in_reply = False
        if kind.startswith("response_item/"):
            self._item(node.id, payload)
        else:
            self._line(kind, payload)
        return True

    # ── compactions ──────────────────────────────────────────────────────────────────────────────

    def _write_compaction(
        self, node: Compaction, before: Sequence[WrittenNode], replaced: Sequence[WrittenNode]
    ) -> None:
        """Write a compaction, as a turn of its own unless it is in the middle of one."""
        is_between = self._turn is None or self._turn.is_answered
        if is_between:
            self._end_turn()
        self._begin_turn(node)
        summary = [self._summary_item(node)] if node.summary else []
        kept = _kept(before, node.first_kept_entry_id)
        history = [
            *(summary if kept or not replaced else ()),
            *(item for each in kept for item in self._items.get(each.id, ())),
            *(item for each in replaced for item in self._replacement_items(each)),
            *(summary if replaced and not kept else ()),
        ]
        first, previous = self._windows[0], self._windows[-1]
        self._windows.append(uuid7(self._at_ms, node.id, "window"))
        compacted = {
            "message": node.summary,
            "replacement_history": history,
            "window_number": len(self._windows) - 1,
            "first_window_id": first,
            "previous_window_id": previous,
            "window_id": self._windows[-1],
        }
        self._line("compacted", compacted)
        self._is_in_reply = False
        self._show({"type": "ContextCompaction"}, uuid7(self._at_ms, node.id, "shown"))
        if node.usage is not None:
            self.losses.add("usage of a compaction", "Codex has usage only for replies")
        if self._has_usage:
            size = _tokens(node.summary, (*kept, *replaced))
            self._write_token_count({**usage_fields(Usage()), "total_tokens": size})
        if is_between:
            assert self._turn is not None
            self._turn.is_answered = True
            self._end_turn()

    def _summary_item(self, node: Compaction) -> JsonObject:
        content = [{"type": "input_text", "text": node.summary}]
        item_id = f"msg_{uuid7(self._at_ms, node.id)}"
        return message_item("user", content, item_id, self._turn_id, ["compaction.summary"])

    def _replacement_items(self, node: WrittenNode) -> Iterator[JsonObject]:
        """Yield the items of a node that came from the history behind a compaction of Codex."""
        match node:
            case Message(message=Note() as note):
                role, kind = replacement_role_and_kind(note)
                content = input_content(note.parts, self.losses, kind_of(node))
                item_id = f"msg_{uuid7(self._at_ms, node.id)}"
                yield message_item(role, content, item_id, self._turn_id, [kind] * len(content))
            case Message(message=Reply() as reply):
                written = reply_parts(reply, node.id, self._calls, self.losses, is_own=True)
                yield from (part.item for part in written if part.item is not None)
            case Custom() if "type" in node.data:
                yield node.data


def _kept(before: Sequence[WrittenNode], first: str | None) -> Sequence[WrittenNode]:
    """Return the nodes that a compaction keeps."""
    return next((before[at:] for at, node in enumerate(before) if node.id == first), ())


def _tokens(summary: str, nodes: Sequence[WrittenNode]) -> int:
    """Return the estimated size of a compacted history."""
    parts: list[AnyPart] = [Text(text=summary)]
    parts += (part for node in nodes if isinstance(node, Message) for part in node.message.parts)
    return estimate_tokens(parts)
