"""Checks of what programs pass to the public functions: a mistake is a `UsageError` with a hint, before any effect.

A mistake that has one meaning is no mistake: a `Session` stands for its name.
"""

import os
from collections.abc import Iterable, Mapping

import msgspec

from wakelog.decoding import decoder_of
from wakelog.errors import UsageError
from wakelog.log.content import AnyMessage, BaseMessage, Note, Part, Prompt, Reply, ToolResult
from wakelog.log.entry import Entry

_MESSAGES = (Prompt, Reply, ToolResult, Note)


def check_store(store: object) -> None:
    """Raise `UsageError` for anything but an open store, such as its URL."""
    if isinstance(store, str | os.PathLike):
        raise UsageError("this takes an open store, not its name", hint=f"pass open_store({os.fspath(store)!r})")
    if not hasattr(store, "first_lines"):
        raise UsageError(f"this takes an open store, not {type(store).__name__}", hint="pass open_store(URL)")


def session_ref(session: object) -> str:
    """Return the name of a `Session`, or an id or name as it is; `UsageError` for anything else."""
    name = session if isinstance(session, str) else getattr(session, "name", None)
    if isinstance(name, str) and (name is session or hasattr(session, "store")):
        return name
    what = f"this takes a Session, a session id or a name, not {type(session).__name__}"
    raise UsageError(what, hint='pass the session itself, or its name, such as "agent_user_1"')


def entry_ref(entry: object) -> str:
    """Return the id of an entry, or an id as it is; `UsageError` for anything else."""
    return entry.id if isinstance(entry, Entry) else checked_text("an entry id", entry)


def checked_text(what: str, given: object) -> str:
    """Return a text; `UsageError` for a value of another type."""
    if not isinstance(given, str):
        raise UsageError(f"{what} must be a string, not {type(given).__name__}", hint=f"pass {what} as text")
    return given


def check_mapping(what: str, given: object) -> None:
    """Raise `UsageError` for anything but a mapping whose keys are strings."""
    if not isinstance(given, Mapping):
        found = f"not {type(given).__name__}"
    elif wrong := [key for key in given if not isinstance(key, str)]:
        found = f"not with a key of type {type(wrong[0]).__name__}"
    else:
        return
    raise UsageError(f"{what} must be a dict with strings as keys, {found}", hint=f'pass {what}={{"name": value}}')


def check_objects(what: str, given: object, members: tuple[str, ...]) -> None:
    """Raise `UsageError` for anything but a list or tuple of objects with these members."""
    if not isinstance(given, tuple | list):
        hint = f"pass {what}=(…,), even for one"
        raise UsageError(f"{what} must be a tuple or list, not {type(given).__name__}", hint=hint)
    for each in given:
        missing = [name for name in members if not hasattr(each, name)]
        if missing or isinstance(each, type):
            described = f"the class {each.__name__}" if isinstance(each, type) else type(each).__name__
            hint = f"pass objects with {', '.join(members)}"
            raise UsageError(f"{what} has an element of a wrong type: {described}", hint=hint)


def checked_message(given: object) -> AnyMessage:
    """Return a message; `UsageError` for another value, or for content that is neither text nor parts."""
    if not isinstance(given, _MESSAGES):
        hint = "pass Prompt(…), Reply(…), ToolResult(…) or Note(…)"
        raise UsageError(f"not a message: {_described(given)}", hint=hint)
    content = given.content
    if not isinstance(content, str) and not (isinstance(content, Iterable) and _are_parts(content)):
        hint = "pass text, or a tuple of parts such as Text(…) and Image(…)"
        raise UsageError(f"not the content of a message: {type(content).__name__}", hint=hint)
    return given


def checked_reply(reply: Reply) -> Reply:
    """Return the reply as it is read back from the log; `UsageError` if it cannot be read back."""
    try:
        return decoder_of(Reply).decode(msgspec.json.encode(reply))
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise UsageError(f"not a valid reply: {error}", hint="see wakelog.Reply for the type of each field") from None


def check_spoken(given: object) -> None:
    """Raise `UsageError` for anything but a message that `say` accepts."""
    if not isinstance(given, BaseMessage):
        what = f"say takes a text or a message such as Prompt(…), not {type(given).__name__}"
        raise UsageError(what, hint="`append` takes the bodies of entries")
    checked_message(given)


def _are_parts(content: Iterable[object]) -> bool:
    return isinstance(content, tuple | list) and all(isinstance(part, Part) for part in content)


def _described(given: object) -> str:
    """Return the type of a value, and the role of a mapping that looks like a message."""
    role = given.get("role") if isinstance(given, dict) else None
    kind = type(given).__name__
    if isinstance(given, BaseMessage):
        return f"{kind}, which has no role"
    return f"{kind} with the role {role!r}" if role is not None else kind


def append_hint(given: object) -> str:
    """Return a hint on what to call for a value that `append` does not accept."""
    if isinstance(given, BaseMessage):
        return f"use session.append(Message(message={type(given).__name__}(…))), or session.say(…)"
    return "use session.say(…) for a message of a person" if isinstance(given, str) else "see wakelog.log.entry"
