"""The demo model: rules instead of a network, so that `run` does something real without a key.

It understands a few plain sentences (`phrases.py`), uses only the tools it is offered, and reports the results. It is a
function of the request alone: the progress of a turn is read from the messages, so it can be killed anywhere and
continues as if nothing had happened. If a tool fails, or its outcome is unknown, it stops and says so; it never retries
on its own.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence

import msgspec

from wakelog.errors import UsageError
from wakelog.log.content import Text, ToolCall
from wakelog.log.deltas import CallDelta, Delta
from wakelog.ports import Request
from wakelog.projections.context import ContextMessage
from wakelog.providers.phrases import RequestedCall, Step, understood
from wakelog.providers.playing import PreparedReply, call_id, play

_EXCERPT_LINES = 12
_LINE_CHARS = 160
_SUMMARY_LINES = 40
_FIRST_WORDS = 16
# An example sentence for each tool.
_PHRASES = {
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

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Stream the reply in small pieces."""
        return play(_reply(request), request, can_resume=self.can_resume)


def open_model(model: str, *_: object) -> DemoProvider:
    """Return the provider for `demo`, its only model."""
    if model != "demo":
        raise UsageError(f"the demo has no model {model!r}", hint="use demo")
    return DemoProvider()


class _Done(msgspec.Struct, frozen=True):
    """A step that was started, with the result of each of its calls."""

    results: tuple[ContextMessage | None, ...]

    @property
    def failed(self) -> bool:
        return any(result is None or result.is_error for result in self.results)


def _reply(request: Request) -> PreparedReply:
    if request.purpose == "compaction":
        # The last message is the instruction; the others are what it applies to.
        return PreparedReply(_summary(request.messages[:-1]))
    prompt, behind = _turn(request.messages)
    steps = understood(prompt)
    offered = [tool["name"] for tool in request.tools]
    if steps is None:
        return PreparedReply(_guide(offered))
    missing = sorted({wish.tool for step in steps for wish in step} - set(offered))
    if missing:
        return PreparedReply(_lacking(missing, offered))
    done = _done(behind)
    if len(done) >= len(steps) or any(step.failed for step in done):
        return PreparedReply(_report(steps, done))
    return _asked(steps[len(done)], request, again=bool(done))


# ── progress of the turn ─────────────────────────────────────────────────────────────────────────


def _turn(messages: Sequence[ContextMessage]) -> tuple[str, Sequence[ContextMessage]]:
    """Return the text of the last user message, and all messages after it."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user":
            return _text(messages[at]), messages[at + 1 :]
    return "", messages


def _done(behind: Sequence[ContextMessage]) -> list[_Done]:
    """Return the steps started since: one for each reply with calls, with the result of each call."""
    steps: list[_Done] = []
    for at, message in enumerate(behind):
        ids = [part.id for part in message.content if isinstance(part, ToolCall)]
        if message.role == "assistant" and ids:
            results = _results(behind[at + 1 :])
            steps.append(_Done(tuple(results.get(each) for each in ids)))
    return steps


def _results(behind: Sequence[ContextMessage]) -> dict[str | None, ContextMessage]:
    """Return the tool results before the next reply, by call id."""
    found: dict[str | None, ContextMessage] = {}
    for message in behind:
        if message.role == "assistant":
            break
        if message.role == "toolResult":
            found[message.tool_call_id] = message
    return found


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


def _asked(step: Step, request: Request, *, again: bool) -> PreparedReply:
    calls = tuple(CallDelta(call_id(request, number), wish.tool, wish.input) for number, wish in enumerate(step))
    titles = " and ".join(wish.title for wish in step)
    return PreparedReply(f"{'Now I' if again else 'I'} will {titles}.", calls=calls)


def _report(steps: Sequence[Step], done: Sequence[_Done]) -> str:
    """Return the result of each call, and which steps were not done because of a failure."""
    blocks = [
        _outcome(wish, result)
        for step, came in zip(steps, done, strict=False)
        for wish, result in zip(step, came.results, strict=False)
    ]
    left = [wish.title for step in steps[len(done) :] for wish in step]
    if left:
        blocks.append(f"So I stopped there. Not done: {', '.join(left)}.")
    return "\n".join(blocks)


def _outcome(wish: RequestedCall, result: ContextMessage | None) -> str:
    if result is None:
        return f"I do not know what came of this: {wish.title}."
    lines = _excerpt(_text(result))
    opening = "That did not work" if result.is_error else "Done"
    return "\n".join([f"{opening}: {wish.title}", *(f"    {line}" for line in lines)])


def _excerpt(text: str) -> list[str]:
    lines = text.rstrip("\n").split("\n") if text.strip() else ["(nothing)"]
    shown = [line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…" for line in lines[:_EXCERPT_LINES]]
    more = len(lines) - len(shown)
    return [*shown, f"({more} more {'line' if more == 1 else 'lines'})"] if more else shown


def _guide(offered: Sequence[str]) -> str:
    phrases = ", ".join(phrase for name, phrase in _PHRASES.items() if name in offered)
    if not phrases:
        return "I am the demo model, a few rules without a network, and I was given no tools that I can use."
    return (
        "I did not understand that: I am the demo model, a few rules without a network.\n"
        f"I can do this: {phrases}.\n"
        "Join several with `then`, and put what belongs together in quotes."
    )


def _lacking(missing: Sequence[str], offered: Sequence[str]) -> str:
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
