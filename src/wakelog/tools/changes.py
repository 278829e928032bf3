"""The file-changing tools `write` and `edit`, with receipts.

Rule 1: a file is replaced as a whole: written to a new file beside it, synced, renamed, and the folder synced. No
reader sees a partial file, and its mode is kept.
Rule 2: the intent holds the digests before and after. Later the current digest decides: `after` means done, `before`
means not begun, anything else means "cannot say". A change that was undone counts as not begun.
Rule 3: changes in one process run one at a time, so that two edits of one file in one reply both take effect.
"""

import asyncio
import contextlib
import functools
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec

import msgspec

from wakelog.decide.clip import storable
from wakelog.errors import UsageError
from wakelog.log.digest import digest_of
from wakelog.ports import Answer, Invocation, Outcome
from wakelog.tools.function_tool import FunctionTool, tool
from wakelog.tools.places import WorkingDirectory, is_binary, open_file, reaching, shown

_ONE_AT_A_TIME = threading.Lock()
_P = ParamSpec("_P")


class Intent(msgspec.Struct, frozen=True):
    """A planned change: stored in the log before it starts, and compared with the file afterwards."""

    path: str
    before: str | None
    after: str
    said: str


class Change(msgspec.Struct, frozen=True):
    """An intent with the new content of the file."""

    intent: Intent
    content: bytes


def write_tool(place: WorkingDirectory) -> FunctionTool:
    """Create the `write` tool, which writes a whole file."""

    @tool(replay="receipt")
    async def write(path: str, content: str, call: Invocation) -> Outcome:
        """Writes a whole file, replacing what was there. Folders on the way are made.

        Args:
            path: The file, relative to the working directory.
            content: All of its text.
        """
        return await _to_the_end(_apply, call, _planned_write, place, path, content)

    return _with_receipts(write, functools.partial(_planned_write, place))


def edit_tool(place: WorkingDirectory) -> FunctionTool:
    """Create the `edit` tool, which replaces a piece of a file."""

    @tool(replay="receipt")
    async def edit(path: str, old: str, new: str, call: Invocation, *, all: bool = False) -> Outcome:  # noqa: A002
        """Replaces a piece of text in a file. The old text must stand in it to the letter, and only once.

        Args:
            path: The file, relative to the working directory.
            old: The text to be replaced, with enough around it to be found once.
            new: The text to put in its place.
            all: Replace every occurrence instead of the only one.
        """
        return await _to_the_end(_apply, call, _planned_edit, place, path, old, new, all=all)

    return _with_receipts(edit, functools.partial(_planned_edit, place))


def _with_receipts(made: FunctionTool, planned: Callable[..., Change]) -> FunctionTool:
    """Add `prepare` (returns the plan as the intent) and `receipt` (inspects the file) to a tool."""

    @made.prepare
    def prepare(call: Invocation) -> Mapping[str, Any]:
        return msgspec.structs.asdict(planned(**call.arguments).intent)

    made.receipt(_receipt)
    return made


async def _to_the_end(function: Callable[_P, Outcome], *args: _P.args, **kwargs: _P.kwargs) -> Outcome:
    """Run a change in a thread. On cancellation, wait for the thread before raising: a change is short."""
    change = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(change)
    except asyncio.CancelledError:
        await asyncio.wait([change])
        raise


# ── planning a change ────────────────────────────────────────────────────────────────────────────


def _planned_write(place: WorkingDirectory, path: str, content: str) -> Change:
    found = place.find(path)
    before = _content(found, path)
    after = content.encode()
    said = f"{'created' if before is None else 'replaced'} {place.show(found)} ({len(after):,} bytes)"
    return _change(found, before, after, said)


def _planned_edit(place: WorkingDirectory, path: str, old: str, new: str, *, all: bool = False) -> Change:  # noqa: A002
    found = place.find(path)
    before = _content(found, path)
    if before is None:
        raise UsageError(f"cannot edit {shown(path)}: there is no such file")
    text = _text(before, path)
    count = _counted(text, old, path, many=all)
    times = "one place" if count == 1 else f"{count:,} places"
    return _change(found, before, text.replace(old, new).encode(), f"changed {times} in {place.show(found)}")


def _counted(text: str, old: str, path: str, *, many: bool) -> int:
    """Return how often the old text occurs in the file; `UsageError` if never, or more than once without `many`."""
    if not old:
        raise UsageError("the old text is empty: use write to make a file")
    count = text.count(old)
    if count == 0:
        crlf = "; the file's lines end in CRLF" if old.replace("\n", "\r\n") in text else ""
        raise UsageError(f"the old text does not stand in {shown(path)}{crlf}")
    if count > 1 and not many:
        raise UsageError(f"the old text stands {count:,} times in {shown(path)}: give more of it, or set all")
    return count


def _change(found: str, before: bytes | None, after: bytes, said: str) -> Change:
    if storable(found) != found:
        raise UsageError(f"cannot change {shown(found)}: its path is not UTF-8, and a log could not hold it")
    digest = None if before is None else digest_of(before)
    return Change(Intent(path=found, before=digest, after=digest_of(after), said=said), after)


def _content(found: str, path: str) -> bytes | None:
    """Return the current bytes of the file, or None if there is no file; `UsageError` if it may not be written."""
    with reaching(f"change {shown(path)}"):
        try:
            with open(open_file(found), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return None
    if not os.access(found, os.W_OK):
        raise UsageError(f"cannot change {shown(path)}: it is read-only")
    return content


def _text(content: bytes, path: str) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UsageError(f"cannot edit {shown(path)}: it is not UTF-8 text") from None
    if is_binary(content):
        raise UsageError(f"cannot edit {shown(path)}: it is a binary file")
    return text


# ── making a change ──────────────────────────────────────────────────────────────────────────────


def _apply(
    call: Invocation,
    planned: Callable[Concatenate[WorkingDirectory, _P], Change],
    place: WorkingDirectory,
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> Outcome:
    """Plan the change on the current file and make it: the file may have changed since `prepare`."""
    with _ONE_AT_A_TIME:
        change = planned(place, *args, **kwargs)
        if change.intent.before != change.intent.after:
            with reaching(f"change {place.show(change.intent.path)}"):
                _replace(change.intent.path, change.content, _beside(call, change.intent.path))
    return Outcome(change.intent.said)


def _beside(call: Invocation, path: str) -> str:
    """Return the path of the new file that becomes `path`.

    The name is derived from the call, so that a later attempt finds the file that a killed run left.
    """
    key = hashlib.sha256(f"{call.reply_id}\n{call.tool_call_id}".encode()).hexdigest()
    return os.path.join(os.path.dirname(path), f".wakelog-{key[:16]}.new")


def _replace(path: str, content: bytes, fresh: str) -> None:
    _make_folder(os.path.dirname(path))
    try:
        _write_fresh(path, content, fresh)
        os.replace(fresh, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        raise
    _sync(os.path.dirname(path))


def _write_fresh(path: str, content: bytes, fresh: str) -> None:
    """Write a new file with the owner and mode of the one it will replace, and sync it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(fresh, flags, 0o666), "wb") as file:
        with contextlib.suppress(FileNotFoundError):
            _look_like(os.stat(path), file.fileno())
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _look_like(old: os.stat_result, descriptor: int) -> None:
    """Copy owner and mode. Owner first, because changing it clears mode bits; it stays if changing is not permitted."""
    new = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _make_folder(folder: str) -> None:
    """Create a folder and its missing parents, syncing the parent of each."""
    if os.path.isdir(folder):
        return
    _make_folder(os.path.dirname(folder))
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    _sync(os.path.dirname(folder))


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ── receipt ──────────────────────────────────────────────────────────────────────────────────────


def _receipt(call: Invocation) -> Answer:
    """Return the outcome of a started change from the file's current digest; may be called repeatedly."""
    intent = msgspec.convert(call.intent, Intent)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(_beside(call, intent.path))
    now = _digest_now(intent.path)
    if now == intent.after:
        # The rename may not be durable yet, and the result is about to be.
        _sync(intent.path)
        _sync(os.path.dirname(intent.path))
        return Outcome(intent.said)
    return "not begun" if now == intent.before else "cannot say"


def _digest_now(path: str) -> str | None:
    try:
        with open(open_file(path), "rb") as file:
            return digest_of(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
