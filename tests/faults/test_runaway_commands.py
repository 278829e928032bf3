"""Commands that leave their process group end with a time limit, a cancel and SIGKILL of the harness (RUN-12, law 6).

GNU `timeout`, job control, `setsid` and double forks once outlived all three: the log said that the command was
stopped, and its effect happened later.
"""

import asyncio
import os
import signal
import subprocess

import pytest

from tests.faults.processes import INTERPRETER, PATIENCE_S, environment
from tests.faults.runaways import RUNAWAYS, Rig, shell_call
from wakelog.tools import supervisor

CONTROL = os.path.join(os.path.dirname(__file__), "killpg_supervisor.py")
LIMITS_S = (2, 8, 32)


@pytest.fixture
def rig(tmp_path, request):
    made = Rig(tmp_path, request.param)
    yield made
    made.close()


every_runaway = pytest.mark.parametrize("rig", RUNAWAYS, indirect=True)


async def _cancelled(rig):
    """Runs a command and cancels it when all of its processes have got away; gives the live output."""
    shown = []
    task = asyncio.create_task(shell_call(rig.folder, rig.command, shown.append))
    assert await asyncio.to_thread(rig.wait_until_away)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return "".join(shown)


# ── the three ways to stop a command ─────────────────────────────────────────────────────────────


@every_runaway
def test_a_cancel_ends_every_process(rig):
    """All are gone when the cancelled call is back, so there is nothing to tell."""
    assert asyncio.run(_cancelled(rig)) == ""
    assert len(set(rig.pids)) == rig.planned
    assert rig.is_gone()
    assert not rig.effect_happens()


@pytest.mark.parametrize("kind", RUNAWAYS)
def test_a_time_limit_ends_every_process(tmp_path, kind):
    """All are gone when the result says that the command was stopped."""

    async def limited(rig, limit_s):
        task = asyncio.create_task(shell_call(rig.folder, rig.command, timeout_s=limit_s))
        applied = await asyncio.to_thread(rig.wait_until_away)
        return applied, await task

    # A limit that strikes before all have got away is no case of this test; then a longer one is tried.
    for limit_s in LIMITS_S:
        folder = tmp_path / str(limit_s)
        folder.mkdir()
        rig = Rig(folder, kind)
        applied, outcome = asyncio.run(limited(rig, limit_s))
        gone, happens = rig.is_gone(), rig.effect_happens()
        rig.close()
        assert (gone, happens) == (True, False)
        assert outcome.text.endswith(f"[stopped: the command took longer than {limit_s} s]")
        if applied:
            break
    assert applied


@every_runaway
def test_sigkill_of_the_harness_ends_every_process(rig):
    words = [INTERPRETER, "-m", "tests.faults.runaways", rig.folder, rig.command]
    with subprocess.Popen(words, env=environment()) as harness:
        assert rig.wait_until_away()
        harness.kill()
    assert harness.returncode == -signal.SIGKILL
    assert rig.wait_until_gone()
    assert not rig.effect_happens()


@every_runaway
def test_control_killing_the_group_is_not_enough(rig, monkeypatch):
    """The rig can fail: with the group alone, each of these commands has its effect after it was stopped."""
    monkeypatch.setattr(supervisor, "__file__", CONTROL)
    asyncio.run(_cancelled(rig))
    assert not rig.is_gone()
    assert rig.effect_happens()


# ── a supervisor that is killed ──────────────────────────────────────────────────────────────────


def _supervisors(number):
    """The outer and the inner process of the supervisor above a process."""
    above = [number]
    while above[-1] != os.getpid():
        above.append(supervisor.look(above[-1]).parent)
    return above[-2], above[-3]


async def _with_killed(rig, choose):
    """Runs a command and kills processes of its supervisor when all others have got away; gives the outcome."""
    task = asyncio.create_task(shell_call(rig.folder, rig.command, timeout_s=PATIENCE_S))
    assert await asyncio.to_thread(rig.wait_until_away)
    for number in choose(*_supervisors(rig.pids[0])):
        os.kill(number, signal.SIGKILL)
    return await task


@every_runaway
def test_the_inner_supervisor_is_killed(rig):
    """The outer one ends every process; how the command ended is not known."""
    outcome = asyncio.run(_with_killed(rig, lambda outer, inner: [inner]))
    assert outcome.text == "[the command's supervisor was killed: how the command ended is not known]"
    assert rig.is_gone()
    assert not rig.effect_happens()


@every_runaway
def test_the_outer_supervisor_is_killed(rig):
    """The inner one ends every process."""
    outcome = asyncio.run(_with_killed(rig, lambda outer, inner: [outer]))
    assert outcome.is_error
    assert rig.is_gone()
    assert not rig.effect_happens()


@pytest.mark.parametrize("rig", ["a group made by timeout", "a group made by job control"], indirect=True)
def test_both_supervisors_are_killed(rig):
    """The command's session is ended from here. Others may be left, and that is told."""
    outcome = asyncio.run(_with_killed(rig, lambda outer, inner: [outer, inner]))
    assert outcome.text.endswith("; processes of the command may still be running]")
    assert rig.wait_until_gone()
    assert not rig.effect_happens()


@pytest.mark.parametrize("rig", ["a session"], indirect=True)
def test_both_supervisors_are_killed_and_a_process_is_out_of_reach(rig):
    """What is not promised: this one runs on. It is named, because it holds the output."""
    outcome = asyncio.run(_with_killed(rig, lambda outer, inner: [outer, inner]))
    assert outcome.text.endswith(f"; processes of the command may still be running: {rig.pids[0]} sh body]")
    assert outcome.is_error
    assert not rig.is_gone()


# ── a command that ends by itself ────────────────────────────────────────────────────────────────


async def _ended(rig):
    """Runs a command that ends when its process has got away; gives the outcome."""
    command = rig.command.removesuffix("wait") + "read line < done"
    os.mkfifo(os.path.join(rig.folder, "done"))
    task = asyncio.create_task(shell_call(rig.folder, command, timeout_s=PATIENCE_S))
    assert await asyncio.to_thread(rig.wait_until_away)
    with open(os.path.join(rig.folder, "done"), "w", encoding="ascii") as file:
        file.write("\n")
    return await task


@pytest.mark.parametrize("rig", ["a session", "a session without output"], indirect=True)
def test_a_session_of_its_own_outlives_a_normal_end_and_is_named(rig):
    outcome = asyncio.run(_ended(rig))
    assert outcome.text == f"[still running after the command ended: {rig.pids[0]} sh body]"
    assert not outcome.is_error
    assert rig.effect_happens()


@pytest.mark.parametrize("rig", ["a timeout in the background"], indirect=True)
def test_a_group_of_its_own_ends_with_a_normal_end(rig):
    """What is left in the command's session ends with the command, in whatever group it is."""
    assert asyncio.run(_ended(rig)).text == "[no output]"
    assert rig.is_gone()
    assert not rig.effect_happens()
