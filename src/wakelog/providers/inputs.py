"""The input of a tool call, out of the text that a model wrote."""

from typing import Any

import msgspec

# A log keeps no deeper lines than a few hundred levels, and an input is only a part of one.
_LEVELS_MAX = 100


def input_of(text: str) -> Any:
    """The input that a text spells, or `ValueError`. No text at all is a call that needs no input."""
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
