"""Checks that come before a session is taken up: what cannot be done here is raised before anything is written.

A missing key, an untrusted address or an unknown setting is the caller's to mend. The error must not leave entries
behind, however often a session is woken before that.
"""

from collections.abc import Mapping
from typing import Any

from wakelog.errors import UsageError
from wakelog.ports import CheckedProvider
from wakelog.turn.decisions import Ask, Await, Compact, Decision, Mend
from wakelog.views.state import BranchState
from wakelog.world import OpenProvider


def needs_model(decision: Decision) -> bool:
    """Whether a decision makes a model call. A timed wait does too: it is the back-off before a call."""
    return isinstance(decision, Ask | Mend | Compact) or (isinstance(decision, Await) and decision.until_ms is not None)


def check_model(open_provider: OpenProvider, name: str, state: BranchState) -> None:
    """`UsageError` if the model in force in the session `name` cannot be asked. Uses no network, writes nothing."""
    params = state.context.params if state.context is not None else {}
    try:
        check_askable(open_provider, state.provider or "", state.model or "", params)
    except UsageError:
        if state.model:
            raise
        hint = f"`wakelog run -s {name} --model PROVIDER:NAME` names one, as does `Agent(model=…).run(…, session=…)`"
        raise UsageError(f"{name} names no model that could answer", hint=hint) from None


def check_askable(open_provider: OpenProvider, provider: str, model: str, params: Mapping[str, Any]) -> None:
    """`UsageError` if a model cannot be asked with these parameters, as far as that is known without asking it."""
    opened = open_provider(provider, model)
    if isinstance(opened, CheckedProvider):
        opened.check(model, params)
