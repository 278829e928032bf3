"""Token counts of OpenCode, whose meaning has changed with its versions.

- `output` contains the reasoning up to version 1.3.15; later `reasoning` stands beside it.
- `input` contains what was read from a cache up to version 1.0.61, unless the model was reached through an API of
  Anthropic or Bedrock. Versions 1.3.4 and 1.3.5 did the same for just these APIs, with what was written to the cache.
- `total` is there since version 1.1.57, and says where the reasoning is.
The version is that which created the session: a session that was continued with a later version may have counts of
both kinds, and those without a total are taken for the older ones. Events may lack the version; their time tells then.
"""

import re

import msgspec

from wakelog.exchange.opencode.records import number_of, object_of, text_of
from wakelog.log.content import JsonObject, Usage

_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
_LAST_WITH_REASONING = (1, 3, 15), 1_775_347_200_000
_LAST_WITH_CACHED = (1, 0, 61), 1_762_992_000_000
"""The last version that counted so, and the day after it in milliseconds since 1970."""
_DOUBLE_COUNTED = ((1, 3, 4), (1, 3, 5))
_APART = ("anthropic", "bedrock")


class TokenRules(msgspec.Struct, frozen=True):
    """What the counts of a message contain."""

    output_has_reasoning: bool = False
    input_has_read: bool = False
    input_has_cached: bool = False
    """Whether the input contains what was read from a cache, and what was written to it."""


def rules_of(version: str, info: JsonObject) -> TokenRules:
    """Return how the tokens of a message are counted, by the version of its session or by its own time."""
    found = _VERSION.match(version)
    number = (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)
    created = number_of(object_of(info.get("time")).get("created"))
    is_apart = _is_apart(info)

    def is_old(last: tuple[tuple[int, int, int], int]) -> bool:
        # Versions that people build themselves are 0.0.0.
        return number <= last[0] if number > (0, 0, 0) else 0 < created < last[1]

    return TokenRules(
        output_has_reasoning=is_old(_LAST_WITH_REASONING),
        input_has_read=is_old(_LAST_WITH_CACHED) and not is_apart,
        input_has_cached=_DOUBLE_COUNTED[0] <= number <= _DOUBLE_COUNTED[1] and is_apart,
    )


def _is_apart(info: JsonObject) -> bool:
    """Return whether a model was reached through an API that counts cached tokens apart: that of its maker."""
    model = object_of(info.get("model"))
    provider = text_of(info.get("providerID")) or text_of(model.get("providerID"))
    name = text_of(info.get("modelID")) or text_of(model.get("modelID"))
    # OpenCode's own provider passes requests on to the API of the maker.
    return any(api in provider for api in _APART) or (provider == "opencode" and name.startswith("claude"))


def usage_of(value: JsonObject, rules: TokenRules) -> Usage | None:
    """Return the usage that a message or a `step-finish` part states; None if it counts no tokens.

    The output has the reasoning in it, and the input is without cached tokens.
    """
    tokens = object_of(value.get("tokens"))
    cache = object_of(tokens.get("cache"))
    read, written = int(number_of(cache.get("read"))), int(number_of(cache.get("write")))
    given, output = int(number_of(tokens.get("input"))), int(number_of(tokens.get("output")))
    reasoning, total = int(number_of(tokens.get("reasoning"))), int(number_of(tokens.get("total")))
    if not any((given, output, reasoning, read, written)):
        return None
    if total not in (whole := given + read + written + output, whole + reasoning):
        total = whole if rules.output_has_reasoning else whole + reasoning
    has_total = number_of(tokens.get("total")) > 0
    cached = read + written if rules.input_has_cached else read if rules.input_has_read and not has_total else 0
    cost = value.get("cost")
    return Usage(
        input_tokens=given - cached if given >= cached else given,
        output_tokens=total - given - read - written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cost_micros=round(number_of(cost) * 1_000_000) if isinstance(cost, int | float) else None,
    )
