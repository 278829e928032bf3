"""VIEW-7: hook text is part of the requests of one run and never of the history; the log records it."""

import asyncio

import pytest

from tests.kernel.plays import Play
from tests.runtime.rigs import Rig, asks
from wakelog.decide.policy import HookSettings, policy_in_force
from wakelog.errors import NotFound
from wakelog.log.entry import Cancelled, ContextEntry, ModelCall
from wakelog.reading import read_log
from wakelog.runtime.model_request import build_request, context_of_call
from wakelog.runtime.user_actions import request_cancel

TWO = (HookSettings(name="weather"), HookSettings(name="mood"))
PLAY = {
    "Look.": [asks(("look", 1)), {"text": "I have looked."}],
    "Again.": [{"text": "As before."}],
}


class Counting:
    """A hook whose text is the number of its calls."""

    def __init__(self, name, says="{name} {count}"):
        self.name = name
        self.says = says
        self.occasions = []

    async def before_run(self, occasion):
        self.occasions.append(occasion)
        return self.says.format(name=self.name, count=len(self.occasions))


class Remembering(Play):
    """A model that records the requests it gets."""

    def __init__(self, replies):
        super().__init__(replies)
        self.requests = []

    def stream(self, request):
        self.requests.append(request)
        return super().stream(request)


def rigged(*hooks, terms=TWO):
    rig = Rig(PLAY, hooks=terms)
    rig.hooks, rig.provider = hooks, Remembering(PLAY)
    return rig


def injected(rig):
    """The hook text of each request, read from the log alone."""
    log = read_log(rig.store, "s")
    calls = [entry.value for entry in log.entries if isinstance(entry.value, ModelCall)]
    return [build_request(context_of_call(log.tree, call)[0], rig.store.blobs).injected for call in calls]


def test_hooks_run_once_per_turn():
    """VIEW-7: hooks run before each turn, all requests of the turn have the same text.

    The history has none of it.
    """
    weather, mood = Counting("weather"), Counting("mood")
    rig = rigged(weather, mood)
    rig.say("Look.")
    rig.say("Again.")
    assert injected(rig) == [("weather 1", "mood 1")] * 2 + [("weather 2", "mood 2")]
    asked = [occasion.prompt for occasion in weather.occasions]
    assert asked == ["Look.", "Again."]
    assert [len(request.injected) for request in rig.provider.requests] == [2, 2, 2]
    history = "".join(str(message) for request in rig.provider.requests for message in request.messages)
    assert "weather" not in history


def test_empty_hook_text_is_not_injected():
    """VIEW-7: an empty text is treated as no text."""
    rig = rigged(Counting("weather", ""), Counting("mood"))
    rig.say("Again.")
    assert injected(rig) == [("mood 1",)]


def test_a_failing_hook_is_recorded_and_the_run_goes_on():
    """A failure of the outside world is an entry in the log."""

    class Broken:
        name = "weather"

        async def before_run(self, occasion):
            raise OSError("no sky\x00 here")

    rig = rigged(Broken(), Counting("mood"))
    assert rig.say("Again.").text == "As before."
    ((failed, mood),) = injected(rig)
    assert failed.startswith("[the hook weather failed: no sky")
    assert mood == "mood 1"


def test_the_blobs_are_there_before_the_call_that_names_them():
    """LOG-12: a blob is written and synced before the entry that names it."""
    rig = rigged(Counting("weather"), Counting("mood"))
    rig.session.say("Again.")
    rig.kinds()
    rig.wake()
    kinds = rig.kinds()
    assert kinds.index("call") > kinds.index("blob")


def test_a_cancel_is_seen_while_hooks_run():
    """RUN-12: a slow hook is not waited for; the turn ends before the model is called."""

    class Slow(Counting):
        async def before_run(self, occasion):
            await super().before_run(occasion)
            request_cancel(rig.session)
            await asyncio.Event().wait()

    slow = Slow("weather")
    rig = rigged(slow, Counting("mood"))
    report = rig.say("Again.")
    assert (report.decision.outcome, len(slow.occasions)) == ("cancelled", 1)
    assert rig.provider.requests == []
    assert len(rig.values(Cancelled)) == 1


def test_a_hook_that_is_not_installed_is_an_error():
    """RUN-19: a hook named in the settings is not left out silently."""
    rig = rigged(Counting("weather"))
    with pytest.raises(NotFound, match="mood"):
        rig.say("Again.")


def test_the_log_names_the_hooks_in_force():
    """RUN-19: hooks and their options are read from the log."""
    terms = (HookSettings(name="own", options={"command": ["date"], "timeoutS": 3}),)
    rig = rigged(terms=terms)
    (record,) = rig.values(ContextEntry)
    assert policy_in_force(record).hooks == terms
