"""What of a model's reasoning is written and shown (`Policy.reasoning`), and which providers need it back (LOG-18).

Pure. The pieces of a reply are filtered before they are journaled: what is left out reaches no journal, no screen and
no entry. Replay filters nothing, because what is in a log was filtered before it was written.
"""

from collections.abc import Mapping
from typing import Any

from wakelog.decide.policy import Reasoning
from wakelog.errors import UsageError
from wakelog.log.deltas import Delta, ThinkingDelta


def check_reasoning(provider: str, *, needs_back: bool, reasoning: Reasoning, params: Mapping[str, Any]) -> None:
    """`UsageError` where reasoning is to be left out that the provider must get back as it came."""
    if reasoning == "keep" or not needs_back or params.get("thinking") == "drop":
        return
    raise UsageError(
        f"{provider} signs a model's reasoning and must get it back as it came, so reasoning = {reasoning!r} cannot be",
        hint='leave it at "keep"; or set thinking = "drop" as well, so that none is asked for and none goes back',
    )


class ReasoningFilter:
    """The pieces of one reply without the reasoning that is left out."""

    def __init__(self, keeps: Reasoning) -> None:
        self._keeps = keeps
        self._begin()

    def _begin(self) -> None:
        self._has_text = self._lacks_text = False

    def take(self, delta: Delta) -> list[Delta]:
        """What may be written and shown of the next piece."""
        if not isinstance(delta, ThinkingDelta):
            self._begin()
            return [delta]
        if self._keeps == "keep":
            return [delta]
        return self._summary(delta) if self._keeps == "summary" else []

    def _summary(self, delta: ThinkingDelta) -> list[Delta]:
        """Text that is a summary, and what is sealed for the provider, where no text that it covers is left out."""
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
        # The seal covers more than is kept, so it goes; an empty one ends the thought all the same.
        return [ThinkingDelta(text, bound={}, summary=delta.summary)] if has_text else []
