"""Values from which redaction has removed a secret: a tool call with such an input is not run."""

import re
from typing import Any

_MARK = re.compile(r"\[redacted: [a-z0-9-]+\]")


def holds_mark(value: Any) -> bool:
    """Whether a tool input contains a redaction mark: running the tool with it would not do what was requested."""
    match value:
        case str():
            return _MARK.search(value) is not None
        case dict():
            return any(holds_mark(key) or holds_mark(each) for key, each in value.items())
        case list() | tuple():
            return any(map(holds_mark, value))
    return False
