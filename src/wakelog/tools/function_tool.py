"""Function tools: the `tool` decorator, the JSON schema of a typed function, and the adapter that calls it.

Rule 1: msgspec makes one struct of the parameters; the schema for the model and the validation of its arguments
both come from that struct, so they cannot disagree. A function that cannot be described is a `UsageError` when it
is made a tool; arguments that do not fit become the call's outcome, in one line.
Rule 2: an exception of the function becomes an error outcome, which the model reads. Only cancellation is passed
on, and mistakes of the tool's author, which are raised before anything starts.
Rule 3: a call refused in `prepare` stays refused. The refusal is part of the intent in the log, so `run` and
`receipt` return the same outcome at every attempt, and the function is not called.
Rule 4: `show` is called in the thread of the event loop, and never after `run` has ended. An exception of `show` is
not an error of the tool: `run` raises it.
"""

import asyncio
import contextlib
import functools
import inspect
import re
import typing
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar, cast, overload

import msgspec

from wakelog.decide.wording import valid_utf8
from wakelog.decoding import build_decoder
from wakelog.errors import UsageError
from wakelog.log.entry import ReplayMode
from wakelog.ports.runtime import ReceiptAnswer, Tool, ToolInvocation, ToolOutcome

_MUTABLE = (list, dict, set)
_ARGUMENT_LINE = re.compile(r"(\w+)(?: \([^)]*\))?: +(.*)")


class FunctionDescription(msgspec.Struct, frozen=True):
    """A function as described to a model. `invocation_parameter` names the one for the invocation."""

    description: str
    schema: Mapping[str, Any]
    struct: type[msgspec.Struct]
    invocation_parameter: str | None = None

    def arguments(self, values: Any) -> dict[str, Any]:
        """Return a model's arguments as the function takes them; `UsageError` in one line if they do not fit."""
        try:
            return msgspec.structs.asdict(msgspec.convert(values, self.struct))
        except msgspec.ValidationError as error:
            raise UsageError(f"bad arguments: {' '.join(str(error).split())}") from None


def describe_function(function: Callable[..., Any]) -> FunctionDescription:
    """Read a function's signature and docstring."""
    types = _parameter_types(function)
    parameters = [
        _checked_parameter(function, parameter, types) for parameter in inspect.signature(function).parameters.values()
    ]
    calls = [parameter.name for parameter in parameters if types[parameter.name] is ToolInvocation]
    if len(calls) > 1:
        raise UsageError(f"{function.__name__} has two parameters of type ToolInvocation", hint="remove one of them")
    description, meanings = _docstring(function)
    fields = [
        _struct_field(parameter, types[parameter.name]) for parameter in parameters if parameter.name not in calls
    ]
    shape, schema = _arguments_struct(function, fields)
    # The conversion of arguments needs no lock then.
    build_decoder(shape)
    for name, meaning in meanings.items():
        if name in schema["properties"]:
            schema["properties"][name].setdefault("description", meaning)
    return FunctionDescription(description, schema, shape, *calls)


# ── signature ────────────────────────────────────────────────────────────────────────────────────


def _parameter_types(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations, with names resolved."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        hint = "use names that are defined in its module"
        raise UsageError(f"the types of {function.__name__} cannot be read: {error}", hint=hint) from error


def _checked_parameter(
    function: Callable[..., Any], parameter: inspect.Parameter, types: dict[str, Any]
) -> inspect.Parameter:
    """Return a parameter if it can be passed by name and has a type; `UsageError` otherwise."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        hint = "a model passes arguments by name: declare each as a named parameter"
        raise UsageError(
            f"{function.__name__} cannot be a tool: parameter {parameter} cannot be passed by name", hint=hint
        )
    if parameter.name not in types:
        hint = f"annotate it, for example `{parameter.name}: str`"
        raise UsageError(f"the parameter {parameter.name} of {function.__name__} has no type", hint=hint)
    return parameter


def _struct_field(parameter: inspect.Parameter, kind: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    """Return a parameter as a struct field. A mutable default is copied for each call."""
    default = parameter.default
    if default is parameter.empty:
        return parameter.name, kind
    if isinstance(default, _MUTABLE):
        return parameter.name, kind, msgspec.field(default_factory=default.copy)
    return parameter.name, kind, default


def _arguments_struct(function: Callable[..., Any], fields: list[Any]) -> tuple[type[msgspec.Struct], dict[str, Any]]:
    """Return the struct of the arguments and its schema, with named types under `$defs`."""
    title = function.__name__
    try:
        shape = msgspec.defstruct(title, fields, kw_only=True, forbid_unknown_fields=True)
        (reference,), named = msgspec.json.schema_components((shape,), ref_template="#/$defs/{name}")
    except TypeError as error:
        hint = "use str, int, float, bool, list, dict, Literal, unions with None, TypedDict or a msgspec Struct"
        raise UsageError(f"{title} cannot be described to a model: {error}", hint=hint) from error
    schema = named.pop(reference["$ref"].removeprefix("#/$defs/"))
    del schema["title"]
    return shape, schema | ({"$defs": named} if named else {})


# ── docstring ────────────────────────────────────────────────────────────────────────────────────


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the first paragraph on one line, and the description of each parameter in the `Args:` section."""
    text = inspect.getdoc(function) or ""
    first, _, _ = text.partition("\n\n")
    _, _, section = f"\n{text}\n".partition("\nArgs:\n")
    return " ".join(first.split()), _parameter_descriptions(section)


def _parameter_descriptions(section: str) -> dict[str, str]:
    """Parse `name: text` lines; one indented further continues the one before, an empty or unindented one ends them."""
    meanings: dict[str, str] = {}
    name, margin = "", 0
    for line in section.splitlines():
        indent = len(line) - len(line.lstrip())
        if not line.strip() or indent == 0:
            break
        margin = margin or indent
        match = _ARGUMENT_LINE.fullmatch(line.strip()) if indent <= margin else None
        if match:
            name, meanings[match[1]] = match[1], match[2]
        elif name:
            meanings[name] += " " + line.strip()
    return meanings


# The attributes of `ports.Tool`.
_TOOL_ATTRIBUTES = ("name", "description", "schema", "replay", "prepare", "run", "receipt")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Key of an intent: why the call was refused before it started.
_REFUSED = "refused"
_P = ParamSpec("_P")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class FunctionTool:
    """A tool made from a function. Calling the tool calls the function unchanged."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        replay: ReplayMode = "never",
        accepts_marks: bool = False,
    ) -> None:
        self.name = name or function.__name__
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"not a valid tool name: {self.name!r}", hint="use at most 64 letters, digits, - and _")
        if replay not in ("safe", "receipt", "never"):
            raise UsageError(f'replay must be "safe", "receipt" or "never", not {replay!r}')
        self.replay: ReplayMode = replay
        self.accepts_marks = accepts_marks
        self._described = describe_function(function)
        self.description = self._described.description
        self.schema = self._described.schema
        self._function = function
        self._prepare: Callable[..., Any] | None = None
        self._receipt: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self._function(*args, **kwargs)

    def check(self) -> None:
        """Raise `UsageError` if the tool declares receipts and has no receipt function."""
        if self.replay == "receipt" and self._receipt is None:
            hint = f"decorate a function that takes a ToolInvocation with @{self.name}.receipt"
            raise UsageError(f'the tool {self.name} has replay="receipt" but no receipt function', hint=hint)

    # Each of the next two methods has two uses: as a decorator it registers the author's function; with an invocation
    # it is the method of the port, which calls that function.

    @overload
    def prepare(self, call: ToolInvocation) -> Coroutine[Any, Any, Mapping[str, Any]]: ...
    @overload
    def prepare(self, call: _Function) -> _Function: ...
    def prepare(self, call: Any) -> Any:
        """As a decorator: register the function that makes the intent. With an invocation: return it, for the log."""
        if isinstance(call, ToolInvocation):
            return self._intent(call)
        self._prepare = self._registered(call)
        return call

    @overload
    def receipt(self, call: ToolInvocation) -> Coroutine[Any, Any, ReceiptAnswer]: ...
    @overload
    def receipt(self, call: _Function) -> _Function: ...
    def receipt(self, call: Any) -> Any:
        """As a decorator: register the function that reports on a begun call. With an invocation: return its answer."""
        if isinstance(call, ToolInvocation):
            return self._answer(call)
        self._receipt = self._registered(call)
        return call

    async def run(self, call: ToolInvocation) -> ToolOutcome:
        """Call the function; return its result or exception as the outcome."""
        self.check()
        if _REFUSED in call.intent:
            return ToolOutcome(str(call.intent[_REFUSED]), is_error=True)
        try:
            arguments = self._described.arguments(call.arguments)
        except UsageError as error:
            return ToolOutcome(error.message, is_error=True)
        live = _LiveOutput(call)
        if self._described.invocation_parameter:
            arguments[self._described.invocation_parameter] = live.invocation(self._function)
        try:
            value = await _call_function(self._function, **arguments)
        finally:
            live.close()
        if live.fault is not None:
            raise live.fault
        return _as_outcome(value)

    # ── registered functions ─────────────────────────────────────────────────────────────────────

    def _registered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if self.replay != "receipt":
            hint = f'declare it with @tool(replay="receipt"), or remove @{self.name}.…'
            raise UsageError(
                f'the tool {self.name} has replay="{self.replay}": its receipt and prepare functions are never called',
                hint=hint,
            )
        return function

    async def _intent(self, call: ToolInvocation) -> Mapping[str, Any]:
        self.check()
        if self.replay != "receipt":
            return {}
        try:
            self._described.arguments(call.arguments)
        except UsageError as error:
            return {_REFUSED: error.message}
        if self._prepare is None:
            return {}
        intent = await _call_function(self._prepare, call)
        if isinstance(intent, _Raised):
            return {_REFUSED: intent.text}
        try:
            # Encoded and decoded, so that every attempt sees what the log will hold.
            return msgspec.json.decode(msgspec.json.encode(intent), type=dict[str, Any])
        except (TypeError, ValueError, RecursionError) as error:
            return {_REFUSED: f"the preparation of {self.name} gave no JSON object: {error}"}

    async def _answer(self, call: ToolInvocation) -> ReceiptAnswer:
        self.check()
        if self._receipt is None:
            return "cannot say"
        if _REFUSED in call.intent:
            return ToolOutcome(str(call.intent[_REFUSED]), is_error=True)
        answer = await _call_function(self._receipt, call)
        if isinstance(answer, ToolOutcome):
            return _as_outcome(answer)
        # A receipt function that fails or returns an unknown value has not stated that nothing happened.
        return "not begun" if isinstance(answer, str) and answer == "not begun" else "cannot say"


# ── making tools ─────────────────────────────────────────────────────────────────────────────────


def as_tool(value: object) -> Tool:
    """Return a tool as it is, a plain function as a tool with `replay="never"`. `UsageError` for anything else."""
    if isinstance(value, type):
        raise UsageError(f"{value.__name__} is a class, not a tool", hint=f"pass an instance: {value.__name__}(…)")
    if all(hasattr(value, part) for part in _TOOL_ATTRIBUTES):
        return cast("Tool", value)
    if inspect.isroutine(value):
        return FunctionTool(value)
    message = f"a tool must be a function, or an object with {', '.join(_TOOL_ATTRIBUTES)}, not {type(value).__name__}"
    raise UsageError(message, hint="pass a function with a docstring; @tool sets its replay mode")


def as_tools(values: object) -> tuple[Tool, ...]:
    """Apply `as_tool` to each value."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(f"tools must be a list, not {type(values).__name__}", hint="pass tools=[…], even for one tool")
    return tuple(map(as_tool, values))


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *, replay: ReplayMode = "never", name: str | None = None, accepts_marks: bool = False
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    replay: ReplayMode = "never",
    name: str | None = None,
    accepts_marks: bool = False,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a typed function a tool: `@tool`, or `@tool(replay="safe")`.

    `replay` decides what happens after a crash to a call that started and has no result: "safe" is run again, "receipt"
    asks the receipt function what happened, "never" is not run again, and its outcome is reported as unknown.

    A call whose input quotes a redaction mark runs only with `accepts_marks`: the function must find out what a mark
    stands for (`ToolInvocation.find_secrets`), and never use the mark as text.

    An `async` function is awaited, and cancelling the turn cancels it. Any other function runs in a thread. Such a
    thread cannot be stopped: if the turn is cancelled, it is no longer waited for, but runs to its end. Use `async`
    functions where that matters.
    """
    if function is not None:
        return FunctionTool(function, name=name, replay=replay)
    return functools.partial(FunctionTool, name=name, replay=replay, accepts_marks=accepts_marks)


def by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Return the tools by name; `UsageError` for a duplicate name, or if `check` fails."""
    named: dict[str, Tool] = {}
    for each in tools:
        if each.name in named:
            raise UsageError(f"two tools have the name {each.name}", hint="give one of them another name")
        if isinstance(each, FunctionTool):
            each.check()
        named[each.name] = each
    return named


# ── calling the author's functions ───────────────────────────────────────────────────────────────


class _Raised(msgspec.Struct, frozen=True):
    """An exception of a function, as text."""

    text: str


class _LiveOutput:
    """Live output of one call: accepted from any thread, shown in order, until the call ends."""

    def __init__(self, call: ToolInvocation) -> None:
        self._call = call
        self._open = True
        self.fault: Exception | None = None

    def invocation(self, function: Callable[..., Any]) -> ToolInvocation:
        """Return the invocation with a `show` that can be called from where the function runs."""
        if inspect.iscoroutinefunction(function):
            return msgspec.structs.replace(self._call, show=self._show)
        loop = asyncio.get_running_loop()

        def show(text: str) -> None:
            loop.call_soon_threadsafe(self._show_for_thread, text)

        return msgspec.structs.replace(self._call, show=show)

    def close(self) -> None:
        """Stop showing: a thread that is no longer waited for may still call `show`."""
        self._open = False

    def _show(self, text: str) -> None:
        """Show text. An exception is stored for `run` to raise, so that the function is not blamed for it."""
        try:
            if self._open and self.fault is None:
                self._call.show(text)
        except Exception as error:
            self.fault = error
            raise

    def _show_for_thread(self, text: str) -> None:
        with contextlib.suppress(Exception):  # stored in `fault`; the event loop is the caller here
            self._show(text)


async def _call_function(function: Callable[_P, Any], /, *args: _P.args, **kwargs: _P.kwargs) -> Any:
    """Return what a function returns, or `_Raised`. An awaitable result is awaited too."""
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*args, **kwargs)
        value = await asyncio.to_thread(_call_in_thread, function, *args, **kwargs)
        return await value if inspect.isawaitable(value) else value
    except (Exception, SystemExit) as error:  # noqa: BLE001 - what an author's code raises is an outcome
        return _exception_text(error)


def _call_in_thread(function: Callable[_P, Any], /, *args: _P.args, **kwargs: _P.kwargs) -> Any:
    """Return a function's result or `_Raised`, inside the thread: some exceptions (StopIteration) cannot leave it."""
    try:
        return function(*args, **kwargs)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - what an author's code raises is an outcome
        return _exception_text(error)


def _exception_text(error: BaseException) -> _Raised:
    """Return an exception as text: a `UsageError` as its message alone, any other with its type."""
    if isinstance(error, UsageError):
        return _Raised(error.message)
    return _Raised(f"{type(error).__name__}: {error}")


def _as_outcome(value: Any) -> ToolOutcome:
    """Return a function's result as an outcome: text as it is, anything else as JSON."""
    if isinstance(value, ToolOutcome):
        return msgspec.structs.replace(value, text=valid_utf8(value.text))
    if isinstance(value, _Raised):
        return ToolOutcome(valid_utf8(value.text), is_error=True)
    if isinstance(value, str):
        return ToolOutcome(valid_utf8(value))
    try:
        return ToolOutcome(msgspec.json.encode(value, order="deterministic").decode())
    except (TypeError, ValueError, RecursionError) as error:
        return ToolOutcome(f"the tool ran, but what it returned cannot be written as JSON: {error}", is_error=True)
