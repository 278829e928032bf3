"""Sessions of wakelog as a writer gets them, drawn by Hypothesis: valid ones, with everything that a session may hold.

A session is a list of turns: a prompt, replies with tool calls and the results of all of them, and a last reply.
Between turns there are notes, changes of the model, settings, compactions, entries of extensions, failures and
cancellations. With `branches`, a turn may go under the end of any earlier turn, and the head may be any leaf.

    @given(sessions_to_write(branches=True, thinking=False))
    def test_...(session): ...
"""

import base64
import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st

from wakelog.exchange.writing import SessionToWrite
from wakelog.log.content import (
    AnyPart,
    Image,
    Note,
    Prompt,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolStatus,
    Usage,
)
from wakelog.log.entry import (
    AnyNode,
    Cancelled,
    Compaction,
    Custom,
    Failed,
    FaultReport,
    Message,
    ModelChange,
    Setting,
)
from wakelog.log.ids import RANDOM_BYTES, new_id
from wakelog.log.timestamps import iso_timestamp

STARTED_MS = 1_772_359_200_000
"""2026-03-01T10:00:00Z; each entry is a second later than the one before it."""
MODELS = (("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-5"), ("openai-chat", "qwen3"), ("demo", "demo"))
"""Providers and models: the two APIs of OpenAI have different data that is bound to them."""
TOOL_NAMES = ("shell", "read_file", "mcp__server__look")
_SPECIAL = (
    "Grüße, 世界 👩‍👩‍👧 e\u0301 \u202e",
    "line one\nline two\r\n\n\ttabbed",
    "#### a heading\n> quoted\n# aider chat started at 2026-01-01 00:00:00",
    "```python\nprint('x')\n```\n```",
    '{"type": "text", "text": "\\u0000"} </function> <system-reminder>x</system-reminder>',
    "nul \x00 escape \x1b[31m separator \u2028 end",
    "  spaces around  ",
)
_PIXEL = base64.b64encode(bytes(range(70))).decode()
_FAULT = FaultReport(kind="overloaded", message="try again", retryable=True)

texts = st.one_of(
    st.sampled_from(_SPECIAL),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip),
)
"""Texts with something to see in them."""
_json_leaves = st.none() | st.booleans() | st.integers(-1000, 1000) | st.just(0.5) | texts
inputs = st.dictionaries(
    st.sampled_from(("command", "path", "options", "größe")),
    st.one_of(_json_leaves, st.lists(_json_leaves, max_size=2), st.dictionaries(texts, _json_leaves, max_size=2)),
    max_size=3,
)
"""Arguments of tool calls: JSON objects."""
images = st.sampled_from(("image/png", "image/jpeg")).map(lambda kind: Image(mime_type=kind, data=_PIXEL))
usages = st.builds(
    Usage,
    input_tokens=st.integers(0, 10**6),
    output_tokens=st.integers(0, 10**5),
    cache_read_tokens=st.integers(0, 10**6),
    cache_write_tokens=st.integers(0, 10**5),
    cost_micros=st.none() | st.integers(0, 10**7),
)


def sessions_to_write(
    *,
    branches: bool = False,
    with_images: bool = True,
    thinking: bool = True,
    compactions: bool = True,
    notes: bool = True,
    model_changes: bool = True,
    open_calls: bool = True,
    extras: bool = True,
    repeated_call_ids: bool = False,
    turns_max: int = 4,
) -> st.SearchStrategy[SessionToWrite]:
    """Return the strategy of sessions.

    `open_calls`: the last reply of a leaf may have calls without results. `extras`: settings, entries of extensions,
    failures and cancellations. `repeated_call_ids`: replies may use call ids that earlier replies have used.
    """

    @st.composite
    def drawn(draw: st.DrawFn) -> SessionToWrite:
        builder = _Builder(draw, thinking=thinking, with_images=with_images, repeated_call_ids=repeated_call_ids)
        between = builder.kinds(compactions=compactions, notes=notes, model_changes=model_changes, extras=extras)
        for _ in range(draw(st.integers(1, turns_max))):
            if branches and builder.ends and draw(st.booleans()):
                builder.go_to(draw(st.sampled_from(builder.ends)))
            for make in draw(st.lists(st.sampled_from(between), max_size=2)) if between else ():
                make()
            builder.turn(is_open=False)
        if open_calls and draw(st.booleans()):
            builder.turn(is_open=True)
        return builder.session(draw(st.sampled_from(builder.leaves())) if branches else None)

    return drawn()


class _Builder:
    """Nodes of one session, each under the one before it."""

    def __init__(self, draw: st.DrawFn, *, thinking: bool, with_images: bool, repeated_call_ids: bool) -> None:
        self._draw = draw
        self._thinking, self._with_images = thinking, with_images
        self._repeated_call_ids = repeated_call_ids
        self.session_id = new_id(STARTED_MS, bytes(RANDOM_BYTES))
        self._provider, self._model = draw(st.sampled_from(MODELS))
        self._first_model = self._provider, self._model
        self.nodes: list[AnyNode] = []
        self._head = self.session_id
        self.ends: list[str] = []
        """The ends of turns, under which another turn may go."""
        self._models: dict[str, tuple[str, str]] = {}
        self._calls = 0

    def kinds(
        self, *, compactions: bool, notes: bool, model_changes: bool, extras: bool
    ) -> tuple[Callable[[], object], ...]:
        """Return the functions that add what may stand between turns."""
        return (
            *((self.compaction,) if compactions else ()),
            *((self.note,) if notes else ()),
            *((self.model_change,) if model_changes else ()),
            *((self.setting, self.custom, self.failed, self.cancelled) if extras else ()),
        )

    def add(self, node: AnyNode) -> str:
        """Add a node under the last one, and return its id."""
        number = len(self.nodes) + 1
        time = STARTED_MS + 1000 * number
        node_id = new_id(time, number.to_bytes(RANDOM_BYTES, "big"))
        stamped = msgspec.structs.replace(node, id=node_id, parent_id=self._head, timestamp=iso_timestamp(time))
        self.nodes.append(stamped)
        self._head = stamped.id
        return stamped.id

    def go_to(self, end: str) -> None:
        """Let the next node go under the end of a turn."""
        self._head = end
        self._provider, self._model = self._models[end]

    def leaves(self) -> list[str]:
        """Return the nodes without children."""
        parents = {node.parent_id for node in self.nodes}
        return [node.id for node in self.nodes if node.id not in parents]

    def session(self, head: str | None) -> SessionToWrite:
        """Return the session with a head: the last node if none is given."""
        draw = self._draw
        provider, model = self._first_model
        labelled = draw(st.lists(st.sampled_from([node.id for node in self.nodes]), max_size=2, unique=True))
        return SessionToWrite(
            session=self.session_id,
            agent="crab",
            started_ms=STARTED_MS,
            cwd=draw(st.sampled_from(("/home/ada/project", "/home/ada/my project: ünï", ""))),
            title=draw(st.none() | texts),
            provider=provider,
            model=model,
            nodes=tuple(self.nodes),
            head=head or self._head,
            labels={node: draw(texts) for node in labelled},
            version="0.2.0",
        )

    # ── between turns ────────────────────────────────────────────────────────────────────────────

    def compaction(self) -> None:
        """Add a compaction that keeps from a prompt of this branch on, or nothing older than itself."""
        prompts = self._prompts_since_compaction()
        self.add(
            Compaction(
                summary=self._draw(texts),
                first_kept_entry_id=self._draw(st.sampled_from([None, *prompts])),
                tokens_before=self._draw(st.none() | st.integers(0, 10**6)),
                trigger=self._draw(st.sampled_from(("manual", "auto"))),
            )
        )

    def _prompts_since_compaction(self) -> list[str]:
        by_id = {node.id: node for node in self.nodes}
        found: list[str] = []
        at = by_id.get(self._head)
        while at is not None and not isinstance(at, Compaction):
            if isinstance(at, Message) and isinstance(at.message, Prompt):
                found.append(at.id)
            at = by_id.get(at.parent_id or "")
        return found

    def note(self) -> None:
        """Add a message of an extension."""
        self.add(Message(message=Note(content=(Text(text=self._draw(texts)),), custom_type="memory")))

    def model_change(self) -> None:
        """Change the model."""
        self._provider, self._model = self._draw(st.sampled_from(MODELS))
        self.add(ModelChange(model=self._model, provider=self._provider))

    def setting(self) -> None:
        """Add a setting."""
        key = self._draw(st.sampled_from(("thinkingLevel", "temperature")))
        self.add(Setting(key=key, value="high" if key == "thinkingLevel" else 0.5))

    def custom(self) -> None:
        """Add an entry of an extension, which the model may see."""
        seen = self._draw(st.booleans())
        content = (Text(text=self._draw(texts)),) if seen else ()
        self.add(Custom(custom_type="app:state", data={"n": 1}, in_context=seen, content=content))

    def failed(self) -> None:
        """Add a failed model call."""
        self.add(Failed(reason="retries", error=_FAULT))

    def cancelled(self) -> None:
        """Add a cancelled turn, with what was displayed of its reply."""
        content = self._draw(st.just(()) | texts.map(lambda text: (Text(text=text),)))
        self.add(Cancelled(reason="user", content=content))

    # ── turns ────────────────────────────────────────────────────────────────────────────────────

    def turn(self, *, is_open: bool) -> None:
        """Add a prompt and what follows from it; an open turn ends with calls of which some have no result."""
        draw = self._draw
        self.add(Message(message=Prompt(content=self._prompt_content())))
        for _ in range(draw(st.integers(0, 2))):
            self._answered(self._reply(calls=draw(st.integers(1, 3))), is_open=False)
        if is_open:
            self._answered(self._reply(calls=draw(st.integers(1, 2))), is_open=True)
        elif draw(st.integers(0, 9)):
            self._reply(calls=0)
        if not is_open:
            self.ends.append(self._head)
            self._models[self._head] = self._provider, self._model

    def _prompt_content(self) -> Any:
        draw = self._draw
        parts: tuple[AnyPart, ...] = (Text(text=draw(texts)),)
        if self._with_images and draw(st.integers(0, 4)) == 0:
            return (*parts, draw(images))
        return draw(st.sampled_from((parts, parts[0].text)))

    def _reply(self, *, calls: int) -> Message:
        draw = self._draw
        parts: list[AnyPart] = []
        if self._thinking and draw(st.integers(0, 2)) == 0:
            parts.append(self._thought())
        if not calls or draw(st.booleans()):
            parts.append(Text(text=draw(texts)))
        parts += [self._call() for _ in range(calls)]
        stop = "tools" if calls else draw(st.sampled_from(("stop", "stop", "length")))
        reply = Reply(
            content=tuple(parts),
            model=self._model,
            provider=self._provider,
            stop_reason=stop,
            usage=draw(st.none() | usages),
            request_id=draw(st.none() | st.just(f"req_{len(self.nodes)}")),
        )
        message = Message(message=reply)
        self.add(message)
        added = self.nodes[-1]
        assert isinstance(added, Message)
        return added

    def _thought(self) -> Thinking:
        """Return reasoning as the provider at hand sends it."""
        text = self._draw(texts)
        match self._provider:
            case "anthropic":
                hidden = Thinking(bound={"type": "redacted_thinking", "data": "ZGF0YQ=="})
                return self._draw(st.sampled_from((Thinking(thinking=text, signature="c2ln"), hidden)))
            case "openai":
                bound = {"id": f"rs_{len(self.nodes)}", "summary": [len(text)]}
                return Thinking(thinking=text, signature="ZW5j", bound=bound)
            case "openai-chat":
                return Thinking(thinking=text, bound={"field": "reasoning_content"})
        return Thinking(thinking=text)

    def _call(self) -> ToolCall:
        self._calls += 1
        number = self._draw(st.integers(1, 2)) if self._repeated_call_ids else self._calls
        if self._repeated_call_ids:
            # Unique within a reply, as everywhere: the number of the node is not part of it.
            number += 10 * (self._calls % 3)
        prefix = "toolu_01" if self._provider == "anthropic" else "call_"
        return ToolCall(
            id=f"{prefix}{number:04}", name=self._draw(st.sampled_from(TOOL_NAMES)), input=self._draw(inputs)
        )

    def _answered(self, reply: Message, *, is_open: bool) -> None:
        """Add results for the calls of a reply; at least the last call of an open turn gets none."""
        draw = self._draw
        assert isinstance(reply.message, Reply)
        calls = reply.message.tool_calls
        order = calls[:-1] if is_open else calls if draw(st.booleans()) else calls[::-1]
        for call in order:
            status: ToolStatus = draw(st.sampled_from(("ok", "ok", "error", "denied", "unknown")))
            parts: tuple[AnyPart, ...] = (Text(text=draw(texts | st.just(json.dumps({"n": 1})))),)
            if self._with_images and draw(st.integers(0, 4)) == 0:
                parts = (*parts, draw(images))
            result = ToolResult(
                content=parts,
                tool_call_id=call.id,
                tool_name=call.name,
                reply_id=reply.id,
                status=status,
                is_error=status != "ok",
            )
            self.add(Message(message=result))
