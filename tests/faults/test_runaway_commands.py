"""RUN-12, law 6: commands that leave their process group end with a time limit, a cancel and SIGKILL of the worker.

GNU `timeout`, job control, `setsid` and double forks once outlived all three: the log said that the command was
stopped, and its effect happened later.
"""

import asyncio
import os
import signal
import subprocess

import pytest

from tests.faults.figures import Figure
from tests.faults.processes import INTERPRETER, PATIENCE_S, environment
from tests.faults.runaways import COMET, RUNAWAYS, SESSION, Rig, begin_session, go_on, shell_call, store_of
from wakelog.hooks.builtin import CommandHook
from wakelog.log.content import ToolResult
from wakelog.log.entry import Message
from wakelog.ports.runtime import HookContext
from wakelog.processes import supervisor
from wakelog.reading import read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.user_actions import request_cancel
from wakelog.runtime.wake import wake
from wakelog.tools.mcp import guard

CONTROL = os.path.join(os.path.dirname(__file__), "killpg_supervisor.py")
LIMITS_S = (1, 4, 16, 64)
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.fixture
def rig(tmp_path, request):
    made = Rig(tmp_path, request.param)
    yield made
    made.close()


# A command that stops the inner and the outer process of its supervisor, and runs on.
STOPPING = "kill -STOP $(cut -d' ' -f4 /proc/$PPID/stat) $PPID; . ./body"
every_runaway = pytest.mark.parametrize("rig", RUNAWAYS, indirect=True)


def figure(rig, control=""):
    """The figures of a stopped command, after the gate was opened for any process that is left."""
    applied, happens = len(set(rig.pids)), rig.effect_happens()
    stopped, found = (applied, "processes"), (int(happens), "commands with a later effect")
    return Figure("command whose processes leave its group", "-", rig.planned, applied, stopped, found, control)


async def _cancelled(rig):
    """Run a command and cancel it when all of its processes have left the group; return the live output."""
    shown: list[str] = []
    task = asyncio.create_task(shell_call(rig.folder, rig.command, shown.append))
    assert await asyncio.to_thread(rig.wait_until_away)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return "".join(shown)


# ── the three ways to stop a command ─────────────────────────────────────────────────────────────


@every_runaway
def test_a_cancel_ends_every_process(rig, record):
    """RUN-12: all have ended when the cancelled call returns, so nothing is reported."""
    assert asyncio.run(_cancelled(rig)) == ""
    assert len(set(rig.pids)) == rig.planned
    assert rig.is_gone()
    record(figure(rig))


def _limited(tmp_path, kind):
    """Run a command that is stopped by its time limit; return the rig, the outcome and the limit.

    A limit that strikes before all processes have got away is no case of these tests: a longer one is tried then.
    """
    for limit_s in LIMITS_S:
        folder = tmp_path / str(limit_s)
        folder.mkdir()
        rig = Rig(folder, kind)
        applied, outcome = asyncio.run(_with_limit(rig, limit_s))
        if applied:
            return rig, outcome, limit_s
        rig.close()
    raise AssertionError(f"no command got away within {limit_s} s")


async def _with_limit(rig, limit_s):
    waiting = asyncio.create_task(asyncio.to_thread(rig.wait_until_away))
    outcome = await shell_call(rig.folder, rig.command, timeout_s=limit_s)
    rig.is_over = True
    return await waiting, outcome


@pytest.mark.parametrize("kind", RUNAWAYS)
def test_a_time_limit_ends_every_process(tmp_path, kind, record):
    """All have ended when the result says that the command was stopped."""
    rig, outcome, limit_s = _limited(tmp_path, kind)
    gone, found = rig.is_gone(), figure(rig)
    rig.close()
    assert outcome.text == f"[stopped: the command took longer than {limit_s} s]"
    assert gone
    record(found)


@every_runaway
def test_sigkill_of_the_worker_ends_every_process(rig, record):
    """Law 6: the log says that the outcome is unknown, and the effect does not happen later."""
    begin_session(rig)
    with subprocess.Popen([INTERPRETER, "-m", "tests.faults.runaways", rig.folder], env=environment()) as worker:
        assert rig.wait_until_away()
        worker.kill()
    assert worker.returncode == -signal.SIGKILL
    assert rig.wait_until_gone()
    go_on(rig.folder)
    assert [result.status for result in _results(rig)] == ["unknown"]
    record(figure(rig))


@pytest.mark.parametrize("rig", ["a group made by timeout"], indirect=True)
def test_a_cancel_of_the_turn_ends_every_process(rig, record):
    """RUN-12: the same through the log, with a worker in a process of its own."""
    session = begin_session(rig)
    with subprocess.Popen([INTERPRETER, "-m", "tests.faults.runaways", rig.folder], env=environment()) as worker:
        assert rig.wait_until_away()
        request_cancel(session)
        assert worker.wait(PATIENCE_S) == 0
    assert rig.is_gone()
    assert [result.status for result in _results(rig)] == ["interrupted"]
    record(figure(rig))


def _results(rig):
    values = [entry.value for entry in read_log(store_of(rig.folder), SESSION).entries]
    said = [value.message for value in values if isinstance(value, Message)]
    return [message for message in said if isinstance(message, ToolResult)]


@every_runaway
def test_control_killing_the_group_is_not_enough(rig, monkeypatch, record):
    """The rig can fail: where only the group is killed, each of these commands has its effect after it was stopped."""
    monkeypatch.setattr(supervisor, "__file__", CONTROL)
    asyncio.run(_cancelled(rig))
    assert not rig.is_gone()
    record(figure(rig, control="only the group is killed"))


# ── what cannot be stopped ───────────────────────────────────────────────────────────────────────


def _changed(tmp_path, monkeypatch, old, new):
    """Run commands under a supervisor with another source text."""
    with open(supervisor.__file__, encoding="utf-8") as file:
        text = file.read()
    assert old in text
    changed = tmp_path / "changed_supervisor.py"
    changed.write_text(text.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(supervisor, "__file__", str(changed))


def test_a_process_that_survives_a_time_limit_is_named(tmp_path, monkeypatch):
    """A process that SIGKILL does not end (here: it gets none) is named in the result."""
    _changed(tmp_path, monkeypatch, "KILL_S = 10.0", "KILL_S = 0.0")
    rig, outcome, _ = _limited(tmp_path, "a session that ignores SIGTERM")
    happens = rig.effect_happens()
    rig.close()
    told = f"stopping the command did not work: it may still be running: {rig.pids[0]} sh deaf"
    assert (outcome.text, outcome.is_error, happens) == (f"[{told}]", True, True)


@pytest.mark.parametrize("rig", ["a session that ignores SIGTERM"], indirect=True)
def test_a_process_that_survives_a_cancel_is_named_in_the_log(rig, tmp_path, monkeypatch):
    """The call has no outcome then: the live output names it, and the result quotes that."""
    _changed(tmp_path, monkeypatch, "KILL_S = 10.0", "KILL_S = 0.0")
    session = begin_session(rig)

    async def main():
        waking = asyncio.create_task(wake(LiveRuntime(store_of(rig.folder)), SESSION))
        assert await asyncio.to_thread(rig.wait_until_away)
        request_cancel(session)
        await waking

    asyncio.run(main())
    (result,) = _results(rig)
    assert result.status == "interrupted"
    assert f"[stopping the command did not work: it may still be running: {rig.pids[0]} sh deaf]" in result.text
    assert rig.effect_happens()


@pytest.mark.parametrize("rig", ["a session"], indirect=True)
def test_without_proc_the_result_says_that_processes_may_be_left(rig, tmp_path, monkeypatch):
    """The kernel reports without /proc that a child is left; which one is not known."""
    _changed(tmp_path, monkeypatch, '"/proc', '"/no-proc')
    _changed(tmp_path, monkeypatch, "KILL_S = 10.0", "KILL_S = 0.5")
    assert asyncio.run(_cancelled(rig)) == "\n[stopping the command did not work: it may still be running]\n"
    assert rig.effect_happens()


@pytest.mark.parametrize("rig", [COMET], indirect=True, ids=["comet"])
def test_a_process_that_forks_and_exits_all_the_time(rig):
    """It is ended, or reported."""
    shown = asyncio.run(_cancelled(rig))
    assert rig.is_gone() or "it may still be running" in shown


# ── a supervisor that is killed ──────────────────────────────────────────────────────────────────


def _supervisors(number, above=None):
    """The outer and the inner supervisor process of a process."""
    found = [number]
    while found[-1] != (above or os.getpid()):
        found.append(supervisor.read_process(found[-1]).parent)
    return found[-2], found[-3]


async def _with_killed(rig, choose):
    """Run a command and kill processes of its supervisor when all others have left the group; return the outcome."""
    task = asyncio.create_task(shell_call(rig.folder, rig.command, timeout_s=PATIENCE_S))
    assert await asyncio.to_thread(rig.wait_until_away)
    _kill_together(choose(*_supervisors(rig.pids[0])))
    return await task


def _kill_together(numbers):
    """Kill processes so that none of them can react to the death of another: all are stopped first."""
    for number in numbers:
        os.kill(number, signal.SIGSTOP)
    for number in numbers:
        while (process := supervisor.read_process(number)) is not None and process.runs:
            os.sched_yield()
    for number in numbers:
        os.kill(number, signal.SIGKILL)


@every_runaway
def test_the_inner_supervisor_is_killed(rig, record):
    """The outer one ends every process; how the command ended is not known."""
    outcome = asyncio.run(_with_killed(rig, lambda outer, inner: [inner]))
    assert outcome.text == "[the command's supervisor was killed: how the command ended is not known]"
    assert rig.is_gone()
    record(figure(rig))


@every_runaway
def test_the_outer_supervisor_is_killed(rig, record):
    """The inner one ends every process, without a time limit or a cancel."""
    outcome = asyncio.run(_with_killed(rig, lambda outer, inner: [outer]))
    assert outcome.text.startswith("[killed by signal ")
    assert rig.is_gone()
    record(figure(rig))


@pytest.mark.parametrize("rig", ["a group made by timeout", "a group made by job control"], indirect=True)
def test_both_supervisors_are_killed(rig, record):
    """The worker ends the command's session. Other processes may be left, and that is reported."""
    outcome = asyncio.run(_with_killed(rig, lambda outer, inner: [outer, inner]))
    assert outcome.text.endswith("; processes of the command may still be running]")
    assert rig.wait_until_gone()
    record(figure(rig))


@pytest.mark.parametrize("rig", ["a session"], indirect=True)
def test_both_supervisors_are_killed_and_a_process_is_out_of_reach(rig):
    """Not promised: this process runs on. It is named, because it holds the output."""
    outcome = asyncio.run(_with_killed(rig, lambda outer, inner: [outer, inner]))
    assert outcome.text.endswith(f"; processes of the command may still be running: {rig.pids[0]} sh body]")
    assert outcome.is_error
    assert not rig.is_gone()


@pytest.mark.parametrize("rig", [STOPPING], indirect=True, ids=["stopped supervisors"])
def test_the_command_stops_its_supervisors(rig, record):
    """A cancel continues them: it neither hangs nor leaves a process."""
    assert asyncio.run(_cancelled(rig)) == ""
    assert rig.is_gone()
    record(figure(rig))


@pytest.mark.parametrize("rig", ["exec sh body"], indirect=True)
def test_the_worker_and_both_supervisors_are_killed_at_once(rig, record):
    """The kernel kills the command's first process with its parent. For others nothing is promised."""
    begin_session(rig)
    with subprocess.Popen([INTERPRETER, "-m", "tests.faults.runaways", rig.folder], env=environment()) as worker:
        assert rig.wait_until_away()
        supervisors = _supervisors(rig.pids[0], above=worker.pid)
        _kill_together((*supervisors, worker.pid))
    assert rig.wait_until_gone()
    record(figure(rig))


# ── a command that ends by itself ────────────────────────────────────────────────────────────────


async def _ended(rig):
    """Run a command that ends when its process has left the group; return the outcome."""
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


@pytest.mark.parametrize("rig", ["setsid sh body $(cat secret) & wait"], indirect=True, ids=["a secret"])
def test_the_names_of_processes_are_redacted(rig):
    """LOG-13: a command line may hold a secret."""
    rig.command = rig.command.removesuffix("wait") + "read line < done"
    os.mkfifo(os.path.join(rig.folder, "done"))
    with open(os.path.join(rig.folder, "secret"), "w", encoding="ascii") as file:
        file.write(SECRET)
    begin_session(rig)

    async def main():
        waking = asyncio.create_task(wake(LiveRuntime(store_of(rig.folder)), SESSION))
        assert await asyncio.to_thread(rig.wait_until_away)
        with open(os.path.join(rig.folder, "done"), "w", encoding="ascii") as file:
            file.write("\n")
        await waking

    asyncio.run(main())
    (result,) = _results(rig)
    assert f"[still running after the command ended: {rig.pids[0]} sh body " in result.text
    assert SECRET not in result.text


@pytest.mark.parametrize("rig", ["a timeout in the background"], indirect=True)
def test_a_group_of_its_own_ends_with_a_normal_end(rig, record):
    """Processes in the command's session end with the command, in whatever group they are."""
    assert asyncio.run(_ended(rig)).text == "[no output]"
    assert rig.is_gone()
    record(figure(rig))


# ── hooks ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rig", ["a group made by job control", "a session"], indirect=True)
def test_a_cancel_ends_every_process_of_a_hook(rig, record):
    hook = CommandHook("own", ["/bin/sh", "-c", rig.command], PATIENCE_S)

    async def main():
        task = asyncio.create_task(hook.before_run(HookContext("s", "u", "crab", "me", rig.folder, "Hi.", 0)))
        assert await asyncio.to_thread(rig.wait_until_away)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert rig.is_gone()
    record(figure(rig))


# ── servers ──────────────────────────────────────────────────────────────────────────────────────

some_runaways = pytest.mark.parametrize("rig", [*RUNAWAYS][2:4] + [*RUNAWAYS][-2:], indirect=True)
GUARD = [INTERPRETER, "-I", "-S", guard.__file__]
# Starts a guard and waits for its own end.
PARENT = "import os, subprocess, sys; subprocess.run([*sys.argv[1:5], str(os.getpid()), *sys.argv[5:]])"


def _guarded(rig):
    words = [*GUARD, str(os.getpid()), "sh", "-c", rig.command]
    return subprocess.Popen(words, cwd=rig.folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE)


@some_runaways
def test_sigterm_for_the_guard_of_a_server_ends_every_process(rig, record):
    """RUN-7: all have ended when the guard has ended."""
    with _guarded(rig) as guarding:
        assert rig.wait_until_away()
        guarding.send_signal(signal.SIGTERM)
        assert guarding.communicate(timeout=PATIENCE_S)[1] == b"[ended]\n"
    assert rig.is_gone()
    record(figure(rig))


@some_runaways
def test_sigkill_for_the_guard_of_a_server_ends_every_process(rig, record):
    with _guarded(rig) as guarding:
        assert rig.wait_until_away()
        guarding.kill()
        assert rig.wait_until_gone()
    record(figure(rig))


@some_runaways
def test_sigkill_of_the_parent_of_a_server_ends_every_process(rig, record):
    words = [INTERPRETER, "-c", PARENT, *GUARD, "sh", "-c", rig.command]
    with subprocess.Popen(
        words, cwd=rig.folder, env=environment(), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        assert rig.wait_until_away()
        parent.kill()
        assert rig.wait_until_gone()
    record(figure(rig))
