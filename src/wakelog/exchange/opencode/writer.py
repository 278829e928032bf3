"""A session of wakelog as the file that `opencode import` takes: `{"info", "messages": [{"info", "parts"}]}`.

What becomes what:
- The branch of the head is written, one message after the other. If the head was moved back, the nodes below it are
  written too and marked as reverted: OpenCode hides them, can restore them, and deletes them at the next prompt. Nodes
  of other branches are counted as losses, as OpenCode has no branches.
- A prompt becomes a user message; a note becomes one whose text is `synthetic`, which the model gets and people do not
  see. Entries of extensions that are in the context are written like notes.
- A reply becomes an assistant message with one step. Its tool calls hold their results, wherever these stand in the
  log; a call without a result is `running`, and OpenCode tells the model that it was interrupted.
- A compaction becomes a user message with a `compaction` part and an assistant message with the summary. Older messages
  stay in the file; OpenCode sends the summary, the kept messages, and what came later. A compaction that a later one
  undoes, because it keeps messages before it, is left out.
- A failure and a cancellation become the error of the reply that they ended, or of an empty one. OpenCode does not send
  a reply that failed to the model; one that a person ended, it does.
- Parts of OpenCode that an import kept verbatim are written again where OpenCode takes them.

OpenCode sorts messages by time: a message is never earlier than the one before it. It requires values for some facts
that wakelog may not have: tokens and cost are 0 then, a model is empty, a tool took no time. OpenCode replaces the
project and the folder by those that `opencode import` runs in.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from wakelog.exchange.opencode.ids import IdSequence
from wakelog.exchange.opencode.records import TOOL
from wakelog.exchange.opencode.written_parts import (
    cost_of,
    ended_state,
    error_of,
    finish_of,
    is_of_reply,
    kept_part,
    reply_parts,
    said_parts,
    tokens_of,
)
from wakelog.exchange.writing import Losses, SessionToWrite, WrittenFile, WrittenNode, WrittenSession, kind_of
from wakelog.log.content import JsonObject, Note, Prompt, Reply, ToolResult, Usage
from wakelog.log.entry import Cancelled, Compaction, ContextEntry, Custom, Failed, Message, ModelChange
from wakelog.log.timestamps import iso_timestamp, parse_ms

__all__ = ["write_session"]

_AGENT = "build"
_COMPACTION_AGENT = "compaction"
_TRIGGERS = ("auto", "threshold", "manual")
_MARKER = f"{TOOL}:compaction"
_OWN_NOTE = f"{TOOL}:synthetic"
_STOPPED = ("aborted", "error")


def write_session(session: SessionToWrite) -> WrittenSession:
    """Return a session as a file for `opencode import`."""
    return _SessionWriter(session).written()


class _OpenCall(msgspec.Struct):
    """A tool part without a result, its place among the calls of its reply, and that reply."""

    part: JsonObject
    place: int
    reply: "_WrittenReply"


class _WrittenReply(msgspec.Struct):
    """An assistant message, and the end of its last result with the place of that call."""

    message: JsonObject
    last_end: tuple[int, int] = (0, -1)


class _SessionWriter:
    """Writes one message after the other and remembers what later nodes refer to."""

    def __init__(self, session: SessionToWrite) -> None:
        self._session = session
        self._ids = IdSequence(session.session, session.head, max(0, session.started_ms))
        self._losses = Losses()
        self._messages: list[JsonObject] = []
        self._time = max(0, session.started_ms)
        self._usage = Usage(cost_micros=0)
        self._branch = session.branch
        self._reverted = _reverted(session, self._branch)
        self._final = 0
        """The number of messages that are not added to."""
        self._all = (*self._branch, *self._reverted)
        self._places = {node.id: at for at, node in enumerate(self._all)}
        self._models = _models(self._all, session)
        self._undone = _undone(self._branch) | _undone(self._all) & {node.id for node in self._reverted}
        self._kept_first = {node.first_kept_entry_id for node in self._all if isinstance(node, Compaction)}
        self._begun: dict[str, str] = {}
        """The message that a node began, by the id of the node."""
        self._user_id = ""
        self._said_last: JsonObject | None = None
        """The last message with something that a person said, or that was added for the model."""
        self._waiting: list[JsonObject] = []
        """Parts that were kept verbatim and stand before the text of the next message of a person."""
        self._calls: dict[tuple[str | None, str], list[_OpenCall]] = {}
        self._stopped: JsonObject | None = None
        """The record of a reply that did not end by itself, until the reason is known."""

    def written(self) -> WrittenSession:
        for node in self._branch:
            self._write(node)
        revert = self._write_reverted()
        self._count_others()
        content = msgspec.json.encode({"info": {**self._info(), **revert}, "messages": self._messages})
        name = self._ids.session
        return WrittenSession(
            tool=TOOL,
            id=name,
            files=(WrittenFile(f"{name}.json", content + b"\n"),),
            losses=tuple(self._losses),
            resume=(TOOL, "--session", name),
            load=(TOOL, "import", "{file}"),
            model=self._last_model(),
            model_option="--model",
            list_models=(TOOL, "models"),
            without_folder="OpenCode continues the session in the folder where it is started",
        )

    def _info(self) -> JsonObject:
        session, name = self._session, self._ids.session
        created = max(0, session.started_ms) or (self._messages[0]["info"]["time"]["created"] if self._messages else 0)
        model = {"model": {"id": session.model, "providerID": session.provider or ""}} if session.model else {}
        return {
            "id": name,
            "slug": f"wakelog-{name[-8:].lower()}",
            "projectID": "global",
            "directory": session.cwd,
            "title": session.title or f"New session - {iso_timestamp(created)}",
            **model,
            "version": f"wakelog-{session.version}",
            "cost": cost_of(self._usage),
            "tokens": tokens_of(self._usage),
            "time": {"created": created, "updated": self._time},
        }

    def _last_model(self) -> str:
        """Return the model that OpenCode continues with: that of the last message before the hidden ones."""
        named = [self._models[node.id] for node in self._branch[-1:]]
        return next((f"{provider or ''}/{model}" for provider, model in named if model), "")

    def _write_reverted(self) -> JsonObject:
        """Write the nodes below the head, and return the field that says from which message on they are hidden."""
        self._forget_last()
        count, usage = len(self._messages), self._usage
        for node in self._reverted:
            self._write(node)
        self._forget_last()
        self._usage = usage
        is_any = len(self._messages) > count
        return {"revert": {"messageID": self._messages[count]["info"]["id"]}} if is_any else {}

    def _forget_last(self) -> None:
        """Let no later node change a message that is written."""
        for _ in self._waiting:
            self._losses.add("custom", "a part of OpenCode without its message")
        self._waiting, self._calls, self._stopped = [], {}, None
        self._final = len(self._messages)

    def _count_others(self) -> None:
        for node in self._session.nodes:
            if node.id not in self._places:
                self._losses.add(kind_of(node), "on another branch; OpenCode has none")
        if self._session.labels:
            self._losses.add("label", "OpenCode has no labels", len(self._session.labels))

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────

    def _write(self, node: WrittenNode) -> None:
        if node.id in self._kept_first:
            # What a compaction keeps is not added to a message that it does not keep.
            self._final = len(self._messages)
        match node:
            case Message(message=Reply() as reply):
                self._reply(node, reply)
            case Message(message=ToolResult() as result):
                self._result(node, result)
            case Message(message=Note() as note):
                self._note(node, note)
            case Message(message=Prompt() as prompt):
                self._said(node, said_parts(prompt.parts, "prompt", self._losses))
            case Compaction():
                self._compaction(node)
            case Failed() | Cancelled():
                self._fault(node)
            case Custom():
                self._custom(node)
            case ModelChange():
                self._losses.add(kind_of(node), "each message names its model instead")
            case ContextEntry():
                self._losses.add(kind_of(node), "OpenCode has its own instructions and tools")
            case _:
                self._losses.add(kind_of(node), "OpenCode has no such record")

    def _said(self, node: WrittenNode, parts: Sequence[JsonObject]) -> None:
        if not parts and not self._waiting:
            self._losses.add(kind_of(node), "empty")
            return
        message = self._user_message(node)
        for part in (*self._waiting, *parts):
            self._add_part(message, part)
        self._waiting, self._said_last = [], message

    def _note(self, node: WrittenNode, note: Note) -> None:
        """Write a note. One that OpenCode added to a message of a person is added to it again."""
        parts = said_parts(note.parts, "note", self._losses, synthetic=True)
        if note.custom_type != _OWN_NOTE:
            self._losses.add("note", "OpenCode does not keep what kind of a note it is")
        elif (last := self._last_message()) is not None and last is self._said_last:
            for part in parts:
                self._add_part(last, part)
            return
        self._said(node, parts)

    def _last_message(self) -> JsonObject | None:
        """Return the message that a node may be added to; None if it has to be in another one."""
        return self._messages[-1] if len(self._messages) > self._final else None

    def _reply(self, node: WrittenNode, reply: Reply) -> None:
        message = self._assistant_message(node, (reply.provider, reply.model), reply.usage)
        self._add_part(message, {"type": "step-start"})
        written, place = _WrittenReply(message), 0
        for part, call in reply_parts(reply, self._time, self._losses):
            added = self._add_part(message, part)
            if call is not None:
                open_call = _OpenCall(added, place, written)
                self._calls.setdefault((node.id, call.id), []).append(open_call)
                self._calls[None, call.id] = self._calls[node.id, call.id]
                place += 1
        if reply.stop_reason:
            finish = message["info"]["finish"] = finish_of(reply.stop_reason)
            counts = {"cost": cost_of(reply.usage), "tokens": tokens_of(reply.usage)}
            self._add_part(message, {"type": "step-finish", "reason": finish, **counts})
        if reply.request_id is not None:
            self._losses.add("reply", "OpenCode does not keep the id of the request")
        self._stopped = message["info"] if reply.stop_reason in _STOPPED else None

    def _result(self, node: WrittenNode, result: ToolResult) -> None:
        """Write a result into its call. OpenCode knows the order of results by their times."""
        call_id = result.tool_call_id
        waiting = self._calls.get((result.reply_id, call_id)) or self._calls.get((None, call_id))
        if not waiting:
            self._losses.add(kind_of(node), "a result without an open call")
            return
        call = waiting.pop(0)
        end = (max(0, parse_ms(node.timestamp) or self._time), call.place)
        if end < call.reply.last_end:
            end = (call.reply.last_end[0] + 1, call.place)
        call.reply.last_end = end
        state = ended_state(call.part["state"], result, end[0], self._losses)
        if "attachments" in state:
            state["attachments"] = [self._with_ids(call.reply.message, file) for file in state["attachments"]]
        call.part["state"] = state

    def _compaction(self, node: Compaction) -> None:
        if node.id in self._undone:
            self._losses.add("compaction", "a later compaction keeps messages from before it")
            return
        if node.trigger not in _TRIGGERS:
            self._losses.add("compaction", "OpenCode knows manual and automatic compactions only")
        read = _tokens_read(node.usage)
        if (node.tokens_before or None) != read or node.tokens_after is not None:
            self._losses.add("compaction", "OpenCode does not keep the size of the context")
        if not node.summary:
            self._losses.add("compaction", "OpenCode asks for a summary also where there is none")
        marker = self._user_message(node, begins=False)
        tail = self._tail(node)
        kept = {} if tail is None else {"tail_start_id": tail}
        self._add_part(marker, {"type": "compaction", "auto": node.trigger != "manual", **kept})
        summary = self._assistant_message(node, self._models[node.id], node.usage, begins=False)
        summary["info"].update(summary=True, finish="stop", mode=_COMPACTION_AGENT, agent=_COMPACTION_AGENT)
        if node.summary:
            self._add_part(summary, {"type": "text", "text": node.summary})
        self._stopped = None

    def _tail(self, node: Compaction) -> str | None:
        """Return the first message that a compaction keeps; None if it keeps none."""
        first = self._places.get(node.first_kept_entry_id or "")
        if first is None:
            return None
        kept = self._all[first : self._places[node.id]]
        return next((self._begun[each.id] for each in kept if each.id in self._begun), None)

    def _fault(self, node: Failed | Cancelled) -> None:
        """Write how the reply before ended, or how a model call ended that has no reply."""
        content = node.content if isinstance(node, Cancelled) else ()
        shown = said_parts(Prompt(content=content).parts, kind_of(node), self._losses)
        info, self._stopped = self._stopped, None
        if info is None or shown:
            message = self._assistant_message(node, self._models[node.id], None)
            for part in shown:
                self._add_part(message, part)
            info = message["info"]
        elif isinstance(node, Failed):
            self._losses.add("reply", "OpenCode does not send a reply that failed to the model")
        info.pop("finish", None)
        info["error"] = error_of(node, info["providerID"])

    def _custom(self, node: Custom) -> None:
        kind = node.custom_type
        if node.in_context and (parts := said_parts(Note(content=node.content).parts, "custom", self._losses)):
            self._losses.add(kind_of(node), "written as a note: its data are left out")
            self._said(node, [{**part, "synthetic": True} if part["type"] == "text" else part for part in parts])
        elif kind == _MARKER and isinstance(self._next_body(node), Compaction):
            self._losses.add(kind_of(node), "the compaction after it is written with a new one")
        elif kind == f"{TOOL}:session":
            self._losses.add(kind_of(node), "the session gets a new record")
        elif kind == f"{TOOL}:fields":
            self._losses.add(kind_of(node), "messages and results get new records")
        elif kind.startswith(f"{TOOL}:") and (kept := _kept_parts(node.data)):
            self._write_kept(node, kept)
        else:
            self._losses.add(kind_of(node), "OpenCode has no place for it, or would act on it")

    def _next_body(self, node: WrittenNode) -> WrittenNode | None:
        """Return the next node that is not an entry of an extension."""
        rest = self._all[self._places[node.id] + 1 :]
        return next((each for each in rest if not isinstance(each, Custom)), None)

    def _write_kept(self, node: Custom, parts: Sequence[JsonObject]) -> None:
        """Write parts that were kept verbatim: a whole message, or parts of the last message or of the next one."""
        last = self._last_message()
        if "info" in node.data:
            if lost := len(node.data["parts"]) - len(parts):
                self._losses.add(kind_of(node), "a part that OpenCode has no place for, or would act on", lost)
            self._said(node, parts)
        elif last is not None and (last["info"]["role"] == "assistant") == is_of_reply(parts[0]):
            for part in parts:
                self._add_part(last, part)
        elif is_of_reply(parts[0]):
            self._losses.add(kind_of(node), "a part of OpenCode without its message")
        else:
            self._waiting.extend(parts)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _user_message(self, node: WrittenNode, *, begins: bool = True) -> JsonObject:
        provider, model = self._models[node.id]
        names = {"providerID": provider or "", "modelID": model or ""}
        message = self._message(node, {"role": "user", "agent": _AGENT, "model": names}, begins=begins)
        self._user_id = message["info"]["id"]
        self._stopped = None
        return message

    def _assistant_message(
        self,
        node: WrittenNode,
        model: tuple[str | None, str | None],
        usage: Usage | None,
        *,
        begins: bool = True,
    ) -> JsonObject:
        """Add a message of the model. OpenCode requires a message of a person that it answers: an empty one if none."""
        parent = self._user_id or self._user_message(node, begins=False)["info"]["id"]
        if usage is not None:
            self._usage += msgspec.structs.replace(usage, cost_micros=usage.cost_micros or 0)
            if usage.cost_micros is None:
                self._losses.add("usage", "the cost is not known; OpenCode states 0")
        info = {
            "role": "assistant",
            "parentID": parent,
            "mode": _AGENT,
            "agent": _AGENT,
            "path": {"cwd": self._session.cwd, "root": self._session.cwd},
            "cost": cost_of(usage),
            "tokens": tokens_of(usage),
            "providerID": model[0] or "",
            "modelID": model[1] or "",
        }
        message = self._message(node, info, begins=begins)
        message["info"]["time"]["completed"] = self._time
        return message

    def _message(self, node: WrittenNode, info: JsonObject, *, begins: bool) -> JsonObject:
        self._time = max(self._time, parse_ms(node.timestamp) or 0)
        message_id = self._ids.message(self._time)
        if begins:
            self._begun[node.id] = message_id
        placed = {"id": message_id, "sessionID": self._ids.session, **info, "time": {"created": self._time}}
        message = {"info": placed, "parts": []}
        self._messages.append(message)
        return message

    def _add_part(self, message: JsonObject, part: JsonObject) -> JsonObject:
        placed = self._with_ids(message, part)
        message["parts"].append(placed)
        return placed

    def _with_ids(self, message: JsonObject, part: JsonObject) -> JsonObject:
        info = message["info"]
        return {"id": self._ids.part(self._time), "sessionID": info["sessionID"], "messageID": info["id"], **part}


def _reverted(session: SessionToWrite, branch: Sequence[WrittenNode]) -> list[WrittenNode]:
    """Return the nodes below the head, down the newest branch."""
    children: dict[str, WrittenNode] = {node.parent_id: node for node in session.nodes if node.parent_id is not None}
    found: list[WrittenNode] = []
    known = {node.id for node in branch}
    at = session.head
    while (node := children.get(at)) is not None and node.id not in known:
        found.append(node)
        known.add(node.id)
        at = node.id
    return found


def _models(nodes: Iterable[WrittenNode], session: SessionToWrite) -> dict[str, tuple[str | None, str | None]]:
    """Return provider and model of the next reply, by the id of each node; those of the session behind the last one."""
    ahead = session.provider, session.model
    found: dict[str, tuple[str | None, str | None]] = {}
    for node in reversed(tuple(nodes)):
        if isinstance(node, Message) and isinstance(node.message, Reply) and node.message.model:
            ahead = node.message.provider, node.message.model
        found[node.id] = ahead
    return found


def _undone(nodes: Sequence[WrittenNode]) -> set[str]:
    """Return the compactions before which a later one keeps messages: the context is as if they did not exist."""
    places = {node.id: at for at, node in enumerate(nodes)}
    found: set[str] = set()
    first = len(nodes)
    for at in range(len(nodes) - 1, -1, -1):
        node = nodes[at]
        if isinstance(node, Compaction):
            if first < at:
                found.add(node.id)
            kept = places.get(node.first_kept_entry_id or "", at)
            first = min(first, kept if node.id not in found else first)
    return found


def _tokens_read(usage: Usage | None) -> int | None:
    if usage is None:
        return None
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens or None


def _kept_parts(data: Any) -> list[JsonObject]:
    """Return the parts of a record that was kept verbatim, as far as OpenCode takes them; none of another's message."""
    match data:
        case {"info": {"role": "user"}, "parts": list(values)}:
            return [part for value in values if (part := kept_part(value)) is not None and not is_of_reply(part)]
        case {"info": _}:
            return []
    part = kept_part(data)
    return [] if part is None else [part]
