"""Differences between generations of models: how long a reply may be, and how reasoning is requested.

Pure. Decided by the name alone. An unknown name counts as the newest generation, so that a new model needs no new
release; `extra` overrides all of it.
"""

import re

from wakelog.log.content import JsonObject
from wakelog.providers.params import Params

_NAMES = (re.compile(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?!\d)"), re.compile(r"claude-(\d{1,2})(?:-(\d{1,2}))?-"))
# From this version on a model decides how much to reason, and is given an effort.
_ADAPTIVE = (4, 6)
# From this version on models reason unless told not to; the models named below always do.
_THINKS_UNASKED = (5, 0)
_ALWAYS_THINKS = ("fable", "mythos")
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384}
_BUDGET_MIN = 1_024


def reply_tokens(model: str) -> int:
    """Return the default length of a reply: the API requires a number."""
    version = _version(model)
    if version is None:
        return 32_000 if "claude" in model else 8_192
    if version < (3, 5):
        return 4_096
    return 8_192 if version < (3, 7) else 32_000


def thinking_asked(model: str, params: Params, max_tokens: int) -> JsonObject:
    """Return the keys of a body that control reasoning; none for the model's default."""
    if params.thinking == "drop":
        effort = {"output_config": {"effort": params.effort}} if params.effort and not has_budget(model) else {}
        return {**effort, **({"thinking": {"type": "disabled"}} if _must_be_told_not_to(model) else {})}
    if params.effort is None:
        return {}
    if has_budget(model):
        return _budget(_BUDGETS[params.effort], max_tokens)
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": params.effort}}


def has_budget(model: str) -> bool:
    """Return whether a model is of the older kind, which takes a number of tokens for reasoning."""
    version = _version(model)
    return version is not None and version < _ADAPTIVE


def _budget(wanted: int, max_tokens: int) -> JsonObject:
    """Return the key for a budget. Reasoning counts as part of the reply, and leaves half of it for the answer."""
    budget = min(wanted, max_tokens // 2)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _BUDGET_MIN else {}


def _must_be_told_not_to(model: str) -> bool:
    version = _version(model)
    return version is not None and version >= _THINKS_UNASKED and not any(name in model for name in _ALWAYS_THINKS)


def _version(model: str) -> tuple[int, int] | None:
    """Return 4.5 for `claude-opus-4-5-20251101`, 3.5 for `claude-3-5-sonnet-latest`, as a pair; None if unknown."""
    for pattern in _NAMES:
        found = pattern.search(model)
        if found:
            return int(found[1]), int(found[2] or 0)
    return None
