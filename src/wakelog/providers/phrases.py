"""Rule-based parser: plain sentences → tool calls, for the demo model. Pure: it knows tools only by name.

A prompt is split into steps at "then", at "and" before a command word, and at line ends; text in quotes or backticks is
never split. A prompt is understood as a whole or not at all, because half of a request is a different request. To match
around quotes, rules see a shadow of the text in which everything quoted is one run of NULs, and take their words from
the text itself at the same positions.
"""

import re
import shlex
from collections.abc import Callable, Iterable

import msgspec

from wakelog.log.content import JsonObject


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
_CUT = re.compile(rf"[,.;]?\s+(?:and\s+)?then\s+|,?\s+and\s+(?=(?:{_VERBS})\s)|\s*\n\s*", re.IGNORECASE)
_POLITE = re.compile(r"(?:(?:please|now|first|can you|could you|would you|[-*]|\d+[.)])\s+)+", re.IGNORECASE)
_FULL_STOP = re.compile(r"(?<=[\w\x00])[.!?]+$")
_AND = re.compile(r",\s*(?:and\s+)?|\s+and\s+")


def understood(prompt: str) -> tuple[Step, ...] | None:
    """Return the steps of a prompt in order, each with its parallel calls; None if any part is not understood."""
    if len(prompt) > _PROMPT_MAX_CHARS:
        return None
    steps = [_step(piece) for piece in _cut(prompt.strip(), _CUT) if piece.strip()]
    return tuple(steps) if steps and all(steps) else None


def _step(piece: str) -> Step:
    """Return the calls of one step; none if no rule matches."""
    polite = _POLITE.match(piece)
    text = piece[polite.end() if polite else 0 :].strip()
    for pattern, rule in _RULES:
        # Only a shell command may end in a full stop of its own.
        words = text if rule is _run else text[: len(_FULL_STOP.sub("", _shadow(text)))]
        found = pattern.fullmatch(_shadow(words))
        if found:
            return tuple(rule([words[slice(*found.span(group))] for group in range(1, len(found.groups()) + 1)]))
    return ()


def _shadow(text: str) -> str:
    return _QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), text)


def _cut(text: str, separator: re.Pattern[str]) -> list[str]:
    """Return the pieces of a text between separators that are not quoted."""
    places = [0, *(at for found in separator.finditer(_shadow(text)) for at in found.span()), len(text)]
    return [text[start:stop] for start, stop in zip(places[::2], places[1::2], strict=True)]


def _bare(text: str) -> str:
    """Return a text without the quotes around it."""
    return text[1:-1] if _QUOTED.fullmatch(text) else text


# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def _read(words: list[str]) -> Iterable[RequestedCall]:
    paths = [_bare(path) for path in _cut(words[0], _AND)]
    return [RequestedCall("read", {"path": path}, f"read {path}") for path in paths]


def _list(words: list[str]) -> Iterable[RequestedCall]:
    path = _bare(words[0]) or "."
    return [RequestedCall("list", {"path": path}, f"list {path}")]


def _grep(words: list[str]) -> Iterable[RequestedCall]:
    pattern, path = _bare(words[0]), _bare(words[1]) or "."
    return [RequestedCall("grep", {"pattern": pattern, "path": path}, f"search for {pattern} in {path}")]


def _run(words: list[str]) -> Iterable[RequestedCall]:
    command = _bare(words[0])
    return [RequestedCall("shell", {"command": command}, f"run `{command}`")]


def _write(words: list[str]) -> Iterable[RequestedCall]:
    content, path = map(_bare, words)
    return [RequestedCall("write", {"path": path, "content": f"{content}\n"}, f"write {path}")]


def _replace(words: list[str]) -> Iterable[RequestedCall]:
    old, new, path = map(_bare, words)
    return [RequestedCall("edit", {"path": path, "old": old, "new": new}, f"edit {path}")]


def _count(words: list[str]) -> Iterable[RequestedCall]:
    unit, path = words[0].lower(), _bare(words[1])
    command = f"wc -{unit[0].replace('c', 'm')} -- {shlex.quote(path)}"
    return [RequestedCall("shell", {"command": command}, f"count {unit} in {path}")]


def _ask(words: list[str]) -> Iterable[RequestedCall]:
    prompt = _bare(words[0])
    return [RequestedCall("agent", {"prompt": prompt}, f"ask an agent to {prompt}")]


def _use(words: list[str]) -> Iterable[RequestedCall]:
    try:
        given = msgspec.json.decode(_bare(words[1]) if words[1] else "{}")
    except msgspec.DecodeError:
        return []
    return [RequestedCall(words[0], given, f"use {words[0]}")] if isinstance(given, dict) else []


_FILE = r"(?:the\s+)?(?:file\s+)?([^\s,]+)"
_FOLDER = r"(?:the\s+)?(?:folder\s+|directory\s+)?([^\s,]+)"
_LISTED = r"(?:\s+(?:the|all|files|entries|contents))*"
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
        (rf"(?:list|ls){_LISTED}(?:\s+(?:in|of|under))?(?:\s+{_FOLDER})?", _list),
        (rf"(?:grep|search|find|look\s+for)\s+(?:for\s+)?(.+?)(?:\s+(?:in|under)\s+{_FOLDER})?", _grep),
        (rf"(?:read|show|cat)\s+(?:me\s+)?(?:the\s+)?(?:files?\s+)?({_FILES})", _read),
    )
)
