"""Random sessions: a random model, tools of all three replay words, people who interrupt, and workers that crash.

Whatever the model says is a function of its seed and the request alone, so it says the same after a crash. What
happens outside (effects, receipts, what a channel holds) is kept in objects that outlive every worker. People
write through the store itself; only the worker's own store can die.
"""

import asyncio
import contextlib
from collections import Counter
from random import Random
from typing import Any, Literal

from hypothesis import strategies as st

from wakelog.app.agent import Agent
from wakelog.channels.in_process import MemoryChannel
from wakelog.decide.policy import Policy
from wakelog.errors import NotFound, UsageError
from wakelog.forking import fork
from wakelog.log.content import Faulted, Finished, Prompt, Text, TextDelta, ThinkingDelta, ToolCallDelta, ToolResult
from wakelog.log.entry import Message, Queued, Setting
from wakelog.log.lines import EntryReader
from wakelog.ports.runtime import ToolInvocation, ToolOutcome
from wakelog.questions import open_questions, resolve_question
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.user_actions import request_cancel, request_compaction, rerun_tool
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.testing.crashing_store import CrashingStore, SimulatedCrash
from wakelog.tools.function_tool import tool
from wakelog.tools.subagent import SubagentTool

WAKES_MAX = 200
WORDS = ("so", "a longer word or two", "é", "𝄞", "\n", "line\u2028break", '"quoted"', "\\", "…", " and ", "x" * 40)
VERBS = ("say", "say", "say", "queue", "cancel", "fold", "agent", "setting", "head", "fork", "rerun", "interrupt")
ACTIONS = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 999)), min_size=1, max_size=6)
KILLS = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=6)
SEEDS = st.integers(0, 2**20)


class Ticking:
    """A clock that moves a little at each call, and ids that count."""

    def __init__(self):
        self.ms = 1_767_261_600_000
        self._drawn = 0

    def now_ms(self):
        self.ms += 7
        return self.ms

    def new_id(self):
        self._drawn += 1
        return f"e{self._drawn:06d}"

    async def pause(self, ms):
        self.ms += ms


class Whim:
    """A random model: text, reasoning, tool calls, faults; and summaries that are sometimes unusable."""

    name = "whim"

    def __init__(self, seed, *, tools=("look", "pay", "book"), faults=True, can_resume=True):
        self.can_resume = can_resume
        self.requests = []
        self._seed = seed
        self._tools = tools
        self._faults = faults

    def __call__(self, provider, model):
        return self

    async def stream(self, request):
        self.requests.append(request)
        chance = Random(f"{self._seed} {request.purpose} {request.answers}")
        makes = _summary if request.purpose == "compaction" else self._reply
        prior = request.prefill
        for delta in makes(chance, request):
            if isinstance(delta, TextDelta) and prior:
                cut, prior = len(prior), prior[len(delta.text) :]
                delta = TextDelta(delta.text[cut:])  # noqa: PLW2901 - the same piece, without what was said
                if not delta.text:
                    continue
            await asyncio.sleep(0)
            yield delta

    def _reply(self, chance, request):
        said = 0
        for message in reversed(request.messages):
            if message.role == "user":
                break
            said += message.role == "assistant"
        if chance.random() < 0.2 and not request.prefill:
            yield ThinkingDelta(_text(chance), "signed" if chance.random() < 0.5 else None)
        for _ in range(chance.randrange(1, 5)):
            yield TextDelta(_text(chance) or ".")
        if self._faults and chance.random() < 0.15:
            if chance.random() < 0.3:
                return
            yield Faulted("overload", "busy", retryable=chance.random() < 0.7, delay_ms=chance.choice([0, 5, None]))
            return
        if said < 3 and chance.random() < 0.6:
            yield from self._calls(chance)
        yield Finished(request_id=f"r{request.answers}")

    def _calls(self, chance):
        for number in range(chance.randrange(1, 4)):
            given = {"n": chance.randrange(1000)} if chance.random() < 0.9 else chance.choice([None, [], {"x": 1}])
            name = chance.choice(self._tools)
            if name == "agent":
                given = {"prompt": f"child {number}"}
            yield ToolCallDelta(chance.choice(["t0", f"t{number}", ""]), name, given)


def _text(chance):
    return "".join(chance.choice(WORDS) for _ in range(chance.randrange(0, 6)))


def _summary(chance, request):
    how = chance.random()
    if how < 0.1:
        yield Faulted("overload", "busy", retryable=True)
        return
    if how < 0.9:
        yield TextDelta("They talked. " if how < 0.8 else "long " * 4_000)
    yield Finished()


class Outside:
    """The effects that really happened: by (tool, reply, call), with receipts, and the text of a channel."""

    def __init__(self):
        self.effects: Counter[tuple[str, str, str]] = Counter()
        self.receipts: dict[tuple[str, str], str] = {}
        self.channel = MemoryChannel("outbox")
        self.interrupt = lambda: None
        self.tools = self._tools()

    def _tools(self):
        async def effect(name, n, call) -> str:
            self.effects[(name, call.reply_id, call.tool_call_id)] += 1
            self.interrupt()
            for piece in range(n % 4):
                call.show(f"{name} {piece}\n")
                await asyncio.sleep(0)
            if n % 11 == 0:
                raise ValueError("no luck")
            return f"{name} {n}" * (1 if n % 7 else 60)

        @tool(replay="safe")
        async def look(n: int, call: ToolInvocation) -> str:
            """Looks."""
            return await effect("look", n, call)

        @tool(replay="never")
        async def pay(n: int, call: ToolInvocation) -> str:
            """Pays."""
            return await effect("pay", n, call)

        @tool(replay="receipt")
        async def book(n: int, call: ToolInvocation) -> str:
            """Books."""
            key = (call.reply_id, call.tool_call_id)
            self.receipts[key] = f"booked {n}"
            self.effects[("book", *key)] += 1
            await asyncio.sleep(0)
            return self.receipts[key]

        @book.receipt
        async def booked(call: ToolInvocation):
            if call.arguments.get("n", 0) % 5 == 0:
                return "cannot say"
            told = self.receipts.get((call.reply_id, call.tool_call_id))
            return "not begun" if told is None else ToolOutcome(told)

        return (look, pay, book, SubagentTool())


def policy(chance):
    """A random policy."""
    ask = chance.choice(["auto", "auto", "ask"])
    return Policy(
        strategy=chance.choice(["full", "full", "window:4", "window:9", "budget:40", "budget:200"]),
        compact_at=chance.choice([0, 0, 60, 150]),
        keep=chance.choice([10, 40]),
        clip=chance.choice([128, 200, 16_384]),
        approvals={"pay": ask},
        unknown=chance.choice(["tell", "ask"]),
        cut=chance.choice(["replace", "resume"]),
        faults_max=chance.choice([2, 5]),
        attempts_max=chance.choice([1, 3]),
        children=1,
    )


class Moody(MemoryChannel):
    """A channel that at random raises or is slow."""

    def __init__(self, name, seed, clock, rate):
        super().__init__(name)
        self.rate = rate
        self._chance = Random(f"moody {name} {seed}")
        self._clock = clock

    def _meet(self):
        if self._chance.random() < self.rate:
            self._clock.ms += self._chance.choice([0, 0, 900, 5_000])
            if self._chance.random() < 0.7:
                raise ConnectionResetError("connection reset by peer")

    async def begin(self, reply_id, attempt):
        self._meet()
        await super().begin(reply_id, attempt)

    async def delta(self, reply_id, offset, text):
        await super().delta(reply_id, offset, text)
        self._meet()

    async def reset(self, reply_id):
        self._meet()
        await super().reset(reply_id)

    async def end(self, reply_id):
        self._meet()
        await super().end(reply_id)


class Play:
    """One session, and the actions of people and workers on it."""

    def __init__(
        self, seed, *, kills=(), tools=("look", "pay", "book", "agent", "ghost"), faults=True, channels=True, rig=None
    ):
        self.chance = Random(f"play {seed}")
        self.clock = Ticking()
        self.now = 0.0
        self.rig = rig
        self.store = rig.store if rig else MemoryStore(now=lambda: self.now)
        self.outside = Outside()
        self.model = Whim(seed, tools=tools, faults=faults)
        self.rows = []
        self.allowed: Counter[tuple[str, str, str]] = Counter()
        self.deaths = 0
        self.never_decided: tuple[str, ...] = ()
        self.moody: tuple[Any, ...] = ()
        self._kills = list(kills)
        self._channels = channels
        self._armed = []
        self.outside.interrupt = self._speak_up
        self.session = Session.create(self.store, clock=self.clock, model="m", provider="whim", session_id="s0")
        self.enter(policy(self.chance))

    def enter(self, agreed, **more):
        Agent(model="whim:m", tools=self.outside.tools, policy=agreed, **more).enter(self.session)

    def opened(self):
        return Session(self.store, self.session.name, clock=self.clock)

    # ── people ───────────────────────────────────────────────────────────────────────────────────

    def act(self, verb, number):
        """Do one action of a person, then let workers run until the session is idle."""
        with contextlib.suppress(UsageError, NotFound):
            getattr(self, f"_{verb}")(number)
        return self.rest()

    def _say(self, number):
        self.opened().say(f"prompt {number}")

    def _queue(self, number):
        mode: Literal["steer", "followUp"] = "followUp" if number % 2 else "steer"
        self.opened().append(Queued(message=Prompt(content=(Text(text=f"queued {number}"),)), mode=mode))

    def _cancel(self, number):
        self.opened().say(f"never mind {number}")
        request_cancel(self.opened())

    def _fold(self, number):
        request_compaction(self.opened(), instructions="Be brief." if number % 2 else "")

    def _agent(self, number):
        self.session = self.opened()
        self.enter(policy(Random(number)), system=f"Be {number % 3}.", params={"t": number % 2})

    def _setting(self, number):
        self.opened().append(Setting(key="k", value=number))

    def _head(self, number):
        nodes = list(self.opened().read().tree.nodes)
        # A log that was hurt badly enough has none.
        if nodes:
            self.opened().move_head(nodes[number % len(nodes)])

    def _fork(self, number):
        session = self.opened()
        nodes = list(session.read().tree.nodes)
        if nodes:
            self.session = fork(session, nodes[number % len(nodes)])
            self.opened().say(f"fork {number}")

    def _rerun(self, number):
        results = [node.id for node in self.opened().read().tree.nodes.values() if _is_result(node)]
        if results:
            rerun_tool(self.opened(), results[number % len(results)])

    def _interrupt(self, number):
        """A message will be written while the next tool runs."""
        self._armed.append(number)
        self.opened().say(f"prompt {number}")

    def _speak_up(self):
        number = self._armed.pop() if self._armed else None
        if number is None:
            return
        if number % 3 == 0:
            self.opened().append(Queued(mode="cancel"))
        else:
            self._queue(number)

    # ── workers ──────────────────────────────────────────────────────────────────────────────────

    def runtime(self, store):
        channels = [self.outside.channel, *self.moody] if self._channels else []
        runtime = LiveRuntime(
            store, tools=self.outside.tools, channels=channels, provider=self.model, clock=self.clock, holder="w"
        )
        at_hand = {each.name: each for each in self.outside.tools}
        return runtime.with_changes(sleep=self.clock.pause, wait_for_cancel=watch, tools=lambda _, __: at_hand)

    def rest(self):
        """Wake the session, again whenever its worker has crashed or a person was asked, until it is idle."""
        for _ in range(WAKES_MAX):
            dies_at, after = self._kills.pop() if self._kills else (None, False)
            store = CrashingStore(self.store, dies_at=dies_at, after=after)
            try:
                report = asyncio.run(wake(self.runtime(store), self.session.name))
            except SimulatedCrash:
                self.deaths += 1
                self._outlive_leases()
                continue
            self.rows += report.rules
            if not self._answer():
                return report
        raise AssertionError(f"it does not come to rest: {self.rows[-20:]}")

    def _outlive_leases(self):
        self.now += 1e9
        if self.rig:
            self.rig.advance(1e9)

    def _answer(self):
        """Decide all open questions of all sessions at random; return whether there were any."""
        waiting = False
        for stat in list(self.store.sessions()):
            session = Session(self.store, stat.name, clock=self.clock)
            for question in open_questions(session):
                if question.open_call is None:
                    continue
                word = self.chance.choice([word for word in question.choices if word not in self.never_decided])
                if word == "run again":
                    self.allowed[("pay", question.open_call.reply_id, question.open_call.tool_call.id)] += 1
                resolve_question(session, question.attention.id, word, result="by hand" if word == "result" else None)
                waiting = True
        return waiting


async def watch(session, seq):
    """Like `live.watch_for_cancel`, without the wait between two reads. A crashed worker sees nothing."""
    with contextlib.suppress(SimulatedCrash):
        return await _next_cancel(session, seq)
    return await asyncio.Future()


async def _next_cancel(session, seq):
    while True:
        for entry in EntryReader(next_seq=seq + 1).feed_all(session.store.load(session.name, after=seq)):
            seq = max(seq, entry.seq)
            if isinstance(entry.value, Queued) and entry.value.mode == "cancel":
                return entry.value
        await asyncio.sleep(0)


def _is_result(node):
    return isinstance(node.value, Message) and isinstance(node.value.message, ToolResult)
