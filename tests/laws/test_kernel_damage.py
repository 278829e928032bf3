"""Law 6: with random damage, forks and wakes, a tool that may not run twice has not run twice.

Half-finished and finished sessions (their workers died anywhere) have their lines damaged, their heads moved and are
forked, again and again, and everything is woken to rest. What the tools really did is counted outside. The end of a
log is cut only behind the last tool that was begun: that beginning was synced before the effect, so no crash takes
it back, and a log that was shortened on purpose does not show that it was longer.
"""

import asyncio
import contextlib
from collections import Counter
from random import Random

import pytest

from tests.laws.plays import Play
from wakelog.decide import open_tool_calls as calls
from wakelog.decide.decisions import Await, Idle
from wakelog.decide.policy import Policy
from wakelog.errors import WakelogError
from wakelog.log.integrity import verify_seals
from wakelog.reading import read_log
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.testing.crashing_store import CrashingStore, SimulatedCrash

CASES = 1_000
SHARES = 4
HURTS = ("flip", "flip", "drop", "glue", "garbage", "repeat", "swap", "tail", "none")


def _base(seed):
    """A session whose last worker has crashed, or not, and was not followed by another."""
    chance = Random(f"base {seed}")
    play = Play(seed, tools=("pay",) if seed % 2 else ("pay", "pay", "look", "book"), channels=False)
    play.never_decided = ("run again",)
    play.enter(_agreed(seed))
    for number in range(chance.randrange(1, 3)):
        play.act(chance.choice(["say", "interrupt"]), number)
    play.opened().say("the last one")
    dying = CrashingStore(play.store, dies_at=chance.choice([*range(4, 30), None]), after=chance.random() < 0.5)
    if seed % 4:
        # The worst moment of all: the effect is there, and its process is gone.
        play.outside.interrupt = dying.life.end
    with contextlib.suppress(SimulatedCrash):
        asyncio.run(wake(play.runtime(dying), play.session.name))
    return play


def _agreed(seed):
    return Policy(unknown=("tell", "ask")[seed % 2], compact_at=(0, 0, 90)[seed % 3], keep=20)


# ── damage ───────────────────────────────────────────────────────────────────────────────────────


def _damaged(raw, chance):
    while True:
        hurt = raw
        for _ in range(chance.randrange(1, 4)):
            hurt = _hurt(hurt, chance.choice(HURTS), chance)
        if not _forgets_a_beginning(raw, hurt):
            return hurt


def _forgets_a_beginning(raw, hurt):
    """Whether only an earlier state of the same log is left, from before a tool was started."""
    left = hurt[: hurt.rfind(b"\n") + 1]
    return raw.startswith(left) and left.count(b'"tool_started"') < raw.count(b'"tool_started"')


def _hurt(raw, how, chance):
    lines = raw.split(b"\n")[:-1]
    begun = [at for at, line in enumerate(lines) if b'"tool_started"' in line]
    # Half of all accidents happen where they hurt: around the tools.
    near = begun and chance.random() < 0.5
    at = chance.choice(begun) if near else chance.randrange(len(lines))
    line = lines[at]
    match how:
        case "flip":
            place = chance.randrange(len(line))
            lines[at] = line[:place] + bytes([line[place] ^ 1 << chance.randrange(8)]) + line[place + 1 :]
        case "drop" if at < len(lines) - 1:
            del lines[at]
        case "glue" if at < len(lines) - 1:
            lines[at : at + 2] = [line + lines[at + 1]]
        case "garbage":
            lines[at] = b"\x00" * len(line)
        case "repeat":
            lines.insert(chance.randrange(len(lines) + 1), line)
        case "swap" if at < len(lines) - 1:
            lines[at : at + 2] = lines[at : at + 2][::-1]
        case "tail":
            safe = sum(len(line) + 1 for line in lines[: begun[-1] + 1 if begun else 1])
            return raw[: chance.randrange(safe, len(raw) + 1)]
    return b"".join(line + b"\n" for line in lines)


def _reports(store, name):
    """The reported damage; lines without a seal are separate, as the next append seals them."""
    log, proof = read_log(store, name), verify_seals(store.load(name))
    return [*log.damage, *log.noted, *proof.broken], proof.unsealed


# ── one case ─────────────────────────────────────────────────────────────────────────────────────


class _Case:
    def __init__(self, number):
        self.chance = Random(f"case {number}")
        self.play = _copy(_bases()[number % len(_bases())])
        self.seen: Counter[str] = Counter()

    def run(self):
        raw = b"".join(line.bytes for line in self.play.store.load("s0"))
        hurt = _damaged(raw, self.chance)
        self.play.store.replace("s0", self.play.store.name("s0"), hurt)
        before = self._reported(is_due=not raw.startswith(hurt))
        for _ in range(self.chance.randrange(1, 4)):
            self._meddle()
            self._wake_all()
        if not self.seen["again"]:
            self._reported(is_due=bool(before))
        return self.seen

    def _reported(self, *, is_due):
        """Law 9: changed bytes are reported, before the session is woken and after."""
        with self._allowed():
            damage, unsealed = _reports(self.play.store, "s0")
            assert damage or unsealed or not is_due
            self.seen["reported"] += bool(damage)
            return damage

    def _meddle(self):
        what = self.chance.choice(["head", "fork", "say", "nothing", "again"])
        self.seen[what] += 1
        number = self.chance.randrange(1_000)
        with self._allowed():
            if what in ("head", "say"):
                getattr(self.play, f"_{what}")(number)
            elif what == "fork":
                self._fork(number)
            elif what == "again":
                name = self.play.store.name("s0")
                raw = b"".join(line.bytes for line in self.play.store.load("s0"))
                self.play.store.replace("s0", name, _damaged(raw, self.chance))

    def _fork(self, number):
        original = self.play.session
        self.play._fork(number)
        if self.chance.random() < 0.5:
            self.play.session = original

    def _wake_all(self):
        for stat in list(self.play.store.sessions()):
            with self._allowed():
                self.play.session = Session(self.play.store, stat.name, clock=self.play.clock)
                self.play.now += 1e9
                report = self.play.rest()
                assert isinstance(report.decision, Idle | Await)
                self.seen[type(report.decision).__name__] += 1

    @contextlib.contextmanager
    def _allowed(self):
        """Only wakelog's own errors are raised, with a reason."""
        try:
            yield
        except WakelogError as error:
            self.seen[type(error).__name__ if error.message else "no reason given"] += 1


def _copy(base):
    """The same session in a store of its own."""
    play = Play.__new__(Play)
    vars(play).update(vars(base))
    play.chance, play.allowed, play.rows, play.now = Random(0), Counter(), [], 0.0
    play.outside = _outside_of(base, play)
    play.store = MemoryStore(now=lambda: play.now)
    play.store._blobs = base.store.blobs
    for stat in base.store.sessions():
        play.store.replace("s0", stat.name, b"".join(line.bytes for line in base.store.load(stat.name)))
        for journal, pieces in base.store.journals(stat.name).items():
            for piece in pieces:
                play.store.journal("s0", journal, piece)
    return play


def _outside_of(base, play):
    outside = type(base.outside)()
    outside.effects.update(base.outside.effects)
    outside.receipts.update(base.outside.receipts)
    return outside


_made: list[Play] = []


def _bases():
    if not _made:
        _made.extend(_base(seed) for seed in range(40))
    return _made


def _most_runs(first, last):
    """The largest number of runs of one tool call, and what was seen on the way."""
    most = 0
    seen: Counter[str] = Counter()
    for number in range(first, last):
        case = _Case(number)
        seen += case.run()
        paid = {call: count for call, count in case.play.outside.effects.items() if call[0] == "pay"}
        worst = max(paid.values(), default=0)
        seen["paid"] += len(paid)
        if worst > 1:
            seen["twice"] += 1
            seen[f"case {number}"] += 1
        most = max(most, worst)
    return most, seen


@pytest.mark.parametrize("share", range(SHARES))
def test_a_never_tool_runs_at_most_once_per_call(share):
    """Law 6: 1,000 cases, and no call of a tool that may not be replayed was run twice."""
    each = CASES // SHARES
    most, seen = _most_runs(share * each, (share + 1) * each)
    assert most == 1, seen
    assert not seen["no reason given"]
    assert seen["paid"] > each / 2, seen
    assert seen["reported"] > each / 2, seen
    assert seen["Idle"] > each / 2, seen


def test_control_without_its_rules_the_table_runs_tools_twice(monkeypatch):
    """With the rules of law 6 removed from the table, the same cases find tools that ran twice."""
    # The base sessions are made with all rules, also if this test runs first.
    _bases()
    kept = [row for row in calls.TOOL_CALL_RULES if row.name not in ("call unknown", "call not ours", "call copied")]
    monkeypatch.setattr(calls, "TOOL_CALL_RULES", tuple(kept))
    most, seen = _most_runs(0, 60)
    assert most > 1, seen
