"""Filter for a model's reasoning by `Policy.reasoning`, and the check for providers that need it back (LOG-18).

Deltas are filtered before they are journaled: reasoning that is left out reaches no journal, no display and no entry.
Replay does not filter, because the log holds filtered content only.
"""

from collections.abc import Mapping
from typing import Any

from wakelog.decide.policy import Reasoning
from wakelog.errors import UsageError
from wakelog.log.deltas import Delta, ThinkingDelta


def check_reasoning(provider: str, *, needs_back: bool, reasoning: Reasoning, params: Mapping[str, Any]) -> None:
    """Raise `UsageError` if the policy leaves out reasoning that the provider must get back unchanged."""
    if reasoning == "keep" or not needs_back or params.get("thinking") == "drop":
        return
    raise UsageError(
        f"{provider} signs a model's reasoning and must get it back as it came, so reasoning = {reasoning!r} cannot be",
        hint='leave it at "keep"; or set thinking = "drop" as well, so that none is asked for and none goes back',
    )


class ReasoningFilter:
    """Filters the deltas of one reply."""

    def __init__(self, keeps: Reasoning) -> None:
        self._keeps = keeps
        self._begin()

    def _begin(self) -> None:
        self._has_text = self._lacks_text = False

    def take(self, delta: Delta) -> list[Delta]:
        """Return the deltas to store and display for the next delta; an empty list if it is left out."""
        if not isinstance(delta, ThinkingDelta):
            self._begin()
            return [delta]
        if self._keeps == "keep":
            return [delta]
        return self._summary(delta) if self._keeps == "summary" else []

    def _summary(self, delta: ThinkingDelta) -> list[Delta]:
        """Keep summary text, and signatures and provider data unless text that they cover is left out."""
        is_shown = delta.summary and (self._has_text or bool(delta.thinking.strip()))
        text = delta.thinking if is_shown else ""
        self._has_text |= bool(text)
        self._lacks_text |= bool(delta.thinking.strip()) and not delta.summary
        if delta.signature is None and delta.bound is None:
            return [delta] if text else []
        has_text, lacks_text = self._has_text, self._lacks_text
        self._begin()
        if not lacks_text:
            return [ThinkingDelta(text, delta.signature, delta.bound, summary=delta.summary)]
        # The signature covers text that is left out, so it is dropped; an empty `bound` still ends the thinking block.
        return [ThinkingDelta(text, bound={}, summary=delta.summary)] if has_text else []
