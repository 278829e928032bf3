"""Detect secrets in configuration files: keys with the name of a secret, values with the shape of one.

Pure. `KEPT_ELSEWHERE` says where a secret belongs. The detected value is never part of a message.
"""

import difflib
import re
from collections.abc import Iterator
from typing import Any

from wakelog.redaction.redactor import redact_value

KEPT_ELSEWHERE = "name the variable that holds it (key_env, bearer_env, env), or a program that prints it (key_command)"
_NAMES = re.compile(
    r"(?:\w+_)?(?:api_?key|key|secret|password|passwd|token|bearer|authorization|auth|credentials?)", re.IGNORECASE
)
# Wider than the redaction of logs: ordinary configuration has nothing like these, and a miss costs more here.
_LOOKS = re.compile(
    r"\b(?:sk|pk|rk|gsk|hf|npm|glpat|gh[pousr]|xox[abpors]|github_pat)[-_][A-Za-z0-9_-]{16,}"
    r"|\bBearer\s+[A-Za-z0-9._~+/-]{16,}"
    r"|://[^/\s:@]*:[^/\s@]+@"
    r"|[?&](?:password|api_?key|token|access_token|secret)=[^&\s]"
)
# Similarity to a known key from which an unknown key is a typo and not a secret: `max_token`.
_SLIP = 0.85


def is_secret_name(key: str, near: str) -> bool:
    """Whether an unknown key is named like a secret and is not a typo of `near`, the nearest known key."""
    if not _NAMES.fullmatch(key):
        return False
    return not near or difflib.SequenceMatcher(None, key, near).ratio() < _SLIP


def holds_secret(value: Any) -> bool:
    """Whether a value, or anything in it, has the shape of a secret."""
    return any(_LOOKS.search(text) for text in _texts(value)) or bool(redact_value(value, "keys")[1])


def _texts(value: Any) -> Iterator[str]:
    """Yield every string in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in (*value, *(value.values() if isinstance(value, dict) else ())):
            yield from _texts(inner)
