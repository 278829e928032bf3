"""The input of a tool call as the text that the wire carries, spelled as the model had spelled it.

Models write JSON either without blanks or with one behind each comma and colon. Which of the two is kept beside the
call, so that it goes back as it came; anything else goes back without blanks, and always in the same bytes.
"""

import json
from typing import Any

_COMPACT = (",", ":")


def is_spaced(text: str, value: Any) -> bool:
    """Whether a text spells a value with blanks."""
    return text not in ("{}", "[]") and text == json.dumps(value, ensure_ascii=False)


def spelled(value: Any, *, spaced: bool) -> str:
    """An input as text. Servers take an object and nothing else."""
    given = value if isinstance(value, dict) else {} if value is None else {"input": value}
    return json.dumps(given, ensure_ascii=False, separators=None if spaced else _COMPACT)
