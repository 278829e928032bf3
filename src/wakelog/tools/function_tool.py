"""A function as a tool: the decorator, and what stands between a model's call and the function.

Rule 1: whatever the function raises is the model's to read, as an outcome in one line. Only cancelling
passes through, and the author's own mistakes, which are told before anything has begun.
Rule 2: what was refused in `prepare` stays refused. The refusal is part of the intent in the log, so `run`
and `receipt` give the same answer at every attempt, and nothing has begun.
Rule 3: `show` is called in the thread of the event loop, and never after `run` has ended. What it raises is
the watcher's own affair, not the tool's: `run` raises it.
"""

import asyncio
import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar, cast, overload

import msgspec

from wakelog.decide.clip import storable
from wakelog.errors import UsageError
from wakelog.log.entry import Replay
from wakelog.ports import Answer, Invocation, Outcome, Tool
from wakelog.tools.schema import describe

# What every tool has, see `ports.Tool`.
_PARTS = ("name", "description", "schema", "replay", "prepare", "run", "receipt")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Where an intent says that the call was turned down before it began.
_REFUSED = "refused"
_P = ParamSpec("_P")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class FunctionTool:
    """A tool made of a function. Calling it calls the function, as if nothing had happened to it."""

    def __init__(self, function: Callable[..., Any], *, name: str | None = None, replay: Replay = "never") -> None:
        self.name = name or function.__name__
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"not a tool's name: {self.name!r}", hint="use up to 64 letters, digits, - and _")
        if replay not in ("safe", "receipt", "never"):
            raise UsageError(f"no replay word: {replay!r}", hint='use "safe", "receipt" or "never"')
        self.replay: Replay = replay
        self._described = describe(function)
        self.description = self._described.description
        self.schema = self._described.schema
        self._function = function
        self._prepare: Callable[..., Any] | None = None
        self._receipt: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself."""
        return self._function(*args, **kwargs)

    def check(self) -> None:
        """`UsageError` if the tool promises receipts and has none to give."""
        if self.replay == "receipt" and self._receipt is None:
            hint = f"write a function that takes an Invocation, under @{self.name}.receipt"
            raise UsageError(f"the tool {self.name} promises receipts but has no receipt function", hint=hint)

    # Each of the next two is one word with two uses: as a decorator it takes the author's function, and
    # with an invocation it is the port's method that asks this function.

    @overload
    def prepare(self, call: Invocation) -> Coroutine[Any, Any, Mapping[str, Any]]: ...
    @overload
    def prepare(self, call: _Function) -> _Function: ...
    def prepare(self, call: Any) -> Any:
        """As a decorator: registers what gives the intent. With an invocation: the intent, kept in the log."""
        if isinstance(call, Invocation):
            return self._intent(call)
        self._prepare = self._registered(call)
        return call

    @overload
    def receipt(self, call: Invocation) -> Coroutine[Any, Any, Answer]: ...
    @overload
    def receipt(self, call: _Function) -> _Function: ...
    def receipt(self, call: Any) -> Any:
        """As a decorator: registers what answers for a begun call. With an invocation: that answer."""
        if isinstance(call, Invocation):
            return self._answer(call)
        self._receipt = self._registered(call)
        return call

    async def run(self, call: Invocation) -> Outcome:
        """Calls the function; what it returns or raises is the outcome."""
        self.check()
        if _REFUSED in call.intent:
            return Outcome(str(call.intent[_REFUSED]), is_error=True)
        try:
            arguments = self._described.arguments(call.arguments)
        except UsageError as error:
            return Outcome(error.message, is_error=True)
        live = _Live(call)
        if self._described.call_parameter:
            arguments[self._described.call_parameter] = live.invocation(self._function)
        try:
            value = await _attempt(self._function, **arguments)
        finally:
            live.close()
        if live.fault is not None:
            raise live.fault
        return _outcome(value)

    # ── what the author registered ───────────────────────────────────────────────────────────────

    def _registered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if self.replay != "receipt":
            hint = f'declare it with @tool(replay="receipt"), or leave @{self.name}.… out'
            raise UsageError(f"the tool {self.name} is {self.replay}: it is never asked for a receipt", hint=hint)
        return function

    async def _intent(self, call: Invocation) -> Mapping[str, Any]:
        self.check()
        if self.replay != "receipt":
            return {}
        try:
            self._described.arguments(call.arguments)
        except UsageError as error:
            return {_REFUSED: error.message}
        if self._prepare is None:
            return {}
        found = await _attempt(self._prepare, call)
        if isinstance(found, _Raised):
            return {_REFUSED: found.text}
        try:
            # There and back, so that every attempt sees what the log will hold.
            return msgspec.json.decode(msgspec.json.encode(found), type=dict[str, Any])
        except (TypeError, ValueError, RecursionError) as error:
            return {_REFUSED: f"the preparation of {self.name} gave no JSON object: {error}"}

    async def _answer(self, call: Invocation) -> Answer:
        self.check()
        if self._receipt is None:
            return "cannot say"
        if _REFUSED in call.intent:
            return Outcome(str(call.intent[_REFUSED]), is_error=True)
        answer = await _attempt(self._receipt, call)
        if isinstance(answer, Outcome):
            return _outcome(answer)
        # A receipt function that fails, or says what nobody understands, has not said that nothing happened.
        return "not begun" if isinstance(answer, str) and answer == "not begun" else "cannot say"


# ── the decorator ────────────────────────────────────────────────────────────────────────────────


def as_tool(value: object) -> Tool:
    """A tool as it is; a plain function as a tool that is never run twice. `UsageError` for anything else."""
    if isinstance(value, type):
        raise UsageError(f"{value.__name__} is a class, not a tool", hint=f"pass an instance: {value.__name__}(…)")
    if all(hasattr(value, part) for part in _PARTS):
        return cast("Tool", value)
    if inspect.isroutine(value):
        return FunctionTool(value)
    what = f"a tool is a function, or an object with {', '.join(_PARTS)}, not {type(value).__name__}"
    raise UsageError(what, hint="write a function with a docstring, under @tool to say how it may be replayed")


def as_tools(values: object) -> tuple[Tool, ...]:
    """Each of several tools, as `as_tool` takes it."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(f"tools are a list, not {type(values).__name__}", hint="pass tools=[…], even for one tool")
    return tuple(map(as_tool, values))


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(*, replay: Replay = "never", name: str | None = None) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, *, replay: Replay = "never", name: str | None = None
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Makes a typed function a tool: `@tool`, or `@tool(replay="safe")`.

    `replay` is what may happen to a call that was begun and has no result, after a crash: "safe" is run
    again, "receipt" is asked what it did, "never" is not run again, and its outcome is said to be unknown.

    An `async` function is awaited, and cancelling the turn cancels it. Any other runs in a thread of its
    own. Such a thread cannot be stopped: if the turn is cancelled, nobody waits for it any more, but it
    goes on to its end. Write `async` functions where that matters.
    """
    if function is not None:
        return FunctionTool(function, name=name, replay=replay)
    return functools.partial(FunctionTool, name=name, replay=replay)


def by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The tools of one agent, checked: no name twice, and no promise of receipts without any."""
    found: dict[str, Tool] = {}
    for each in tools:
        if each.name in found:
            raise UsageError(f"two tools are called {each.name}", hint="give one of them another name")
        if isinstance(each, FunctionTool):
            each.check()
        found[each.name] = each
    return found


# ── calling what somebody else wrote ─────────────────────────────────────────────────────────────


class _Raised(msgspec.Struct, frozen=True):
    """That a function raised, in one line."""

    text: str


class _Live:
    """The live output of one call: from any thread, in order, until the call ends."""

    def __init__(self, call: Invocation) -> None:
        self._call = call
        self._open = True
        self.fault: Exception | None = None

    def invocation(self, function: Callable[..., Any]) -> Invocation:
        """The invocation with a `show` that the function can call from where it runs."""
        if inspect.iscoroutinefunction(function):
            return msgspec.structs.replace(self._call, show=self._show)
        loop = asyncio.get_running_loop()

        def show(text: str) -> None:
            loop.call_soon_threadsafe(self._show_for_thread, text)

        return msgspec.structs.replace(self._call, show=show)

    def close(self) -> None:
        """Nothing is shown from here on: a thread that nobody waits for may still try."""
        self._open = False

    def _show(self, text: str) -> None:
        """A fault ends the function if it can, and is kept, since the function would be taken for its cause."""
        try:
            if self._open and self.fault is None:
                self._call.show(text)
        except Exception as error:
            self.fault = error
            raise

    def _show_for_thread(self, text: str) -> None:
        with contextlib.suppress(Exception):  # it is kept, and there is nobody here to raise it to
            self._show(text)


async def _attempt(function: Callable[_P, Any], /, *args: _P.args, **kwargs: _P.kwargs) -> Any:
    """What a function returns, or `_Raised`. What a wrapped function gives to await is awaited too."""
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*args, **kwargs)
        value = await asyncio.to_thread(_caught, function, *args, **kwargs)
        return await value if inspect.isawaitable(value) else value
    except (Exception, SystemExit) as error:  # noqa: BLE001 - what an author's code raises is an outcome
        return _raised(error)


def _caught(function: Callable[_P, Any], /, *args: _P.args, **kwargs: _P.kwargs) -> Any:
    """The same inside the thread: some exceptions (StopIteration) would never find their way out of it."""
    try:
        return function(*args, **kwargs)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - what an author's code raises is an outcome
        return _raised(error)


def _raised(error: BaseException) -> _Raised:
    """A `UsageError` is a refusal in the author's own words; anything else says what it is."""
    if isinstance(error, UsageError):
        return _Raised(error.message)
    return _Raised(f"{type(error).__name__}: {error}")


def _outcome(value: Any) -> Outcome:
    """What a function gave, as an outcome: text as it is, anything else as JSON."""
    if isinstance(value, Outcome):
        return msgspec.structs.replace(value, text=storable(value.text))
    if isinstance(value, _Raised):
        return Outcome(storable(value.text), is_error=True)
    if isinstance(value, str):
        return Outcome(storable(value))
    try:
        return Outcome(msgspec.json.encode(value, order="deterministic").decode())
    except (TypeError, ValueError, RecursionError) as error:
        return Outcome(f"the tool ran, but what it returned cannot be written as JSON: {error}", is_error=True)
