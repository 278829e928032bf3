"""Tool calls as the runtime makes them, with the intent of `prepare` in the invocation of `run`."""

import asyncio

import msgspec

from wakelog.ports.runtime import ToolInvocation


def invocation(show=lambda text: None, **arguments):
    return ToolInvocation("reply-1", "call-1", arguments, show=show)


async def begun(tool, call):
    """The invocation as it is in the log once the tool has been started."""
    return msgspec.structs.replace(call, intent=await tool.prepare(call))


async def perform(tool, call):
    return await tool.run(await begun(tool, call))


def ask(tool, **arguments):
    """Prepare and run a call; return the outcome."""
    return asyncio.run(perform(tool, invocation(**arguments)))


def refusal(tool, **arguments):
    """The one line of a call that must fail."""
    outcome = ask(tool, **arguments)
    assert outcome.is_error, outcome
    assert "\n" not in outcome.text
    assert "Error" not in outcome.text
    return outcome.text
