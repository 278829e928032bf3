"""A channel: a bot that answers in a chat room, with one session for each person.

A channel gets text at offsets, and a reply keeps its id. So the room has one message for each reply, edited while the
reply grows, and a reply that is delivered again after a crash replaces the same message.

    echo '17: use hours with {"day": "Sunday"}' | python 02_own_channel.py
"""

import asyncio
import sys
from pathlib import Path

from wakelog import Agent, Session, open_store, tool


class Room:
    """A folder with one file for each message; a real channel would call the API of a chat service."""

    def __init__(self, folder: Path) -> None:
        self.name, self.folder = "room", folder
        self.texts: dict[str, str] = {}

    async def begin(self, reply_id: str, attempt: int) -> None:
        self.texts.setdefault(reply_id, "")
        if attempt > 1:
            print("bot: (continues an interrupted reply)")

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        shown = self.texts[reply_id]
        self.texts[reply_id] = shown[:offset] + text + shown[offset + len(text) :]

    async def reset(self, reply_id: str) -> None:
        self.texts[reply_id] = ""

    async def end(self, reply_id: str) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / reply_id).write_text(self.texts[reply_id])  # the reply counts as sent when this returns
        print("bot:", self.texts.pop(reply_id))


@tool(replay="safe")
def hours(day: str) -> str:
    """Returns the opening hours of the shop."""
    return "closed" if day == "Sunday" else "9 to 18"


async def main() -> None:
    store = open_store("sessions")
    agent = Agent("demo", name="bot", tools=[hours], channels=(Room(Path("room")),))  # a real model: "openai:NAME"
    for stat in list(store.sessions()):  # finish what the last process left; sessions without open work are not changed
        await agent.wake(store, stat.name)
    for line in sys.stdin:
        person, _, text = line.partition(": ")  # the id that the service gives a person, not a display name
        session = Session.open(store, agent="bot", sender=person)  # the latest session of this pair, or a new one
        await agent.run(store, text.strip(), session=session)


asyncio.run(main())
