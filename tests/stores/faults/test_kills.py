"""Writers, backends and servers that die in the middle of appends (laws 4 and 12, LOG-10, ST-7).

Acknowledged entries exist. Others may exist or not, without an acknowledgement: they are sent again with the same id,
bytes and place, and stands once. The entries are numbered, so that the whole log is known in advance.
"""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.figures import Figure, store_name
from tests.faults.processes import Child, run
from tests.servers.postgres import Server
from tests.stores.faults.children import MODULE
from tests.stores.faults.logs import Kept, made, numbered, standing
from tests.stores.faults.relay import Loss, relaying

KILLS = 100
CONTROL_KILLS = 10
TERMINATIONS = 30
CRASHES = 6
TRIES_MAX = 20
# What is lost of the first appends, and then again of those behind them: every way to lose one or two in a row.
LOSSES: tuple[tuple[Loss, ...], ...] = (
    (),
    ("answer",),
    ("request", "request"),
    ("answer", "answer"),
    ("request", "answer"),
    ("answer", "request"),
)
LOST_ROUNDS = 5
# About as long as an append takes, so that kills meet every part of one.
APPEND_S = 0.002


def places(lines: list[str]) -> list[Kept]:
    """The acknowledged entries of a writer with their positions."""
    return [(words[1], int(words[2])) for words in map(str.split, lines) if words[0] == "kept"]


def cut_torn_line(url: str) -> None:
    """Cut off a last line without its end, as a kill leaves it where a write crosses two pages of a file.

    How it is kept and reported has tests of its own; here it would take a seq.
    """
    scheme, _, folder = url.partition(":")
    for path in Path(folder).glob("*.jsonl") if scheme == "jsonl" else ():
        whole = path.read_bytes().rpartition(b"\n")[0]
        os.truncate(path, len(whole) + 1)


def check_numbered(url: str, kept: list[Kept]) -> int:
    """Assert that all acknowledged entries exist once in place, and at most one more; return how many more."""
    cut_torn_line(url)
    assert kept == [(numbered(at), at + 1) for at in range(len(kept))]
    found = standing(url, "s")
    assert found[: len(kept)] == kept, "an acknowledged entry is lost"
    assert found[len(kept) :] in ([], [(numbered(len(kept)), len(kept) + 1)])
    return len(found) - len(kept)


def figure(
    rig: str, url: str, planned: int, applied: int, acknowledged: int, lost: int = 0, control: str = ""
) -> Figure:
    """The figures of a log that was checked."""
    checked, found = (acknowledged, "acknowledged appends"), (lost, "lost, there twice or out of place")
    return Figure(rig, store_name(url), planned, applied, checked, found, control)


# ── the writer ───────────────────────────────────────────────────────────────────────────────────


def test_a_killed_writer_loses_no_acknowledged_entry(url, record):
    """Laws 4 and 12: kill -9 at 100 moments; the next writer continues at the first unacknowledged entry."""
    made(url, "s")
    chance, kept, in_doubt, applied = random.Random(KILLS), list[Kept](), 0, 0
    with Child("beget", url, "s", module=MODULE) as parent:
        for _ in range(KILLS):
            parent.tell(f"{len(kept)} {len(kept)}")
            kept += places(killed(parent, chance))
            in_doubt += check_numbered(url, kept)
            applied += 1
    assert in_doubt > 0, "no kill met an append between its place in the log and its acknowledgement"
    assert len(kept) >= KILLS
    record(figure("kill -9 of a writer", url, KILLS, applied, len(kept)))


def test_control_a_writer_that_acknowledges_too_early(url, record):
    """The test above can fail: entries that are reported as acknowledged before they are appended are lost in kills."""
    made(url, "s")
    chance, told, lost, stand = random.Random(KILLS), 0, 0, 0
    with Child("beget_early", url, "s", module=MODULE) as parent:
        for _ in range(CONTROL_KILLS):
            parent.tell(f"{stand} {stand}")
            kept = places(killed(parent, chance))
            cut_torn_line(url)
            before, stand = stand, len(standing(url, "s"))
            told += len(kept)
            lost += before + len(kept) - stand
    record(figure("kill -9 of a writer", url, CONTROL_KILLS, CONTROL_KILLS, told, lost, control="told too early"))


def killed(parent: Child, chance: random.Random) -> list[str]:
    """Kill a writer in the middle of its work; return its output."""
    writer = int(parent.hear().removeprefix("born "))
    said = []
    for _ in range(chance.randint(1, 8)):
        said.append(parent.hear())
        assert said[-1].startswith("kept"), "the writer could not go on"
    until = time.perf_counter() + chance.uniform(0, APPEND_S)
    while time.perf_counter() < until:
        pass
    # It writes until it is killed: a writer that had ended before would make this fail.
    os.kill(writer, signal.SIGKILL)
    return said + list(iter(parent.hear, "ended"))


# ── the server ───────────────────────────────────────────────────────────────────────────────────


class Stubborn:
    """A writer with retries, and its output so far."""

    def __init__(self, url: str) -> None:
        self.url = made(url, "s")
        self.kept: list[Kept] = []
        self.failed: list[list[str]] = []
        self.planned = self.applied = 0

    def during(self, harm: Callable[[], bool], times: int) -> None:
        """Disturb the writer a number of times while it writes, each time after a few more acknowledged entries.

        `harm` says whether it has met anything: the writer may be between two connections. Then it is tried again.
        """
        self.planned = times
        chance = random.Random(times)
        with Child("write_stubbornly", self.url, "s", str(10**6), module=MODULE) as writer:
            for _ in range(TRIES_MAX * times):
                self._hear(writer, chance.randint(5, 30))
                self.applied += harm()
                if self.applied == times:
                    break
            self._hear(writer, 200)
            writer.kill()
            for line in writer.rest():
                self._note(line)

    def check(self) -> Figure:
        """All that was acknowledged stands; gives the figures."""
        check_numbered(self.url, self.kept)
        return figure("backend or server killed", self.url, self.planned, self.applied, len(self.kept))

    def _hear(self, writer: Child, more: int) -> None:
        wanted = len(self.kept) + more
        while len(self.kept) < wanted:
            self._note(writer.hear())

    def _note(self, line: str) -> None:
        word, *rest = line.split(" ", 3)
        assert word in ("kept", "failed"), f"the writer has ended: {line!r}"
        if word == "kept":
            self.kept.append((rest[0], int(rest[1])))
        else:
            self.failed.append(rest)


def test_terminated_backends_lose_no_acknowledged_entry(postgres, postgres_url, record):
    """Law 4: an administrator ends the writer's backends 30 times, and the writer continues."""
    writer = Stubborn(postgres_url)

    def terminate() -> bool:
        found = postgres.backends(postgres_url)
        for pid in found:
            postgres.terminate(pid)
        return bool(found)

    writer.during(terminate, TERMINATIONS)
    record(writer.check())


def test_a_killed_backend_loses_no_acknowledged_entry(own_postgres: Server, record):
    """Laws 4 and 12: kill -9 of the backend makes the server close all connections and recover."""
    url = own_postgres.new_database()
    writer = Stubborn(url)

    def kill() -> bool:
        found = own_postgres.backends(url)
        for pid in found[:1]:
            own_postgres.kill(pid)
            own_postgres.wait()
        return bool(found)

    writer.during(kill, CRASHES)
    record(writer.check())
    assert writer.failed, "no append was under way"


def test_an_immediate_stop_of_the_server_loses_no_acknowledged_entry(own_postgres: Server, record):
    """Laws 4 and 12: an immediate stop is a crash of the server; acknowledged entries are there after the restart."""
    url = own_postgres.new_database()
    writer = Stubborn(url)

    def restart() -> bool:
        before = own_postgres.pid()
        own_postgres.restart(immediate=True)
        return own_postgres.pid() != before

    writer.during(restart, CRASHES)
    record(writer.check())
    assert writer.failed, "no append was under way"


def lost(url: str, kept: list[Kept]) -> int:
    """The number of missing entries that were reported as acknowledged."""
    found = {entry for entry, _ in standing(url, "s")}
    return sum(entry not in found for entry, _ in kept)


def test_control_a_writer_without_retries(own_postgres: Server, record):
    """The tests around this one can fail: entries written during the outage are missing."""
    url = made(own_postgres.new_database(), "s")
    own_postgres.stop(immediate=True)
    is_away = not own_postgres.running()
    done = run("write_carelessly", url, "s", "5", module=MODULE)
    own_postgres.start()
    kept = places(done.stdout.splitlines())
    rig, control = "backend or server killed", "a failed append is told as kept"
    record(figure(rig, url, 1, int(is_away), len(kept), lost(url, kept), control))


def test_a_killed_server_loses_no_acknowledged_entry(own_postgres: Server, record):
    """Laws 4 and 12: kill -9 of the postmaster, which leaves its backends without a parent."""
    url = own_postgres.new_database()
    writer = Stubborn(url)

    def kill() -> bool:
        own_postgres.kill(own_postgres.pid())
        is_gone = not own_postgres.running()
        own_postgres.start()
        return is_gone

    writer.during(kill, CRASHES)
    record(writer.check())
    assert writer.failed, "no append was under way"


# ── the connection ───────────────────────────────────────────────────────────────────────────────


def test_an_append_with_an_unknown_outcome_is_settled_by_its_id(postgres_url, record):
    """Law 4, LOG-10: a lost request and a lost answer look the same; retried by id, each entry exists once.

    The store may try again by itself, so that one loss need not be noticed. Two in a row are told to the caller.
    """
    made(postgres_url, "s")
    losses = {b'"id":"n%d"' % at: loss for at, loss in enumerate(LOSSES * LOST_ROUNDS) if loss}
    with relaying(postgres_url, losses) as relay:
        done = run("write_stubbornly", relay.url, "s", str(len(LOSSES) * LOST_ROUNDS), module=MODULE)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2_000:]
    assert relay.lost == [(word, each) for word, loss in losses.items() for each in loss]
    kept = places(done.stdout.splitlines())
    assert len(kept) == len(LOSSES) * LOST_ROUNDS
    assert check_numbered(postgres_url, kept) == 0
    planned = sum(map(len, losses.values()))
    record(figure("request or answer of an append lost", postgres_url, planned, len(relay.lost), len(kept)))
    check_told(failures(done.stdout))


def test_control_a_lost_request_that_is_reported_as_acknowledged(postgres_url, record):
    """The test above can fail: without retries, entries lost on the way to the server are missing."""
    made(postgres_url, "s")
    losses: dict[bytes, tuple[Loss, ...]] = {b'"id":"n3"': ("request", "request")}
    with relaying(postgres_url, losses) as relay:
        done = run("write_carelessly", relay.url, "s", "6", module=MODULE)
    kept = places(done.stdout.splitlines())
    rig, control = "request or answer of an append lost", "a failed append is told as kept"
    record(figure(rig, postgres_url, 2, len(relay.lost), len(kept), lost(postgres_url, kept), control))


def failures(said: str) -> list[list[str]]:
    """For each failed append: its id, whether the entry existed then, and the error."""
    return [line.split(" ", 3)[1:] for line in said.splitlines() if line.startswith("failed")]


def check_told(failed: list[list[str]]) -> None:
    """Assert that every double loss was reported with a hint, and whether the entry existed is as planned."""
    found = {entry: there for entry, there, _ in failed}
    for at, loss in enumerate(LOSSES * LOST_ROUNDS):
        if loss:
            assert found.get(numbered(at), "stands") == ("stands" if "answer" in loss else "absent")
            assert len(loss) < 2 or numbered(at) in found
        else:
            assert numbered(at) not in found
    for _, _, error in failed:
        check_says_what_to_do(json.loads(error))


def check_says_what_to_do(error: dict[str, str]) -> None:
    """Assert one line that says what happened, and a hint."""
    assert error["error"] in ("StoreError", "Unavailable")
    assert error["message"]
    assert "\n" not in error["message"] + error["hint"]
    assert error["hint"]
