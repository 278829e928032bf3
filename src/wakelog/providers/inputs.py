"""Parser for the input of a tool call, from the text that a model wrote."""

from typing import Any

import msgspec

# A log accepts lines of a few hundred levels, and an input is only a part of one.
_LEVELS_MAX = 100


def input_of(text: str) -> Any:
    """Return the input that a JSON text holds, or raise `ValueError`. Empty text is a call without input: `{}`."""
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not _is_within(value, _LEVELS_MAX):
        raise ValueError("nested too deep")
    return value


def _is_within(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_within(each, levels - 1) for each in inner)
