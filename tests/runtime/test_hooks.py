"""VIEW-7: what hooks say is seen in one run, is never history, and the log says which words it was."""

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
    """A hook that says how often it was asked."""

    def __init__(self, name, says="{name} {count}"):
        self.name = name
        self.says = says
        self.occasions = []

    async def before_run(self, occasion):
        self.occasions.append(occasion)
        return self.says.format(name=self.name, count=len(self.occasions))


class Remembering(Play):
    """A model that remembers what it was handed."""

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
    """What each request held behind its history, from the log alone."""
    log = read_log(rig.store, "s")
    calls = [entry.value for entry in log.entries if isinstance(entry.value, ModelCall)]
    return [build_request(context_of_call(log.tree, call)[0], rig.store.blobs).injected for call in calls]


def test_a_turn_is_told_once_and_the_next_one_anew():
    """VIEW-7: fresh before each run, the same words for every request of it, and no trace in the history."""
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


def test_hooks_without_words_leave_nothing():
    """VIEW-7: an empty text is no text."""
    rig = rigged(Counting("weather", ""), Counting("mood"))
    rig.say("Again.")
    assert injected(rig) == [("mood 1",)]


def test_a_hook_that_fails_is_said_to_have_failed():
    """A failure of the outside world is a word in the log: the run goes on."""

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


def test_a_cancel_is_heard_while_hooks_speak():
    """RUN-12: nobody waits for a hook that takes long; the turn ends before the model is asked."""

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


def test_a_hook_that_is_not_at_hand():
    """RUN-19: what was agreed is not left out in silence."""
    rig = rigged(Counting("weather"))
    with pytest.raises(NotFound, match="mood"):
        rig.say("Again.")


def test_hooks_stand_in_the_log():
    """RUN-19: which hooks are in force is read from the log, options and all."""
    terms = (HookSettings(name="own", options={"command": ["date"], "timeoutS": 3}),)
    rig = rigged(terms=terms)
    (record,) = rig.values(ContextEntry)
    assert policy_in_force(record).hooks == terms
