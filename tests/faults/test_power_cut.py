"""Law 4: after a refused write and a power cut, entries acknowledged after the error are there as well.

The device refuses the n-th write for every n; see `power_rig.py`. The short form without a device, for every run of the
suite, is in `test_doubt.py`.
"""

import json
import os
import shutil
import subprocess
from typing import Any

import pytest

from tests.faults.figures import Figure, store_name
from tests.faults.power_rig import ENTRIES
from tests.faults.processes import command, environment

pytestmark = [pytest.mark.faults, pytest.mark.slow]

# A limit that only ends a sweep that hangs; a sweep on a busy machine takes less.
RUNS_S = 1_800


def missing() -> str:
    """The requirements of the rig that this machine lacks, in one line; empty if it lacks nothing."""
    if os.geteuid() != 0:
        return "needs root, to mount a file system"
    tools = [tool for tool in ("unshare", "mount", "umount", "mkfs.ext4", "debugfs") if shutil.which(tool) is None]
    if tools:
        return f"needs {', '.join(tools)}"
    devices = [path for path in ("/dev/fuse", "/dev/loop-control") if not os.path.exists(path)]
    return f"needs {', '.join(devices)}" if devices else ""


def runs(*words: str) -> list[dict[str, Any]]:
    """One run for each n; every run but the last met at least one fault."""
    if reason := missing():
        pytest.skip(reason)
    rig = command(*words, module="tests.faults.power_rig")
    done = subprocess.run(
        ["unshare", "--mount", *rig], capture_output=True, text=True, timeout=RUNS_S, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [run["n"] for run in found] == list(range(1, len(found) + 1))
    planned = [1] * (len(found) - 1) + [0]
    applied = [run["refused"] if "once" in words else min(run["refused"], 1) for run in found]
    assert applied == planned
    assert len(found) > 10
    assert not found[-1]["failures"]
    return found


def figure(store: str, found: list[dict[str, Any]], control: str = "") -> Figure:
    """The figures of one sweep: every run but the last was to have a fault."""
    applied = sum(bool(run["refused"]) for run in found)
    acknowledged = (sum(run["later"] for run in found), "appends acknowledged after the refused write")
    lost = (sum(bool(run["lost"]) for run in found), "power cuts that lost some")
    rig, planned = "power cut after the n-th write was refused", len(found) - 1
    return Figure(rig, store_name(store), planned, applied, acknowledged, lost, control)


@pytest.mark.parametrize("way", ["same", "other"])
@pytest.mark.parametrize("fault", ["once", "always", "data"])
@pytest.mark.parametrize("store", ["files", "sqlite"])
def test_entries_acknowledged_after_a_refused_write_survive_a_power_cut(store, fault, way, record):
    """Law 4: no acknowledged entry and no blob is missing after a cut at the next acknowledgement, nor at the end.

    A file system that has become read-only acknowledges nothing. In all other runs the second writer gets everything
    acknowledged, and there are some unless the journal of the file system is refused for long.
    """
    found = runs(store, fault, way)
    record(figure(store, found))
    assert [run["lost"] for run in found if run["lost"]] == []
    made_good = [run["later"] for run in found if run["failures"] and not run["read_only"]]
    assert made_good == [ENTRIES] * len(made_good)
    assert len(made_good) >= 3 or fault == "always"


@pytest.mark.parametrize("store", ["files", "sqlite"])
def test_control_without_the_rewrite_acknowledged_entries_are_lost(store, record):
    """The rig finds the losses that the rewrite prevents."""
    found = runs(store, "once", "same", "broken")
    record(figure(store, found, control="nothing is written again"))
    assert sum(bool(run["lost"]) for run in found) > 3
