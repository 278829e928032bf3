"""Prompts from what people pass: text, parts, and files.

A file becomes an image, a recording or text, by the type that its name shows; text is preceded by the name of the file.
Other files are refused: no model API takes them in a message as they are.
"""

import base64
import mimetypes
import os
from collections.abc import Iterable
from typing import TypeAlias

from wakelog.arguments import checked_message
from wakelog.decide.wording import valid_utf8
from wakelog.errors import UsageError
from wakelog.large_content import decode_base64
from wakelog.log.content import AnyPart, Audio, Image, Prompt, Text

PromptPart: TypeAlias = str | Text | Image | Audio | os.PathLike[str]
PromptContent: TypeAlias = PromptPart | Iterable[PromptPart] | Prompt
_HINT = "pass text, Text(…), Image(…), Audio(…), the Path of a file, or a list of these"


def prompt_from(content: PromptContent, *, channel: str | None = None) -> Prompt:
    """Return a prompt with this content; `UsageError` if a part of it is of another type or a file cannot be read."""
    if isinstance(content, Prompt):
        checked_message(content)
        return content
    if isinstance(content, str | Text | Image | Audio | os.PathLike):
        content = (content,)
    if isinstance(content, bytes | dict) or not isinstance(content, Iterable):
        raise UsageError(f"not a prompt: {type(content).__name__}", hint=_HINT)
    parts = tuple(map(_part, content))
    if not parts:
        raise UsageError("the prompt is empty", hint=_HINT)
    return Prompt(content=parts, channel=channel)


def _part(given: object) -> AnyPart:
    if isinstance(given, str):
        return Text(text=valid_utf8(given))
    if isinstance(given, Image | Audio) and given.data is not None and not decode_base64(given.data):
        raise UsageError("the data of an image or recording is not base64", hint="use base64.b64encode(…).decode()")
    if isinstance(given, Text | Image | Audio):
        return given
    if isinstance(given, os.PathLike):
        return _part_from_file(os.fspath(given))
    raise UsageError(f"not a part of a prompt: {type(given).__name__}", hint=_HINT)


def _part_from_file(path: str) -> AnyPart:
    kind = mimetypes.guess_type(path)[0] or ""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="check the path") from None
    if kind.startswith("image/"):
        return Image(mime_type=kind, data=base64.b64encode(content).decode())
    if kind.startswith("audio/"):
        return Audio(mime_type=kind, data=base64.b64encode(content).decode())
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is neither text, an image nor audio", hint="convert it to text first") from None
    return Text(text=f"{os.path.basename(path)}:\n{text}")
