"""The input of a tool call as JSON text, formatted as the model had formatted it.

Models write JSON either without spaces or with one after each comma and colon. Which of the two is kept with the call,
so that it is sent back unchanged; anything else is sent without spaces, and always as the same bytes.
"""

import json
from typing import Any

_COMPACT = (",", ":")


def is_spaced(text: str, value: Any) -> bool:
    """Return whether a text is the JSON of a value with spaces."""
    return text not in ("{}", "[]") and text == json.dumps(value, ensure_ascii=False)


def spelled(value: Any, *, spaced: bool) -> str:
    """Return an input as JSON text. Servers accept only an object, so any other value is wrapped in one."""
    given = value if isinstance(value, dict) else {} if value is None else {"input": value}
    return json.dumps(given, ensure_ascii=False, separators=None if spaced else _COMPACT)
