"""A channel of your own: a bot that answers in a chat room, with a session for each person.

A channel is handed text at offsets, and a reply keeps its id: so the room gets one message for each reply, edited as
the reply grows, and a reply that is delivered again after a crash is the same message again.

    echo '17: use hours with {"day": "Sunday"}' | python 02_own_channel.py
"""

import asyncio
import sys
from pathlib import Path

from wakelog import Agent, LiveRuntime, Session, latest, open_store, tool, wake


class Room:
    """The room is a folder with a file for each message; a chat service would be asked to post and to edit."""

    def __init__(self, folder: Path) -> None:
        self.name, self.folder = "room", folder
        self.texts: dict[str, str] = {}

    async def begin(self, reply_id: str, attempt: int) -> None:
        self.texts.setdefault(reply_id, "")
        if attempt > 1:
            print("bot: (where was I?)")

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        shown = self.texts[reply_id]
        self.texts[reply_id] = shown[:offset] + text + shown[offset + len(text) :]

    async def reset(self, reply_id: str) -> None:
        self.texts[reply_id] = ""

    async def end(self, reply_id: str) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / reply_id).write_text(self.texts[reply_id])  # it counts as sent when this returns
        print("bot:", self.texts.pop(reply_id))


@tool(replay="safe")
def hours(day: str) -> str:
    """When the shop is open."""
    return "closed" if day == "Sunday" else "9 to 18"


async def main() -> None:
    store, room = open_store("sessions"), Room(Path("room"))
    agent = Agent(model="demo", name="bot", tools=(hours,))  # a real one: model="openai:NAME"
    for stat in list(store.sessions()):  # what the last process left undone; where nothing is owed nothing is touched
        await wake(LiveRuntime(store, tools=agent.tools, channels=[room]), stat.name)
    for line in sys.stdin:
        person, _, text = line.partition(": ")  # the service's own id of a person, not a name that anybody may take
        name = latest(store, "bot", person)
        session = Session(store, name) if name else agent.begin(store, sender=person)
        await agent.run(store, text.strip(), session=session, channels=[room])


asyncio.run(main())
