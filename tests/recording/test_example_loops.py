"""ST-10: the example loops survive a kill before every write: nothing acknowledged is lost, nothing is paid twice.

A real SDK talks to a server on loopback; every process is really killed (`tests/recording/sweep.py`).
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import PATIENCE_S, command, environment
from tests.loopback.server import Loopback
from tests.recording.loops import answer

FOLDER = Path(__file__).parent.parent.parent / "examples"
LOOPS = ("08_anthropic_loop.py", "09_openai_loop.py")


def swept(name: str, folder: Path, *, first: int, stride: int) -> list[dict[str, Any]]:
    """Return what came of the points of an example that were tried."""
    with Loopback(answer) as server:
        done = subprocess.run(
            command(str(FOLDER / name), str(folder), str(first), str(stride), module="tests.recording.sweep"),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
            env=environment(
                ANTHROPIC_BASE_URL=server.url,
                OPENAI_BASE_URL=f"{server.url}/v1",
                ANTHROPIC_API_KEY="k",
                OPENAI_API_KEY="k",
                NO_PROXY="127.0.0.1",
            ),
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("name", "first"), [(LOOPS[0], 0), (LOOPS[1], 3)])
def test_killed_before_some_writes(tmp_path, name, first):
    """Laws 4, 6 and 7 for a program's own loop; every write is tried in `make test-faults`."""
    judge(swept(name, tmp_path, first=first, stride=7), at_least=4)


@pytest.mark.faults
@pytest.mark.parametrize("name", LOOPS)
def test_killed_before_every_write(tmp_path, name):
    """Laws 4, 6 and 7 for a program's own loop."""
    judge(swept(name, tmp_path, first=0, stride=1), at_least=30)


def judge(found: list[dict[str, Any]], *, at_least: int) -> None:
    *killed, whole = found
    assert len(killed) >= at_least
    assert (whole["killed"], whole["paid"]) == (False, [1, 1])
    for point in killed:
        assert (point["killed"], point["ended"], point["lost"], point["intact"]) == (True, 0, [], True), point
        assert point["last"].startswith("Done: "), point
        assert_payment_is_told_truly(point)


def assert_payment_is_told_truly(found: dict[str, Any]) -> None:
    """At most one payment, and no result in the log says otherwise."""
    before, after = found["paid"]
    assert after <= 1, found
    assert after >= before, found
    assert not any("Not run" in text for _, _, text in found["results"]), found
    said_ok = [status for name, status, _ in found["results"] if name == "pay" and status == "ok"]
    assert len(said_ok) <= after, found
