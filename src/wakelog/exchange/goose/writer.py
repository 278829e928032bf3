"""Write a session as an export of Goose, which `goose session import FILE` takes.

Goose gives the session a new id and prints it; it drops provider and model, and keeps the messages, the name and the
token counts. It continues with the messages that its model is shown (`agentVisible`):
- A compaction is written as Goose's own: the messages before it are hidden from the model. The summary and a note to go
  on, which only the model sees, stand before the messages that it keeps.
- Notes are shown to the model only. `_meta` of their text has their kind.
- Results stand directly behind the reply with their calls, as model APIs require.
- The times of messages never go back, because Goose sorts by them.
- Calls without a result are written; Goose leaves them out when it continues.
Entries that the reader kept verbatim are written back, if Goose takes them.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from wakelog.exchange.goose.checks import is_accepted
from wakelog.exchange.goose.entries import CONTINUATION, has_command
from wakelog.exchange.goose.items import message_items, noted, response_item
from wakelog.exchange.goose.records import FIELDS, IS_PROMPT, TOOL, object_of, string_of, without
from wakelog.exchange.writing import (
    Losses,
    SessionToWrite,
    WrittenFile,
    WrittenNode,
    WrittenSession,
    kind_of,
    written_uuid,
)
from wakelog.log.content import JsonObject, Note, Prompt, Reply, ToolResult, Usage
from wakelog.log.entry import Cancelled, Compaction, Custom, Message, ModelChange
from wakelog.log.timestamps import iso_timestamp, parse_ms

NO_TITLE = "CLI Session"
"""The name that Goose gives a session until it has a better one."""
GO_ON = (
    "The conversation before this was summarised in the previous message. "
    "Continue from that summary, and do not mention that there is one."
)
_IMPORT_TYPE = "wakelog:import"
_PROVIDERS = {"openai-chat": "openai"}
_NOT_HELD = "not in the format"
_FIELDS_OF_PARTS = ("content", "result", "metadata")
_TOKENS_MAX = (1 << 31) - 1
_SUMS = ("total_tokens", "input_tokens", "output_tokens")


def write_session(session: SessionToWrite) -> WrittenSession:
    """Return the active branch of a session as an export."""
    losses = Losses()
    branch = session.branch
    _count_other_branches(session, branch, losses)
    messages = _Messages(session, branch, losses).written()
    name = _session_id(session)
    document = _document(session, branch, name, messages, losses)
    return WrittenSession(
        tool=TOOL,
        id=name,
        files=(WrittenFile(f"sessions/{name}.json", msgspec.json.encode(document) + b"\n"),),
        losses=tuple(losses),
        resume=("goose", "session", "--resume"),
        load=("goose", "session", "import", "{file}"),
        without_folder="Goose warns, and continues the session in the folder where it is started",
    )


def _session_id(session: SessionToWrite) -> str:
    """Return an id of the form that Goose gives: the day and a number."""
    digest = hashlib.sha256(f"{session.session}\0{session.head}".encode()).digest()
    return f"{iso_timestamp(session.started_ms)[:10].replace('-', '')}_{int.from_bytes(digest[:4], 'big')}"


def _count_other_branches(session: SessionToWrite, branch: tuple[WrittenNode, ...], losses: Losses) -> None:
    active = {node.id for node in branch}
    for node in session.nodes:
        if node.id not in active:
            losses.add(kind_of(node), "on another branch, and Goose keeps one")
    for _ in session.labels:
        losses.add("label", _NOT_HELD)


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


class _Messages:
    """The messages of a branch, in the order in which Goose keeps them."""

    def __init__(self, session: SessionToWrite, branch: tuple[WrittenNode, ...], losses: Losses) -> None:
        self._session, self._branch, self._losses = session, branch, losses
        self._time = 0
        self._used_ids: set[str] = set()
        self._call_ids: dict[tuple[str, str], str] = {}
        self._taken_call_ids: set[str] = set()
        self._reply_places: dict[int, int] = {}
        self._results = self._results_by_reply()
        self._compactions, self._start = self._placed_compactions()
        self._written_results: set[str] = set()

    def written(self) -> list[JsonObject]:
        """Return the messages."""
        found: list[JsonObject] = []
        for at, node in enumerate(self._branch):
            for compaction in self._compactions.get(at, ()):
                found += self._compaction(at, compaction)
            found += self._node(at, node)
        return found

    def _placed_compactions(self) -> tuple[dict[int, list[int]], int]:
        """Return the compactions by the node that they stand before, and the first node that the model is shown."""
        places = {node.id: at for at, node in enumerate(self._branch)}
        placed: dict[int, list[int]] = {}
        starts: list[int] = []
        for at in range(len(self._branch) - 1, -1, -1):
            node = self._branch[at]
            if not isinstance(node, Compaction):
                continue
            if starts and at >= starts[-1]:
                self._losses.add("compaction", "a later compaction keeps the messages before it")
                continue
            place = min(places.get(node.first_kept_entry_id or "", at), at)
            if place in self._reply_places:
                place = self._reply_places[place]
                self._losses.add("compaction", "keeps the reply with the call of its first result as well")
            if place < at:
                self._losses.add("compaction", "written before the messages that it keeps")
            if node.tokens_before is not None or node.tokens_after is not None:
                self._losses.add("sizes of a compaction", _NOT_HELD)
            placed.setdefault(place, []).insert(0, at)
            starts.append(place)
        return placed, starts[0] if starts else 0

    def _results_by_reply(self) -> dict[tuple[str, str], list[int]]:
        """Return where the results of each call are."""
        asked: dict[str, str] = {}
        places = {node.id: at for at, node in enumerate(self._branch)}
        found: dict[tuple[str, str], list[int]] = {}
        for at, node in enumerate(self._branch):
            match node:
                case Message(message=Reply() as reply):
                    for call in reply.tool_calls:
                        asked[call.id] = node.id
                        found[node.id, call.id] = []
                        self._call_ids[node.id, call.id] = self._unique_call_id(call.id)
                case Message(message=ToolResult() as result):
                    key = result.reply_id or "", result.tool_call_id
                    key = key if key in found else (asked.get(result.tool_call_id, ""), result.tool_call_id)
                    if key in found:
                        found[key].append(at)
                        self._reply_places[at] = places[key[0]]
        return found

    def _unique_call_id(self, call_id: str) -> str:
        """Return an id that no other call of the session has: Goose pairs calls and results by it alone."""
        unique, number = call_id, 1
        while unique in self._taken_call_ids:
            number += 1
            unique = f"{call_id}_{number}"
        self._taken_call_ids.add(unique)
        if number > 1:
            self._losses.add("toolcall", "its id repeats that of another call and is changed")
        return unique

    def _node(self, at: int, node: WrittenNode) -> Iterator[JsonObject]:
        match node:
            case Message(message=Prompt() | Note() as said):
                items = message_items(said.parts, self._fields(at), {}, self._losses)
                if isinstance(said, Note):
                    yield self._message(at, "user", noted(items, said.custom_type), user_visible=False)
                else:
                    yield self._message(at, "user", self._marked(at, items))
            case Message(message=Reply() as reply):
                yield from self._reply(at, node.id, reply)
            case Message(message=ToolResult()):
                if node.id not in self._written_results:
                    self._losses.add("toolresult", "its call is not on the branch")
            case Compaction():
                # Written before the first node that it keeps.
                return
            case Cancelled(content=content) if text := Prompt(content=content).text:
                self._losses.add("cancelled", "written as a reply")
                yield self._message(at, "assistant", [{"type": "text", "text": text}])
            case Custom():
                yield from self._custom(at, node)
            case ModelChange():
                self._losses.add(kind_of(node), "the model is recorded with each reply")
            case _:
                self._losses.add(kind_of(node), _NOT_HELD)

    def _marked(self, at: int, items: list[JsonObject]) -> list[JsonObject]:
        """Return the content of a prompt. One that is hidden and begins like a command says that it is none."""
        if at >= self._start or not items or not has_command(items):
            return items
        first, *rest = items
        return [{**first, "_meta": {**object_of(first.get("_meta")), IS_PROMPT: True}}, *rest]

    def _reply(self, at: int, node_id: str, reply: Reply) -> Iterator[JsonObject]:
        ids = {call.id: self._call_ids[node_id, call.id] for call in reply.tool_calls}
        items = message_items(reply.parts, self._fields(at), ids, self._losses)
        metadata: JsonObject = {}
        if reply.provider and reply.model:
            left = object_of(object_of(self._fields(at).get("metadata")).get("inference"))
            asked = string_of(left.get("requestedModel"))
            models = (
                {"requestedModel": asked, "resolvedModel": reply.model} if asked else {"requestedModel": reply.model}
            )
            metadata["inference"] = {"provider": reply.provider, **models}
        elif reply.provider or reply.model:
            self._losses.add("model of a reply", "Goose records it with its provider only")
        if reply.stop_reason:
            self._losses.add("stop reason of a reply", _NOT_HELD)
        if reply.usage is not None:
            self._losses.add("usage of a reply", "added to the sums of the session")
        yield self._message(at, "assistant", items, metadata=metadata, own_id=reply.request_id)
        for call in reply.tool_calls:
            if not self._results[node_id, call.id]:
                self._losses.add("toolcall", "it has no result: Goose leaves it out when it continues")
        behind = sorted(place for call in reply.tool_calls for place in self._results[node_id, call.id])
        for place in behind:
            node = self._branch[place]
            assert isinstance(node, Message)
            assert isinstance(node.message, ToolResult)
            self._written_results.add(node.id)
            item = response_item(node.message, ids[node.message.tool_call_id], self._fields(place), self._losses)
            yield self._message(place, "user", [item], shown_at=at)

    def _fields(self, at: int) -> Mapping[str, Any]:
        """Return what the reader left of a message of Goose: an entry behind it."""
        behind = self._branch[at + 1] if at + 1 < len(self._branch) else None
        return object_of(behind.data) if isinstance(behind, Custom) and behind.custom_type == FIELDS else {}

    def _message(
        self,
        at: int,
        role: str,
        items: list[JsonObject],
        *,
        user_visible: bool = True,
        metadata: JsonObject | None = None,
        own_id: str | None = None,
        shown_at: int | None = None,
    ) -> JsonObject:
        node = self._branch[at]
        fields = self._fields(at)
        self._time = self._time_of(node)
        is_shown = (at if shown_at is None else shown_at) >= self._start
        visible = {"userVisible": user_visible, "agentVisible": is_shown}
        left = without(object_of(fields.get("metadata")), "inference")
        return {
            **{key: value for key, value in fields.items() if key not in _FIELDS_OF_PARTS},
            "id": self._id(node.id, own_id),
            "role": role,
            "created": self._time,
            "content": items,
            "metadata": {**left, **(metadata or {}), **visible},
        }

    def _time_of(self, node: WrittenNode) -> int:
        """Return the time of a node in seconds, or that of the message before it if that is later."""
        made_ms = parse_ms(node.timestamp)
        return max(self._time, 0, (self._session.started_ms if made_ms is None else made_ms) // 1000)

    def _id(self, node_id: str, own_id: str | None) -> str:
        if own_id and own_id not in self._used_ids:
            self._used_ids.add(own_id)
            return own_id
        return f"msg_{written_uuid(self._session.session, node_id)}"

    # ── compactions and entries of Goose ─────────────────────────────────────────────────────────

    def _compaction(self, place: int, at: int) -> Iterator[JsonObject]:
        """Yield the summary and the note behind it, before the node at `place`."""
        node = self._branch[at]
        assert isinstance(node, Compaction)
        if not node.summary:
            if at + 1 == len(self._branch):
                self._losses.add("compaction", "it has no summary, and nothing is behind it")
            return
        kept = self._branch[place]
        is_shown = place >= self._start
        self._time = self._time_of(kept)
        visible = {"userVisible": False, "agentVisible": is_shown}
        base = {"created": self._time, "metadata": visible}
        summary = {"type": "text", "text": node.summary}
        text = {"type": "text", "text": self._continuation(at)}
        yield {"id": self._id(node.id, None), "role": "user", **base, "content": [summary]}
        yield {"id": self._id(f"{node.id}:next", None), "role": "assistant", **base, "content": [text]}

    def _continuation(self, at: int) -> str:
        """Return the note that Goose itself put behind a summary, else our own."""
        for node in self._branch[at + 1 : at + 3]:
            if isinstance(node, Custom) and node.custom_type == f"{TOOL}:{CONTINUATION}":
                match object_of(node.data).get("content"):
                    case [{"type": "text", "text": str(text)}]:
                        return text
        return GO_ON

    def _custom(self, at: int, node: Custom) -> Iterator[JsonObject]:
        tool, _, kind = node.custom_type.partition(":")
        if node.custom_type in (_IMPORT_TYPE, FIELDS) or (tool == TOOL and kind in ("session", CONTINUATION)):
            return
        record = object_of(node.data)
        match record:
            case {"role": "user" | "assistant" as role, "content": [_, *_] as items} if tool == TOOL:
                if all(is_accepted(item) for item in items):
                    seen = object_of(record.get("metadata")).get("userVisible") is not False
                    own_id = string_of(record.get("id"))
                    message = self._message(at, role, items, user_visible=seen, own_id=own_id)
                    yield {**message, "metadata": {**message["metadata"], "agentVisible": False}}
                    return
        if node.in_context and (text := Prompt(content=node.content).text):
            self._losses.add(kind_of(node), "written as a note")
            items = noted([{"type": "text", "text": text}], node.custom_type)
            yield self._message(at, "user", items, user_visible=False)
        else:
            self._losses.add(kind_of(node), "Goose would refuse it" if tool == TOOL else _NOT_HELD)


# ── the session ──────────────────────────────────────────────────────────────────────────────────


def _document(
    session: SessionToWrite, branch: tuple[WrittenNode, ...], name: str, messages: list[JsonObject], losses: Losses
) -> JsonObject:
    info = _own_record(branch)
    if any(info.get(key) for key in ("recipe", "extension_data")):
        losses.add("extensions of the session", "Goose starts those of its own configuration")
    provider = _PROVIDERS.get(session.provider or "", session.provider)
    last_ms = max([session.started_ms, *(parse_ms(node.timestamp) or 0 for node in branch)])
    config = {"context_limit": None, "temperature": None, "max_tokens": None, "toolshim": False, "toolshim_model": None}
    has_own_name = session.title is not None and session.title != info.get("name")
    return {
        "id": name,
        "working_dir": session.cwd,
        "name": session.title or NO_TITLE,
        "user_set_name": bool(has_own_name or (session.title and info.get("user_set_name"))),
        "session_type": "user",
        "created_at": iso_timestamp(session.started_ms),
        "updated_at": iso_timestamp(last_ms),
        "extension_data": {},
        **_tokens(branch, info),
        "schedule_id": None,
        "recipe": None,
        "user_recipe_values": None,
        "conversation": messages,
        "message_count": len(messages),
        "provider_name": provider,
        "model_config": {"model_name": session.model, **config} if session.model else None,
    }


def _own_record(branch: tuple[WrittenNode, ...]) -> JsonObject:
    """Return the record of a session that was imported from Goose: the last one."""
    own = (node for node in reversed(branch) if isinstance(node, Custom) and node.custom_type == f"{TOOL}:session")
    return object_of(getattr(next(own, None), "data", None))


def _tokens(branch: tuple[WrittenNode, ...], info: JsonObject) -> JsonObject:
    """Return the token counts: those that Goose had, plus the usage of replies since. Unknown ones are null.

    The first three are those of the last model call, by which Goose decides when to compact.
    """
    used = [
        node.message.usage
        for node in branch
        if isinstance(node, Message) and isinstance(node.message, Reply) and node.message.usage is not None
    ]
    spent = [*used, *(node.usage for node in branch if isinstance(node, Compaction) and node.usage is not None)]
    found: JsonObject = {key: _count(info.get(key)) for key in _SUMS}
    if used:
        found = dict(zip(_SUMS, _counts(used[-1]), strict=True))
    total = [0, 0, 0]
    for usage in spent:
        total = [before + more for before, more in zip(total, _counts(usage), strict=True)]
    for key, more in zip(_SUMS, total, strict=True):
        before = _count(info.get(f"accumulated_{key}"))
        found[f"accumulated_{key}"] = before if not spent else _count((before or 0) + more)
    before_cost = info.get("accumulated_cost")
    cost = before_cost if isinstance(before_cost, float) else None
    costs = [usage.cost_micros for usage in spent if usage.cost_micros is not None]
    found["accumulated_cost"] = (cost or 0) + sum(costs) / 1_000_000 if costs else cost
    return {key: _count(value) if key != "accumulated_cost" else value for key, value in found.items()}


def _counts(usage: Usage) -> tuple[int, int, int]:
    """Return total, input and output. Goose counts what was read from or written to a cache as input."""
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return read + usage.output_tokens, read, usage.output_tokens


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _TOKENS_MAX
    return value if is_count and isinstance(value, int) else None
