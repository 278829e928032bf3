"""The file-changing tools `write` and `edit`, with receipts.

Rule 1: a file is replaced as a whole: written to a new file beside it, synced, renamed, and the folder synced. No
reader sees a partial file, and its mode is kept.
Rule 2: the intent holds the digests before and after. Later the current digest decides: `after` means done,
`before` means not begun, anything else means "cannot say". A change that was undone counts as not begun.
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
from typing import Any, ParamSpec

import msgspec

from wakelog.decide.wording import valid_utf8
from wakelog.decoding import convert
from wakelog.errors import UsageError
from wakelog.log.ids import digest_of
from wakelog.ports.runtime import ReceiptAnswer, ToolInvocation, ToolOutcome
from wakelog.tools.files import WorkingDirectory, is_binary, open_regular_file, printable_name, reporting_os_errors
from wakelog.tools.function_tool import FunctionTool, tool
from wakelog.tools.marked_text import FindSecrets, replace_text

_CHANGE_LOCK = threading.Lock()
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


def write_tool(directory: WorkingDirectory) -> FunctionTool:
    """Create the `write` tool, which writes a whole file."""

    @tool(replay="receipt")
    async def write(path: str, content: str, call: ToolInvocation) -> ToolOutcome:
        """Writes a whole file, replacing what was there. Folders on the way are made.

        Args:
            path: The file, relative to the working directory.
            content: All of its text.
        """
        plan = functools.partial(_plan_write, directory, path, content)
        return await _run_to_completion(_apply, call, directory, plan)

    return _with_receipts(write, lambda call: _plan_write(directory, **call.arguments))


def edit_tool(directory: WorkingDirectory) -> FunctionTool:
    """Create the `edit` tool, which replaces a piece of a file. Redaction marks are explained in `marked_text.py`."""

    @tool(replay="receipt", accepts_marks=True)
    async def edit(path: str, old: str, new: str, call: ToolInvocation, *, all: bool = False) -> ToolOutcome:  # noqa: A002
        """Replaces a piece of text in a file. The old text must stand in it to the letter, and only once.
        A mark such as [redacted: assignment] in it stands for a value that is not shown; in the new text it keeps that
        value.

        Args:
            path: The file, relative to the working directory.
            old: The text to be replaced, with enough around it to be found once.
            new: The text to put in its place.
            all: Replace every occurrence instead of the only one.
        """
        plan = functools.partial(_plan_edit, directory, path, old, new, all=all, find_secrets=call.find_secrets)
        return await _run_to_completion(_apply, call, directory, plan)

    return _with_receipts(edit, lambda call: _plan_edit(directory, **call.arguments, find_secrets=call.find_secrets))


def _with_receipts(file_tool: FunctionTool, plan: Callable[[ToolInvocation], Change]) -> FunctionTool:
    """Add `prepare` (returns the plan as the intent) and `receipt` (inspects the file) to a tool."""

    @file_tool.prepare
    def prepare(call: ToolInvocation) -> Mapping[str, Any]:
        return msgspec.structs.asdict(plan(call).intent)

    file_tool.receipt(_receipt)
    return file_tool


async def _run_to_completion(function: Callable[_P, ToolOutcome], *args: _P.args, **kwargs: _P.kwargs) -> ToolOutcome:
    """Run a change in a thread. On cancellation, wait for the thread before raising: a change is short."""
    change = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(change)
    except asyncio.CancelledError:
        await asyncio.wait([change])
        raise


# ── planning a change ────────────────────────────────────────────────────────────────────────────


def _plan_write(place: WorkingDirectory, path: str, content: str) -> Change:
    real_path = place.resolve(path)
    before = _current_content(real_path, path)
    after = content.encode()
    summary = f"{'created' if before is None else 'replaced'} {place.display_path(real_path)} ({len(after):,} bytes)"
    return _make_change(real_path, before, after, summary)


def _plan_edit(
    place: WorkingDirectory,
    path: str,
    old: str,
    new: str,
    *,
    all: bool = False,  # noqa: A002
    find_secrets: FindSecrets | None = None,
) -> Change:
    real_path = place.resolve(path)
    before = _current_content(real_path, path)
    if before is None:
        raise UsageError(f"cannot edit {printable_name(path)}: there is no such file")
    edited = replace_text(
        _decode_text(before, path), old, new, name=printable_name(path), many=all, find_secrets=find_secrets
    )
    times = "one place" if edited.count == 1 else f"{edited.count:,} places"
    return _make_change(real_path, before, edited.text.encode(), f"changed {times} in {place.display_path(real_path)}")


def _make_change(path: str, before: bytes | None, after: bytes, summary: str) -> Change:
    if valid_utf8(path) != path:
        raise UsageError(f"cannot change {printable_name(path)}: its path is not UTF-8, and a log could not hold it")
    digest = None if before is None else digest_of(before)
    return Change(Intent(path=path, before=digest, after=digest_of(after), said=summary), after)


def _current_content(real_path: str, path: str) -> bytes | None:
    """Return the current bytes of the file, or None if there is no file; `UsageError` if it may not be written."""
    with reporting_os_errors(f"change {printable_name(path)}"):
        try:
            with open(open_regular_file(real_path), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return None
    if not os.access(real_path, os.W_OK):
        raise UsageError(f"cannot change {printable_name(path)}: it is read-only")
    return content


def _decode_text(content: bytes, path: str) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UsageError(f"cannot edit {printable_name(path)}: it is not UTF-8 text") from None
    if is_binary(content):
        raise UsageError(f"cannot edit {printable_name(path)}: it is a binary file")
    return text


# ── making a change ──────────────────────────────────────────────────────────────────────────────


def _apply(call: ToolInvocation, place: WorkingDirectory, plan: Callable[[], Change]) -> ToolOutcome:
    """Plan the change on the current file and make it: the file may have changed since `prepare`."""
    with _CHANGE_LOCK:
        change = plan()
        if change.intent.before != change.intent.after:
            with reporting_os_errors(f"change {place.display_path(change.intent.path)}"):
                _replace_file(change.intent.path, change.content, _temporary_path(call, change.intent.path))
    return ToolOutcome(change.intent.said)


def _temporary_path(call: ToolInvocation, path: str) -> str:
    """Return the path of the new file that becomes `path`.

    The name is derived from the call, so that a later attempt finds the file that a killed run left.
    """
    key = hashlib.sha256(f"{call.reply_id}\n{call.tool_call_id}".encode()).hexdigest()
    return os.path.join(os.path.dirname(path), f".wakelog-{key[:16]}.new")


def _replace_file(path: str, content: bytes, temporary: str) -> None:
    _make_folder(os.path.dirname(path))
    try:
        _write_temporary(path, content, temporary)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_path(os.path.dirname(path))


def _write_temporary(path: str, content: bytes, temporary: str) -> None:
    """Write a new file with the owner and mode of the one it will replace, and sync it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o666), "wb") as file:
        with contextlib.suppress(FileNotFoundError):
            _copy_owner_and_mode(os.stat(path), file.fileno())
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _copy_owner_and_mode(old: os.stat_result, descriptor: int) -> None:
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
    _sync_path(os.path.dirname(folder))


def _sync_path(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ── receipt ──────────────────────────────────────────────────────────────────────────────────────


def _receipt(call: ToolInvocation) -> ReceiptAnswer:
    """Return the outcome of a started change from the file's current digest; may be called repeatedly."""
    intent = convert(call.intent, Intent)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(_temporary_path(call, intent.path))
    now = _current_digest(intent.path)
    if now == intent.after:
        # The rename may not be durable yet, and the result is about to be.
        _sync_path(intent.path)
        _sync_path(os.path.dirname(intent.path))
        return ToolOutcome(intent.said)
    return "not begun" if now == intent.before else "cannot say"


def _current_digest(path: str) -> str | None:
    try:
        with open(open_regular_file(path), "rb") as file:
            return digest_of(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
