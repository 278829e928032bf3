"""One real question to the real service: only where a key, and the name of a model to ask, are in the environment.

OPENAI_API_KEY=… WAKELOG_LIVE_OPENAI=NAME pytest tests/providers/openai/test_live.py
"""

import os

from tests.providers.asking import deltas, user
from tests.providers.openai.asking import PROVIDERS
from wakelog.ports import Request
from wakelog.turn.deltas import CallDelta, Finished

LOOK = {
    "name": "look",
    "description": "Looks into a box and says what is in it.",
    "schema": {"type": "object", "properties": {"box": {"type": "string"}}, "required": ["box"]},
}


def _model():
    return os.environ.get("WAKELOG_LIVE_OPENAI", "") if os.environ.get("OPENAI_API_KEY") else ""


if _model():

    def test_a_real_model():
        for provider in PROVIDERS.values():
            said = user("What is in box A and in box B? Look into both at once.")
            told = deltas(provider(), Request(model=_model(), messages=(said,), tools=(LOOK,)))
            assert isinstance(told[-1], Finished), told[-1]
            assert any(isinstance(delta, CallDelta) for delta in told)
