"""The demo model: answers by rules instead of a network, so that `run` does something real without a key.

`parse_prompt` turns a few plain sentences into tool calls. A prompt is split into steps at "then", at "and" before
a command word, and at line ends; quoted text is never split. A prompt is understood as a whole or not at all,
because half of a request is a different request. To match around quotes, rules see a copy of the text in which
everything quoted is one run of NULs, and take their words from the text itself at the same positions.

`DemoProvider` uses only the tools it is offered, and reports the results. It is a function of the request alone:
the progress of a turn is read from the messages, so it can be killed anywhere and continues. If a tool fails, or
its outcome is unknown, it stops and says so; it never retries on its own.
"""

import re
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import msgspec

from wakelog.errors import UsageError
from wakelog.log.content import Delta, JsonObject, Text, ToolCall, ToolCallDelta
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import ContextMessage
from wakelog.providers.playback import PreparedReply, play
from wakelog.providers.requests import new_tool_call_id


class RequestedCall(msgspec.Struct, frozen=True):
    """A tool call that a prompt asks for, and its title in a sentence: "read notes.txt"."""

    tool: str
    input: JsonObject
    title: str


Step = tuple[RequestedCall, ...]
_Rule = Callable[[list[str]], Iterable[RequestedCall]]
# Enough for typed text. The rules backtrack, so their time grows faster than the text.
_PROMPT_MAX_CHARS = 4_000
_QUOTED = re.compile(r'"[^"]*"|`[^`]*`|(?<!\S)\'[^\']*\'(?=\W|$)')
_VERBS = "read|show|cat|list|ls|grep|search|find|look for|run|execute|write|put|save|replace|count|ask|use"
_STEP_SEPARATOR = re.compile(rf"[,.;]?\s+(?:and\s+)?then\s+|,?\s+and\s+(?=(?:{_VERBS})\s)|\s*\n\s*", re.IGNORECASE)
_POLITE_PREFIX = re.compile(r"(?:(?:please|now|first|can you|could you|would you|[-*]|\d+[.)])\s+)+", re.IGNORECASE)
_FULL_STOP = re.compile(r"(?<=[\w\x00])[.!?]+$")
_LIST_SEPARATOR = re.compile(r",\s*(?:and\s+)?|\s+and\s+")


def parse_prompt(prompt: str) -> tuple[Step, ...] | None:
    """Return the steps of a prompt in order, each with its parallel calls; None if any part is not understood."""
    if len(prompt) > _PROMPT_MAX_CHARS:
        return None
    steps = [_parse_step(piece) for piece in _split_unquoted(prompt.strip(), _STEP_SEPARATOR) if piece.strip()]
    return tuple(steps) if steps and all(steps) else None


def _parse_step(piece: str) -> Step:
    """Return the calls of one step; none if no rule matches."""
    polite = _POLITE_PREFIX.match(piece)
    text = piece[polite.end() if polite else 0 :].strip()
    for pattern, rule in _RULES:
        # Only a shell command may end in a full stop of its own.
        words = text if rule is _run else text[: len(_FULL_STOP.sub("", _mask_quoted(text)))]
        found = pattern.fullmatch(_mask_quoted(words))
        if found:
            return tuple(rule([words[slice(*found.span(group))] for group in range(1, len(found.groups()) + 1)]))
    return ()


def _mask_quoted(text: str) -> str:
    return _QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), text)


def _split_unquoted(text: str, separator: re.Pattern[str]) -> list[str]:
    """Return the pieces of a text between separators that are not quoted."""
    places = [0, *(at for found in separator.finditer(_mask_quoted(text)) for at in found.span()), len(text)]
    return [text[start:stop] for start, stop in zip(places[::2], places[1::2], strict=True)]


def _unquote(text: str) -> str:
    """Return a text without the quotes around it."""
    return text[1:-1] if _QUOTED.fullmatch(text) else text


# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def _read(words: list[str]) -> Iterable[RequestedCall]:
    paths = [_unquote(path) for path in _split_unquoted(words[0], _LIST_SEPARATOR)]
    return [RequestedCall("read", {"path": path}, f"read {path}") for path in paths]


def _list(words: list[str]) -> Iterable[RequestedCall]:
    path = _unquote(words[0]) or "."
    return [RequestedCall("list", {"path": path}, f"list {path}")]


def _grep(words: list[str]) -> Iterable[RequestedCall]:
    pattern, path = _unquote(words[0]), _unquote(words[1]) or "."
    return [RequestedCall("grep", {"pattern": pattern, "path": path}, f"search for {pattern} in {path}")]


def _run(words: list[str]) -> Iterable[RequestedCall]:
    command = _unquote(words[0])
    return [RequestedCall("shell", {"command": command}, f"run `{command}`")]


def _write(words: list[str]) -> Iterable[RequestedCall]:
    content, path = map(_unquote, words)
    return [RequestedCall("write", {"path": path, "content": f"{content}\n"}, f"write {path}")]


def _replace(words: list[str]) -> Iterable[RequestedCall]:
    old, new, path = map(_unquote, words)
    return [RequestedCall("edit", {"path": path, "old": old, "new": new}, f"edit {path}")]


def _count(words: list[str]) -> Iterable[RequestedCall]:
    unit, path = words[0].lower(), _unquote(words[1])
    command = f"wc -{unit[0].replace('c', 'm')} -- {shlex.quote(path)}"
    return [RequestedCall("shell", {"command": command}, f"count {unit} in {path}")]


def _ask(words: list[str]) -> Iterable[RequestedCall]:
    prompt = _unquote(words[0])
    return [RequestedCall("agent", {"prompt": prompt}, f"ask an agent to {prompt}")]


def _use(words: list[str]) -> Iterable[RequestedCall]:
    try:
        given = msgspec.json.decode(_unquote(words[1]) if words[1] else "{}")
    except msgspec.DecodeError:
        return []
    return [RequestedCall(words[0], given, f"use {words[0]}")] if isinstance(given, dict) else []


_FILE = r"(?:the\s+)?(?:file\s+)?([^\s,]+)"
_FOLDER = r"(?:the\s+)?(?:folder\s+|directory\s+)?([^\s,]+)"
_LIST_WORDS = r"(?:\s+(?:the|all|files|entries|contents))*"
_FILES = r"[^\s,]+(?:(?:,\s*(?:and\s+)?|\s+and\s+)[^\s,]+)*"
_RULES: tuple[tuple[re.Pattern[str], _Rule], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), rule)
    for pattern, rule in (
        (r"(?:run|execute|\$)\s+(.+)", _run),
        (r"(?:ask|have|tell|let)\s+(?:an|another|the)\s+(?:sub-?)?agent\s+(?:to\s+)?(.+)", _ask),
        (r"(?:ask|have|tell|let)\s+a\s+sub-?agent\s+(?:to\s+)?(.+)", _ask),
        (r"use\s+([\w.-]+)(?:\s+with)?\s*(\{.*\}|\0+)?", _use),
        (rf"count\s+(?:the\s+)?(lines|words|characters)\s+(?:in|of)\s+{_FILE}", _count),
        (rf"replace\s+(.+?)\s+(?:with|by)\s+(.+)\s+in\s+{_FILE}", _replace),
        (rf"(?:write|put|save)\s+(.+)\s+(?:to|into|in)\s+{_FILE}", _write),
        (rf"(?:list|ls){_LIST_WORDS}(?:\s+(?:in|of|under))?(?:\s+{_FOLDER})?", _list),
        (rf"(?:grep|search|find|look\s+for)\s+(?:for\s+)?(.+?)(?:\s+(?:in|under)\s+{_FOLDER})?", _grep),
        (rf"(?:read|show|cat)\s+(?:me\s+)?(?:the\s+)?(?:files?\s+)?({_FILES})", _read),
    )
)


_EXCERPT_LINES = 12
_LINE_CHARS = 160
_SUMMARY_LINES = 40
_FIRST_WORDS = 16
# An example sentence for each tool.
_EXAMPLES = {
    "read": "read FILE",
    "list": "list DIR",
    "grep": "search WORD in DIR",
    "shell": "run COMMAND",
    "write": "write TEXT to FILE",
    "edit": "replace A with B in FILE",
    "agent": "ask an agent to DO SOMETHING",
}


class DemoProvider:
    """Provider that answers by rules."""

    name = "demo"
    can_resume = True

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Stream the reply in small pieces."""
        return play(_build_reply(request), request, can_resume=self.can_resume)


def open_model(model: str, *_: object) -> DemoProvider:
    """Return the provider for `demo`, its only model."""
    if model != "demo":
        raise UsageError(f"unknown demo model {model!r}", hint="use demo")
    return DemoProvider()


class _StartedStep(msgspec.Struct, frozen=True):
    """A step that was started, with the result of each of its calls."""

    results: tuple[ContextMessage | None, ...]

    @property
    def failed(self) -> bool:
        return any(result is None or result.is_error for result in self.results)


def _build_reply(request: ModelRequest) -> PreparedReply:
    if request.purpose == "compaction":
        # The last message is the instruction; the others are what it applies to.
        return PreparedReply(_summary(request.messages[:-1]))
    prompt, later = _current_turn(request.messages)
    steps = parse_prompt(prompt)
    offered = [tool["name"] for tool in request.tools]
    if steps is None:
        return PreparedReply(_usage_text(offered))
    missing = sorted({call.tool for step in steps for call in step} - set(offered))
    if missing:
        return PreparedReply(_missing_tools_text(missing, offered))
    done = _started_steps(later)
    if len(done) >= len(steps) or any(step.failed for step in done):
        return PreparedReply(_report(steps, done))
    return _reply_with_calls(steps[len(done)], request, again=bool(done))


# ── progress of the turn ─────────────────────────────────────────────────────────────────────────


def _current_turn(messages: Sequence[ContextMessage]) -> tuple[str, Sequence[ContextMessage]]:
    """Return the text of the last user message, and all messages after it."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user":
            return _text(messages[at]), messages[at + 1 :]
    return "", messages


def _started_steps(messages: Sequence[ContextMessage]) -> list[_StartedStep]:
    """Return the steps started since: one for each reply with calls, with the result of each call."""
    steps: list[_StartedStep] = []
    for at, message in enumerate(messages):
        ids = [part.id for part in message.content if isinstance(part, ToolCall)]
        if message.role == "assistant" and ids:
            results = _results(messages[at + 1 :])
            steps.append(_StartedStep(tuple(results.get(each) for each in ids)))
    return steps


def _results(messages: Sequence[ContextMessage]) -> dict[str | None, ContextMessage]:
    """Return the tool results before the next reply, by call id."""
    found: dict[str | None, ContextMessage] = {}
    for message in messages:
        if message.role == "assistant":
            break
        if message.role == "toolResult":
            found[message.tool_call_id] = message
    return found


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


def _reply_with_calls(step: Step, request: ModelRequest, *, again: bool) -> PreparedReply:
    calls = tuple(
        ToolCallDelta(new_tool_call_id(request, number), call.tool, call.input) for number, call in enumerate(step)
    )
    titles = " and ".join(call.title for call in step)
    return PreparedReply(f"{'Now I' if again else 'I'} will {titles}.", calls=calls)


def _report(steps: Sequence[Step], done: Sequence[_StartedStep]) -> str:
    """Return the result of each call, and which steps were not done because of a failure."""
    blocks = [
        _outcome(call, result)
        for step, started in zip(steps, done, strict=False)
        for call, result in zip(step, started.results, strict=False)
    ]
    left = [call.title for step in steps[len(done) :] for call in step]
    if left:
        blocks.append(f"So I stopped there. Not done: {', '.join(left)}.")
    return "\n".join(blocks)


def _outcome(call: RequestedCall, result: ContextMessage | None) -> str:
    if result is None:
        return f"I do not know what came of this: {call.title}."
    lines = _excerpt(_text(result))
    opening = "That did not work" if result.is_error else "Done"
    return "\n".join([f"{opening}: {call.title}", *(f"    {line}" for line in lines)])


def _excerpt(text: str) -> list[str]:
    lines = text.rstrip("\n").split("\n") if text.strip() else ["(nothing)"]
    shown = [line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…" for line in lines[:_EXCERPT_LINES]]
    more = len(lines) - len(shown)
    return [*shown, f"({more} more {'line' if more == 1 else 'lines'})"] if more else shown


def _usage_text(offered: Sequence[str]) -> str:
    phrases = ", ".join(phrase for name, phrase in _EXAMPLES.items() if name in offered)
    if not phrases:
        return "I am the demo model, a few rules without a network, and I was given no tools that I can use."
    return (
        "I did not understand that: I am the demo model, a few rules without a network.\n"
        f"I can do this: {phrases}.\n"
        "Join several with `then`, and put what belongs together in quotes."
    )


def _missing_tools_text(missing: Sequence[str], offered: Sequence[str]) -> str:
    need = f"the tool {missing[0]}" if len(missing) == 1 else f"the tools {', '.join(missing)}"
    have = f"I only have {', '.join(offered)}" if offered else "I have no tools"
    return f"For that I would need {need}, and {have}. Nothing was done."


# ── summary ──────────────────────────────────────────────────────────────────────────────────────


def _summary(messages: Sequence[ContextMessage]) -> str:
    """Return an extract: how each prompt began, which tools were used, how the last answer began."""
    prompts = [_text(message) for message in messages if message.role == "user"]
    answers = [_text(message) for message in messages if message.role == "assistant"]
    used = Counter(part.name for message in messages for part in message.content if isinstance(part, ToolCall))
    lines = ["What was asked:" if prompts else "Nothing was asked."]
    lines += [f"- {_first_words(prompt)}" for prompt in prompts[-_SUMMARY_LINES:]]
    if used:
        lines.append(f"Tools used: {', '.join(f'{name} ({count})' for name, count in used.items())}.")
    if any(answers):
        lines.append(f"The last answer began: {_first_words([text for text in answers if text][-1])}")
    return "\n".join(lines)


def _first_words(text: str) -> str:
    """Return the beginning of a text on one line."""
    words = text.split(maxsplit=_FIRST_WORDS)
    short = " ".join(words[:_FIRST_WORDS])[:_LINE_CHARS]
    return f"{short} …" if len(words) > _FIRST_WORDS else short


def _text(message: ContextMessage) -> str:
    return "".join(part.text for part in message.content if isinstance(part, Text))
