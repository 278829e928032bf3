"""Write a session as a chat history of Aider, which `aider --restore-chat-history` loads.

Aider sends prompts and answers to the model and nothing else: output of the program is not sent. It knows no tools,
images or summaries. So a tool call is text at the end of its answer, and its result is text in the place of a prompt.
Aider loads a whole file, so what a compaction replaced is left out and its summary is the first prompt.
A line of an answer that Aider would take for something else gets a space before it (`records.py`); its own reader drops
such lines. The file begins with an output that says so, and the reader of wakelog removes the spaces again.
"""

import itertools
import json
from collections.abc import Iterator

from wakelog.exchange.aider.entries import (
    BLANK,
    REASONING_TAG,
    TOOL,
    input_kind,
    model_of,
    usage_of,
)
from wakelog.exchange.aider.records import BREAK, INPUT, OUTPUT, START, WRITTEN, escaped
from wakelog.exchange.writing import (
    Losses,
    SessionToWrite,
    WrittenFile,
    WrittenNode,
    WrittenSession,
    kind_of,
    written_uuid,
)
from wakelog.log.content import (
    AnyPart,
    BaseMessage,
    Media,
    Note,
    Prompt,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
    Usage,
)
from wakelog.log.entry import Cancelled, Compaction, Custom, Failed, Message, ModelChange
from wakelog.log.timestamps import iso_timestamp
from wakelog.projections.context import estimate_tokens

_TOKENS_KEPT = 1_000
"""Aider summarises longer histories unless it is told another number."""
_TOKENS_MAX = 100_000
_MICROS = 1_000_000
_AS_PROMPT = "it is written as a prompt"
_AS_TEXT = "Aider has no tools: it is written as text"
_SPACE = "a space is put before lines that Aider would take for something else"
_SEPARATORS = "characters that separate lines are written as new lines"
_JOINED = "its texts are joined, with an empty line between them"
_TRIMMED = "Aider leaves out white space around a text"


def write_session(session: SessionToWrite) -> WrittenSession:
    """Return the active branch of a session as a chat history of its own, beside the one that Aider writes."""
    writer = _Writer(session)
    content = writer.content()
    name = written_uuid(session.session, session.head).replace("-", "")[:12]
    limit: tuple[str, ...] = ()
    tokens = estimate_tokens((Text(text=content),))
    if _TOKENS_KEPT < tokens <= _TOKENS_MAX:
        limit = ("--max-chat-history-tokens", str(2 * tokens))
    return WrittenSession(
        tool=TOOL,
        id="",
        files=(WrittenFile(f".aider.{name}.chat.history.md", content.encode("utf-8", "replace")),),
        losses=tuple(writer.losses),
        model_option="--model",
        resume=("aider", "--restore-chat-history", "--chat-history-file", "{file}", *limit),
    )


def call_text(call: ToolCall) -> str:
    """Return a tool call as text."""
    return f"[Tool call {call.name} {json.dumps(call.input, ensure_ascii=False)}]"


def result_text(result: ToolResult) -> str:
    """Return the first line of a tool result as text."""
    failed = "" if result.effective_status == "ok" else f" ({result.effective_status})"
    return f"[Result of the tool call {result.tool_name}{failed}]"


class _Writer:
    """The pieces of one chat history, and what they lack."""

    def __init__(self, session: SessionToWrite) -> None:
        self.losses = Losses()
        self._session = session
        self._model: str | None = None
        self._cost = 0
        self._is_after_reply = False
        self._has_usage_line = False

    def content(self) -> str:
        """Return the chat history."""
        branch = self._session.branch
        self._count_session(branch)
        started, rest = self._started(branch)
        pieces = [f"\n{START}{started}\n\n", self._output(WRITTEN)]
        if (model := _first_model(rest) or self._session.model) and not any(map(_stated_model, rest)):
            pieces.extend(self._change_model(model))
        active = list(self._active(rest))
        for at, node in enumerate(active):
            self._has_usage_line = at + 1 < len(active) and _is_usage(active[at + 1])
            pieces.extend(self._node(node))
        return "".join(pieces)

    def _count_session(self, branch: tuple[WrittenNode, ...]) -> None:
        session = self._session
        if session.title:
            self.losses.add("title", "Aider has no titles")
        if session.labels:
            self.losses.add("label", "Aider has no labels", len(session.labels))
        if others := len(session.nodes) - len(branch):
            self.losses.add("other branches", "Aider has no branches", others)
        self.losses.add("timestamp", "Aider records only when a chat begins", len(branch))
        if any(isinstance(node, Message) and isinstance(node.message, Reply) for node in branch):
            self.losses.add("provider", "Aider records the name of the model only")

    def _started(self, branch: tuple[WrittenNode, ...]) -> tuple[str, tuple[WrittenNode, ...]]:
        """Return when the chat began, and the nodes without those that say so."""
        kept = tuple(node for node in branch if not _is_start(node) and not _is_mark(node))
        time = next((node.data["time"] for node in branch if isinstance(node, Custom) and _is_start(node)), None)
        return time or iso_timestamp(self._session.started_ms)[:19].replace("T", " "), kept

    def _active(self, branch: tuple[WrittenNode, ...]) -> Iterator[WrittenNode]:
        """Yield the last compaction and the nodes that it kept or that follow it; all nodes if there is none."""
        at = max((at for at, node in enumerate(branch) if isinstance(node, Compaction)), default=None)
        if at is None:
            yield from branch
            return
        compaction = branch[at]
        assert isinstance(compaction, Compaction)
        kept = compaction.first_kept_entry_id
        first = next((place for place in range(at) if branch[place].id == kept), at)
        for node in branch[:first]:
            self.losses.add(kind_of(node), "it is before a compaction, and Aider loads a whole file")
        yield compaction
        for node in branch[first:]:
            if node is compaction:
                continue
            if isinstance(node, Compaction):
                self.losses.add(kind_of(node), "a later compaction replaces it")
            else:
                yield node

    def _node(self, node: WrittenNode) -> Iterator[str]:
        match node:
            case Message():
                yield from self._message(node, node.message)
            case Compaction() if node.summary:
                self.losses.add(kind_of(node), _AS_PROMPT)
                yield self._input(kind_of(node), node.summary)
            case Compaction():
                self.losses.add(kind_of(node), "it has no summary")
            case ModelChange():
                yield from self._change_model(node.model)
            case Cancelled():
                self.losses.add(kind_of(node), "what was displayed is written as an answer")
                yield from self._reply(kind_of(node), BaseMessage(content=node.content).text)
            case Failed():
                self.losses.add(kind_of(node), "it is written as output of the program")
                yield self._output(f"{node.reason} {node.error.message if node.error else ''}")
            case Custom(custom_type="aider:output", data={"text": str(text)}):
                if (model := model_of(text)) is not None:
                    self._model = model
                yield self._output(" ".join(text.split("\n")) if usage_of(text) else text)
            case Custom(custom_type="aider:command" | "aider:answer" | "aider:blank", data={"text": str(text)}):
                yield self._lines(text or BLANK)
            case Custom(in_context=True):
                self.losses.add(kind_of(node), _AS_PROMPT)
                yield from self._prompt(kind_of(node), BaseMessage(content=node.content))
            case _:
                self.losses.add(kind_of(node), "Aider has nothing like it")

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _message(self, node: WrittenNode, message: BaseMessage) -> Iterator[str]:
        kind = kind_of(node)
        match message:
            case Prompt():
                yield from self._prompt(kind, message)
            case Note():
                self.losses.add(kind, _AS_PROMPT)
                yield from self._prompt(kind, message)
            case ToolResult():
                self.losses.add(kind, _AS_TEXT)
                text = self._plain_text(kind, message.parts)
                yield self._input(kind, f"{result_text(message)}\n{text}" if text else result_text(message))
            case Reply():
                if message.model is not None:
                    yield from self._change_model(message.model)
                if message.request_id is not None or message.stop_reason is not None:
                    self.losses.add(kind, "Aider records neither the id of a request nor why an answer ended")
                yield from self._reply(kind, self._reply_text(kind, message.parts), message.usage)

    def _prompt(self, kind: str, message: BaseMessage) -> Iterator[str]:
        text = self._plain_text(kind, message.parts)
        if not text.strip():
            self.losses.add(kind, "it has no text")
            return
        yield self._input(kind, text)

    def _plain_text(self, kind: str, parts: tuple[AnyPart, ...]) -> str:
        """Return the text of parts; what else they hold is counted."""
        texts: list[str] = []
        for part in parts:
            if isinstance(part, Text):
                texts.append(part.text)
            elif isinstance(part, Media):
                self.losses.add(type(part).__name__.lower(), f"Aider keeps text only: a {kind} says that it was there")
                texts.append(f"[{type(part).__name__.lower()} {part.mime_type}]")
            else:
                self.losses.add(f"part of a {kind}", "Aider keeps text only")
        if sum(isinstance(part, Text) for part in parts) > 1:
            self.losses.add(kind, _JOINED)
        return "\n\n".join(texts)

    def _reply_text(self, kind: str, parts: tuple[AnyPart, ...]) -> str:
        texts: list[str] = []
        for part in parts:
            match part:
                case Thinking():
                    if part.signature or part.bound:
                        self.losses.add("signature of thinking", "Aider keeps the text of reasoning only")
                    if thinking := self._trimmed("thinking", part.thinking):
                        texts.append(f"<{REASONING_TAG}>\n\n{thinking}\n\n</{REASONING_TAG}>")
                case ToolCall():
                    self.losses.add("tool call", _AS_TEXT)
                    texts.append(call_text(part))
                case UnknownPart():
                    self.losses.add(f"part of a {kind}", "Aider keeps text only")
                case _:
                    texts.append(self._trimmed(kind, self._plain_text(kind, (part,))))
        if any(isinstance(one, Text) and isinstance(other, Text) for one, other in itertools.pairwise(parts)):
            self.losses.add(kind, _JOINED)
        return "\n\n".join(text for text in texts if text)

    def _reply(self, kind: str, text: str, usage: Usage | None = None) -> Iterator[str]:
        text = self._trimmed(kind, text)
        if not text:
            if usage is not None:
                self.losses.add("usage", "the answer has no text")
            self.losses.add(kind, "it has no text")
            return
        marked = escaped(text)
        if marked != text:
            self.losses.add(kind, _SPACE)
        if self._is_after_reply:
            # Aider joins answers between which there is nothing.
            yield self._output("")
        yield f"\n{marked}\n\n"
        self._is_after_reply = usage is None
        if usage is not None and not self._has_usage_line:
            yield self._output(self._usage_line(usage))

    def _usage_line(self, usage: Usage) -> str:
        sent = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        line = f"Tokens: {sent} sent"
        line += f", {usage.cache_write_tokens} cache write" if usage.cache_write_tokens else ""
        line += f", {usage.cache_read_tokens} cache hit" if usage.cache_read_tokens else ""
        line += f", {usage.output_tokens} received."
        if usage.cost_micros is not None:
            self._cost += usage.cost_micros
            line += f" Cost: ${_dollars(usage.cost_micros)} message, ${_dollars(self._cost)} session."
        return line

    def _change_model(self, model: str) -> Iterator[str]:
        if model == self._model:
            return
        if model_of(f"Model: {model}") != model:
            self.losses.add("model", "Aider takes names without spaces")
            return
        self._model = model
        yield self._output(f"Model: {model}")

    # ── lines ────────────────────────────────────────────────────────────────────────────────────

    def _clean(self, kind: str, text: str) -> str:
        """Return a text whose lines end with a new line, whatever else separates lines in it."""
        clean = "\n".join(text.splitlines())
        if clean.rstrip("\n") != text.rstrip("\n"):
            self.losses.add(kind, _SEPARATORS)
        return clean

    def _trimmed(self, kind: str, text: str) -> str:
        clean = self._clean(kind, text)
        if clean.strip() != clean:
            self.losses.add(kind, _TRIMMED)
        return clean.strip()

    def _input(self, kind: str, text: str) -> str:
        clean = self._clean(kind, text)
        if clean.rstrip() != clean:
            self.losses.add(kind, _TRIMMED)
        clean = clean.rstrip()
        if input_kind(clean.lstrip(" ")) != "prompt":
            self.losses.add(kind, _SPACE)
            clean = f" {clean}"
        return self._lines(clean)

    def _lines(self, text: str) -> str:
        self._is_after_reply = False
        lines = "".join(f"{INPUT}{line}{BREAK}\n" for line in text.split("\n"))
        return f"\n{lines}"

    def _output(self, text: str) -> str:
        self._is_after_reply = False
        lines = text.splitlines() or [""]
        if len(lines) > 1:
            self.losses.add("output", "each of its lines is written as one")
        return "".join(f"{OUTPUT}{line.strip()}".rstrip() + f"{BREAK}\n" for line in lines)


def _is_start(node: WrittenNode) -> bool:
    match node:
        case Custom(custom_type="aider:start", data={"time": str()}):
            return True
    return False


def _is_mark(node: WrittenNode) -> bool:
    """Return whether a node is the output that says who wrote a chat, which is written again."""
    match node:
        case Custom(custom_type="aider:output", data={"text": text}):
            return bool(text == WRITTEN)
    return False


def _is_usage(node: WrittenNode) -> bool:
    match node:
        case Custom(custom_type="aider:output", data={"text": str(text)}):
            return usage_of(text) is not None
    return False


def _stated_model(node: WrittenNode) -> str | None:
    match node:
        case Custom(custom_type="aider:output", data={"text": str(text)}):
            return model_of(text)
    return None


def _first_model(nodes: tuple[WrittenNode, ...]) -> str | None:
    for node in nodes:
        if isinstance(node, ModelChange):
            return node.model
        if isinstance(node, Message) and isinstance(node.message, Reply) and node.message.model:
            return node.message.model
    return None


def _dollars(micros: int) -> str:
    whole, rest = divmod(micros, _MICROS)
    return f"{whole}.{rest:06}".rstrip("0").ljust(len(str(whole)) + 3, "0")
