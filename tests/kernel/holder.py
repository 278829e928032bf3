"""A program: a worker that holds a session and halts at a named place.

    python -m tests.kernel.holder FOLDER [PLACE MANNER] [LEASE_S] [TALK]

Places: `talking` (some deltas are displayed), `before pay` (nothing is in the log yet), `pay begun` (in the tool,
nothing has happened yet), `paid` (it has, and there is no result). Manners: `gate` waits until the file `gate` is
there, `stop` and `die` are signals to itself. It halts once. The last line says how the session was left; a worker
that has lost its lease exits with 5.
"""

import asyncio
import json
import os
import signal
import sys

from tests.kernel.killing import die
from tests.kernel.outside import Outside
from tests.kernel.plays import Play
from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy
from wakelog.errors import LeaseLost
from wakelog.log.content import Prompt, TextDelta
from wakelog.log.entry import Message
from wakelog.ports.stores import Store
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.tools import builtin_tools

SESSION = "s"
LOST = 5
TALK = "Ein längerer Satz, den niemand zweimal hören will 🙂. " * 4
OTHER = "Asked again, a model says something else. " * 4
COMMAND = "echo $$ > group; sleep 1000 & echo $! > sleeper; echo begun; touch ready; wait"
REPLIES = {
    "Talk.": [{"text": TALK, "deltaChars": 5}],
    "Pay.": [{"text": "I pay.", "toolCalls": [{"name": "pay", "input": {"amount": 7}}]}, {"text": "It is paid."}],
    "Run.": [{"text": "I run it.", "toolCalls": [{"name": "shell", "input": {"command": COMMAND}}]}, {"text": "Ran."}],
    "Hurry.": [{"text": "At once."}],
}
_DELTAS = 5


class Place:
    """The folder of one test: a store, the outside world, a gate, and the place at which the worker halts."""

    def __init__(self, folder, halts="", manner="", lease_s=30.0, replies=None):
        self.folder = str(folder)
        self.store: Store = JsonlStore(os.path.join(self.folder, "store"))
        self.outside = Outside(os.path.join(self.folder, "outside"))
        self._halts, self._manner, self._lease_s = halts, manner, lease_s
        self._replies = replies or REPLIES
        # The replay word of `pay`.
        self.pays = "never"

    def path(self, name):
        return os.path.join(self.folder, name)

    def begin(self, prompt, policy=None):
        """A session with an unanswered prompt."""
        session = Session.create(
            self.store, session_id=SESSION, agent="crab", model="play", provider="scripted", cwd=self.folder
        )
        told = (*self.tools(), *builtin_tools(self.folder, ["shell"]))
        # Without redaction no text is held back: workers halt at exactly the planned delta.
        agreed = policy or Policy(redact="off")
        Agent(model="scripted:play", name="crab", system="Be brief.", tools=told, policy=agreed).enter(session)
        session.append(Message(id="u1", message=Prompt(content=prompt)))
        return session

    def runtime(self):
        """The runtime of this worker."""
        provider = Halting(Play(self._replies), self)
        channels = [self.outside.channel()]
        return LiveRuntime(self.store, tools=self.tools(), channels=channels, provider=provider, lease_s=self._lease_s)

    def wake(self):
        """Wake the session in this process."""
        return asyncio.run(wake(self.runtime(), SESSION))

    async def reached(self, place):
        """Halt, if this is the named place."""
        if place != self._halts:
            return
        self._halts = ""
        if self._manner == "gate":
            while not os.path.exists(self.path("gate")):  # noqa: ASYNC110 - another process opens it
                await asyncio.sleep(0.005)
        elif self._manner == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            die()

    def tools(self):
        """The tools of the outside world; `pay` has places to halt at."""
        look, pay, book = self.outside.tools()
        return (look, Paying(pay, self), book)


class Paying:
    """A tool that may never run twice, with places to halt at."""

    def __init__(self, pay, place):
        self.name, self.description, self.schema, self.replay = pay.name, pay.description, pay.schema, place.pays
        self._pay, self._place = pay, place

    async def prepare(self, call):
        await self._place.reached("before pay")
        return await self._pay.prepare(call)

    async def run(self, call):
        await self._place.reached("pay begun")
        outcome = await self._pay.run(call)
        await self._place.reached("paid")
        return outcome

    async def receipt(self, call):
        return await self._pay.receipt(call)


class Halting:
    """A model that halts after some deltas."""

    def __init__(self, play, place):
        self.name, self.can_resume = play.name, play.can_resume
        self._play, self._place = play, place

    def __call__(self, provider, model):
        return self

    async def stream(self, request):
        said = 0
        async for delta in self._play.stream(request):
            if said == _DELTAS:
                await self._place.reached("talking")
            said += isinstance(delta, TextDelta)
            yield delta


def main(folder, halts="", manner="", lease_s="30", talk=TALK):
    """Wake the session."""
    replies = {**REPLIES, "Talk.": [{"text": talk, "deltaChars": 5}]}
    place = Place(folder, halts, manner, float(lease_s), replies)
    try:
        report = place.wake()
    except LeaseLost as error:
        print(json.dumps({"lost": str(error)}), flush=True)
        return LOST
    left = getattr(report.decision, "outcome", type(report.decision).__name__)
    print(json.dumps({"left": left, "rows": report.rules}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
