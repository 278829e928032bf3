"""`Agent` from the outside: tools, channels and a provider are named once; running, waking, prompts with parts."""

import asyncio

import pytest

from wakelog import Agent, Image, Session, open_store
from wakelog.channels.in_process import MemoryChannel
from wakelog.errors import UsageError
from wakelog.log.content import Faulted, Finished, TextDelta, Usage
from wakelog.tools.function_tool import as_tools


class Echo:
    """A provider that repeats the last prompt and the number of images in it."""

    name = "echo"
    can_resume = False

    async def stream(self, request):
        last = request.messages[-1]
        images = sum(isinstance(part, Image) for part in last.content)
        yield TextDelta(f"{request.model}: {last.content[0].text} ({images})")
        yield Finished("stop", Usage(input_tokens=1, output_tokens=2))


@pytest.fixture
def store():
    return open_store("memory:")


def test_a_provider_of_ones_own(store):
    """RUN-1: the agent names its provider once; `run` and `wake` use it, for prompts with parts too."""
    agent = Agent("echo:one", provider=Echo())
    report = agent.run_sync(store, ["look", Image(mime_type="image/png", data="iVBORw0KGgo=")], sender="ada")
    assert (report.text, report.state, report.error) == ("one: look (1)", "idle", None)
    assert report.usage.output_tokens == 2
    session = Session.open(store, agent="agent", sender="ada")
    session.say("again")
    assert asyncio.run(agent.wake(store, session)).text == "one: again (0)"


def test_a_plain_function_is_named_once(store):
    """Law 6: a plain function is a tool that may not be repeated; `wake` finds it on the agent."""
    paid = []

    def pay(euros: int) -> str:
        """Pays."""
        paid.append(euros)
        return "paid"

    agent = Agent("demo", tools=(pay,))
    session = agent.begin(store)
    session.say('use pay with {"euros": 3}')
    report = asyncio.run(agent.wake(store, session.name))
    assert (paid, report.state) == ([3], "idle")
    assert [tool.replay for tool in as_tools(agent.tools)] == ["never"]


def test_channels_of_the_agent_get_the_replies(store):
    """RUN-9: the channel named on the agent gets the reply of `run` and of `wake`."""
    channel = MemoryChannel("page")
    agent = Agent("echo:one", provider=Echo(), channels=(channel,))
    report = agent.run_sync(store, "hello")
    session = Session.get(store, report.session.name)
    session.say("more")
    asyncio.run(agent.wake(store, session))
    assert sorted(channel.replies.values()) == ["one: hello (0)", "one: more (0)"]


def test_run_sync_inside_an_event_loop(store):
    """A mistake that would block the loop is named."""

    async def wrong() -> None:
        Agent("demo").run_sync(store, "hi")

    with pytest.raises(UsageError, match=r"inside an event loop.*await agent\.run"):
        asyncio.run(wrong())


def test_the_state_of_a_run_that_failed(store):
    """RUN-12: a result says how the session was left, and why."""

    class Broken(Echo):
        async def stream(self, request):
            yield Faulted("auth", "the key was refused")

    report = Agent("echo:one", provider=Broken()).run_sync(store, "hi")
    assert (report.state, report.error.kind, report.error.message) == ("failed", "auth", "the key was refused")
