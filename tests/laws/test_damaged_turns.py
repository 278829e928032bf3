"""Law 6 under damage, with a model that repeats every action that its context does not show.

The model calls `publish` for every request whose result it cannot see and of which it is not told that something is
lost. A session is killed anywhere, one to three of its lines are overwritten, removed from the middle or flipped, and
it is woken again, by a worker that may be killed too. A ledger outside of the log counts what was really published:
no version may be published twice, although each new call has a new id. Only the removal of the end of a log escapes
this: nothing in the log shows it (`verify --head` does).
"""

import asyncio
import contextlib
from collections import Counter
from random import Random

import pytest

from tests.faults.figures import Figure
from tests.laws.forgetful import Forgetful
from wakelog.app.agent import Agent
from wakelog.decide import damage
from wakelog.decide.policy import Policy
from wakelog.errors import WakelogError
from wakelog.questions import PersonDecision, open_questions, resolve_question
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.memory import MemoryStore
from wakelog.testing.crashing_store import CrashingStore, SimulatedCrash
from wakelog.tools.function_tool import tool

SEEDS = 500
SHARES = 5


class Machine:
    """One store, a ledger outside of it, and workers that may crash."""

    def __init__(self, seed, store):
        self.chance = Random(f"machine {seed}")
        self.store = store
        self.ledger: Counter[int] = Counter()
        self.dying = None
        self.damages = self.damages_found = 0
        policy = Policy(unknown=("tell", "ask")[seed % 2])
        self.tools = self._tools()
        agent = Agent(model="scripted:x", tools=self.tools, policy=policy)
        session = agent.begin(store)
        self.name, self.id = session.name, session.id

    def _tools(self):
        @tool(replay="never")
        def publish(version: int) -> str:
            """Publishes a version."""
            self.ledger[version] += 1
            if self.dying is not None and self.chance.random() < 0.6:
                # The worst moment: the effect is there, and its process is gone.
                self.dying.life.end()
            return f"version {version} is out"

        @tool(replay="safe")
        def look() -> str:
            """Looks around."""
            return "all quiet"

        return (publish, look)

    def work(self, *, dies):
        """Run one worker, until the session is idle or the worker crashes."""
        self.dying = CrashingStore(self.store, dies_at=self.chance.randrange(4, 40)) if dies else None
        runtime = LiveRuntime(
            self.dying or self.store, tools=self.tools, provider=lambda _, __: Forgetful(), lease_s=0.0
        )
        with contextlib.suppress(SimulatedCrash, WakelogError):
            return asyncio.run(wake(runtime, self.name))
        return None

    def say(self, version):
        with contextlib.suppress(WakelogError):
            Session(self.store, self.name).say(f"publish {version}")

    def answer(self):
        """Answer the questions as a person who knows the ledger."""
        session = Session(self.store, self.name)
        for asked in open_questions(session):
            lost = asked.attention.reason == damage.DAMAGE_REASON
            choices: tuple[PersonDecision, ...] = ("unknown", "ran") if lost else ("ran",)
            resolve_question(session, asked.attention.id, self.chance.choice(choices))

    def damaged(self):
        """The log with one to three lines overwritten, removed or flipped; its end stays."""
        raw = b"".join(line.bytes for line in self.store.load(self.name))
        lines = raw.split(b"\n")[:-1]
        for _ in range(self.chance.randrange(1, 4)):
            # Most accidents happen where they hurt: to the last reply that called a tool, or around it.
            replies = [at for at, line in enumerate(lines) if b'"toolCall"' in line]
            near = replies and self.chance.random() < 0.8
            at = replies[-1] + self.chance.choice((0, 0, 0, 1, 2)) if near else self.chance.randrange(len(lines))
            self._hurt(lines, min(at, len(lines) - 1))
        hurt = b"".join(line + b"\n" for line in lines)
        self.damages += 1
        self.damages_found += hurt != raw
        return hurt

    def _hurt(self, lines, at):
        line = lines[at]
        match self.chance.choice(["overwrite", "remove", "flip"]):
            case "overwrite":
                lines[at] = self.chance.choice([b"\0", b"#", b" }"]) * len(line)
            case "remove" if 0 < at < len(lines) - 1:
                del lines[at]
            case _ if line:
                place = self.chance.randrange(len(line))
                lines[at] = line[:place] + bytes([line[place] ^ 1 << self.chance.randrange(8)]) + line[place + 1 :]


def _run(machine, put):
    for version in (1, 2):
        machine.say(version)
        machine.work(dies=machine.chance.random() < 0.8)
        if machine.chance.random() < 0.7:
            put(machine, machine.damaged())
        for _ in range(3):
            machine.work(dies=machine.chance.random() < 0.3)
            with contextlib.suppress(WakelogError):
                machine.answer()
        machine.work(dies=False)
    return machine


def _in_memory(seed):
    return _run(Machine(seed, MemoryStore()), lambda machine, raw: machine.store.replace(machine.id, machine.name, raw))


def _tally(seeds, run):
    seen: Counter[str] = Counter()
    for seed in seeds:
        machine = run(seed)
        seen["published"] += len(machine.ledger)
        twice = [version for version, count in machine.ledger.items() if count > 1]
        seen["twice"] += bool(twice)
        seen["planned"] += machine.damages
        seen["applied"] += machine.damages_found
        if twice:
            seen[f"seed {seed}"] += 1
        raw = b"".join(line.bytes for line in machine.store.load(machine.name))
        seen["told"] += b'"wakelog.damage"' in raw
        seen["asked"] += b'"reason":"damage"' in raw
    return seen


def figure(store, seen, control=""):
    """The figures of all seeds."""
    published, twice = (seen["published"], "tools that ran"), (seen["twice"], "sessions with a second run")
    return Figure("damage to a turn", store, seen["planned"], seen["applied"], published, twice, control)


@pytest.mark.parametrize("share", range(SHARES))
def test_nothing_is_published_twice(share, record):
    """Law 6: a damaged turn is not repeated silently, whatever was damaged."""
    each = SEEDS // SHARES
    seen = _tally(range(share * each, (share + 1) * each), _in_memory)
    record(figure("memory", seen))
    assert seen["twice"] == 0, seen
    assert seen["published"] > each / 2, seen
    assert seen["told"] > each / 5, seen
    assert seen["asked"] > 0, seen


def test_nothing_is_published_twice_from_files(tmp_path, record):
    """The same with logs in files."""

    def put(machine, raw):
        with open(machine.store.folder.log_path(machine.name), "wb") as file:
            file.write(raw)
        machine.store = JsonlStore(machine.store.folder.path)

    seen = _tally(range(1_000, 1_020), lambda seed: _run(Machine(seed, JsonlStore(str(tmp_path / str(seed)))), put))
    record(figure("files", seen))
    assert (seen["twice"], seen["told"] > 0) == (0, True), seen


def test_control_without_its_rule_the_table_publishes_twice(monkeypatch, record):
    """Where the model is not told of damage, it publishes again."""
    monkeypatch.setattr(damage, "losses", lambda tree, branch: None)
    record(figure("memory", _tally(range(60), _in_memory), control="the model is not told"))
