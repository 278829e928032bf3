"""A scripted model behind the loopback server. It speaks the four wire formats that agents use, chosen by the path.

    with ModelServer() as server:
        pause = Pause()
        server.play([Say("I look."), Shell("ls")], [Say("Half a"), pause, Say(" sentence")])
        ... an agent with its endpoint at server.url ...
        server.turns[0].rows

Each request of a turn takes the next answer of the script; when there is none, the model says "Done.". Requests beside
the conversation, such as those for a title, offer no tools: they get a short text and take nothing from the script.
An answer with a shell command waits for a request that offers a shell: agents that ask at once may not all have one.
With `without_tools=True` every request belongs to the conversation, for agents that offer no tools.
"""

import json
import re
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.loopback.model_answers import WIRES, Call, ModelAnswer, Pause, Piece, Say, Shell, blocks_of
from tests.loopback.rows import ROWS, TOOLS, OfferedTool, Row, unpaired_calls
from tests.loopback.server import Act, Answer, Asked, Hold, Loopback, events
from tests.patience import PATIENCE_S

SIDE_TEXT = "Short title"
MODEL = "scripted-model"
_GEMINI = re.compile(r"/models/([^/:]+):(generateContent|streamGenerateContent)$")
_ENDINGS = {"/messages": "anthropic", "/chat/completions": "chat", "/responses": "responses"}
_SHELLS = ("bash", "shell", "exec_command", "shell_command", "run_shell_command", "developer__shell", "exec")
_COMMANDS = ("command", "cmd", "script")
_NEUTRAL: Mapping[str, Any] = {"string": "run", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
_JSON = {"content-type": "application/json"}


class ModelRequest(NamedTuple):
    """One request for an answer of the model. `rows` is the conversation, equal for all wire formats."""

    wire: str
    model: str
    is_streamed: bool
    is_side: bool
    rows: tuple[Row, ...]
    tools: tuple[str, ...]
    body: Mapping[str, Any]

    @property
    def conversation(self) -> list[Row]:
        """The rows without system prompts."""
        return [row for row in self.rows if row.kind != "system"]

    @property
    def problems(self) -> list[str]:
        """What a provider would refuse in the conversation."""
        return unpaired_calls(self.rows)


class ModelServer:
    """A server of scripted answers for the duration of the `with` block. Leaving it releases every pause.

    `url` has no path: clients of OpenAI's formats add `/v1`, others their own.
    """

    def __init__(self, *, without_tools: bool = False) -> None:
        self.requests: list[ModelRequest] = []
        self.others: list[Asked] = []
        """Requests that ask for no answer of a model, such as lists of models."""
        self._script: deque[Sequence[Piece]] = deque()
        self._without_tools = without_tools
        self._changed = threading.Condition()
        self._pauses: list[Pause] = []
        self._loopback = Loopback(self._answer)

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return self._loopback.url

    def play(self, *answers: Sequence[Piece]) -> None:
        """Add answers to the script."""
        with self._changed:
            self._script.extend(answers)
            self._pauses += [piece for answer in answers for piece in answer if isinstance(piece, Pause)]

    def forget_script(self) -> None:
        """Drop the answers that were not used."""
        with self._changed:
            self._script.clear()

    @property
    def turns(self) -> list[ModelRequest]:
        """The requests of the conversation, without those beside it."""
        with self._changed:
            return [request for request in self.requests if not request.is_side]

    def wait_for_turns(self, count: int) -> None:
        """Wait until so many requests of the conversation have come."""
        with self._changed:
            came = self._changed.wait_for(
                lambda: sum(not request.is_side for request in self.requests) >= count, timeout=PATIENCE_S
            )
        assert came, f"the agent sent fewer than {count} requests"

    def __enter__(self) -> Self:
        self._loopback.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pause in self._pauses:
            pause.release()
        self._loopback.__exit__(kind, error, trace)

    # ── answering ────────────────────────────────────────────────────────────────────────────────

    def _answer(self, asked: Asked) -> Answer:
        path = asked.path.partition("?")[0]
        wire, is_streamed, model = _wire_of(path)
        if not wire or not asked.body:
            return self._answer_other(asked, path)
        body = asked.json
        is_streamed = is_streamed or body.get("stream") is True
        model = model or body.get("model") or MODEL
        tools = list(TOOLS[wire](body))
        with self._changed:
            is_side = not tools and not self._without_tools
            names = tuple(tool.name for tool in tools)
            rows = tuple(ROWS[wire](body))
            self.requests.append(ModelRequest(wire, model, is_streamed, is_side, rows, names, body))
            number = len(self.requests)
            pieces = [Say(SIDE_TEXT)] if is_side else self._next_answer(tools)
            self._changed.notify_all()
        resolved = [_resolved(piece, tools) for piece in pieces]
        answer = ModelAnswer(number, model, blocks_of(resolved, WIRES[wire].call_prefix, number))
        return _streamed(wire, answer) if is_streamed else _whole(wire, answer)

    def _next_answer(self, tools: Sequence[OfferedTool]) -> Sequence[Piece]:
        """Take the first answer of the script that the tools can carry out; without one, the first."""
        if not self._script:
            return [Say("Done.")]
        fits = (number for number, answer in enumerate(self._script) if _has_shell(tools) or not _runs_shell(answer))
        number = next(fits, 0)
        answer = self._script[number]
        del self._script[number]
        return answer

    def _answer_other(self, asked: Asked, path: str) -> Answer:
        with self._changed:
            self.others.append(asked)
        if path.endswith("/models"):
            entry = {"id": MODEL, "object": "model", "type": "model", "display_name": MODEL, "created": 0}
            return _json_answer({"object": "list", "data": [entry], "models": [], "has_more": False})
        if "count" in path.lower():
            return _json_answer({"input_tokens": 1, "totalTokens": 1})
        return _json_answer({"type": "error", "error": {"type": "not_found_error", "message": "not found"}}, 404)


def _wire_of(path: str) -> tuple[str, bool, str]:
    """Return the wire format of a path, whether it is the one for streams, and the model that it names."""
    if found := _GEMINI.search(path):
        return "gemini", found[2] == "streamGenerateContent", found[1]
    return next((wire for ending, wire in _ENDINGS.items() if path.endswith(ending)), ""), False, ""


def _resolved(piece: Piece, tools: Sequence[OfferedTool]) -> Say | Call | Pause:
    return shell_call(tools, piece.command) if isinstance(piece, Shell) else piece


def _runs_shell(answer: Sequence[Piece]) -> bool:
    return any(isinstance(piece, Shell) for piece in answer)


def _has_shell(tools: Sequence[OfferedTool]) -> bool:
    return any(tool.name.lower() in _SHELLS for tool in tools)


def shell_call(tools: Sequence[OfferedTool], command: str) -> Call:
    """Return the call of the shell tool among those that are offered, with what its schema requires."""
    shells = {tool.name.lower(): tool for tool in tools}
    found = next((shells[name] for name in _SHELLS if name in shells), None)
    assert found is not None, f"none of the tools runs a command: {sorted(shells)}"
    properties = found.schema.get("properties") or {}
    key = next((name for name in _COMMANDS if name in properties), _COMMANDS[0])
    arguments = {name: _neutral(properties.get(name, {})) for name in found.schema.get("required") or () if name != key}
    is_list = _kind(properties.get(key, {})) == "array"
    return Call(found.name, {key: ["bash", "-lc", command] if is_list else command, **arguments})


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "string")
    return str(kind[0] if isinstance(kind, list) else kind).lower()


def _neutral(schema: Mapping[str, Any]) -> Any:
    return schema["enum"][0] if schema.get("enum") else _NEUTRAL.get(_kind(schema), "run")


def _streamed(wire: str, answer: ModelAnswer) -> Answer:
    form = WIRES[wire]
    acts: list[Act] = []
    for event in form.events(answer):
        if isinstance(event, Pause):
            acts.append(Hold(event.gate, event.reached))
        else:
            acts += events(event, named=form.has_event_names)
    return Answer([*acts, form.end])


def _whole(wire: str, answer: ModelAnswer) -> Answer:
    held = [Hold(pause.gate, pause.reached) for pause in answer.pauses]
    return Answer([*held, json.dumps(WIRES[wire].whole(answer)).encode()], headers=_JSON)


def _json_answer(value: Mapping[str, Any], status: int = 200) -> Answer:
    return Answer([json.dumps(value).encode()], status, _JSON)
