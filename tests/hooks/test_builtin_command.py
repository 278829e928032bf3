"""VIEW-7: a program of the user before each run: its output, and its failures."""

import asyncio
import os
import select
import sys

import pytest

from tests.patience import PATIENCE_S
from wakelog.decide.policy import HookSettings
from wakelog.errors import Damaged
from wakelog.hooks.builtin import CommandHook
from wakelog.ports.runtime import HookContext


def ran(code, *, cwd="", timeout_s=PATIENCE_S, prompt="Hi."):
    hook = CommandHook("own", [sys.executable, "-c", code], timeout_s)
    return asyncio.run(hook.before_run(HookContext("crab_user_1", "u1", "crab", "me", str(cwd), prompt, 0)))


def test_the_program_gets_the_run_in_its_environment(tmp_path):
    """Its working directory is the session's, and its stdin is empty."""
    code = (
        "import os, sys; print(os.getcwd(), sys.stdin.read() == '',"
        " *(os.environ['WAKELOG_' + k] for k in ('SESSION', 'AGENT', 'SENDER', 'PROMPT')))"
    )
    assert ran(code, cwd=tmp_path, prompt="Say\0it") == f"{tmp_path} True crab_user_1 crab me Say it"


def test_a_prompt_of_any_length():
    """A variable is bounded in bytes, not characters: the program is started with any prompt."""
    told = ran("import os; print(len(os.environb[b'WAKELOG_PROMPT']))", prompt="\N{GRINNING FACE}" * 40_000)
    assert told == str(32 * 1024)


def test_too_much_output_is_cut():
    """The output is bounded, and the model is told that there was more."""
    text = ran("print('é' * 100_000)")
    assert len(text.encode()) < 33_000
    assert text.endswith("[cut off after 32,768 bytes]")


@pytest.mark.parametrize(
    ("code", "why"), [("raise SystemExit(3)", "ended with 3"), ("import time; time.sleep(99)", "0.5 s")]
)
def test_a_failure_is_an_error(code, why):
    """The hook raises; the runtime makes it a line for the model."""
    with pytest.raises((RuntimeError, TimeoutError), match=why):
        ran(code, timeout_s=0.5 if "sleep" in code else 120.0)


def test_no_process_is_left():
    """Processes that the program started end with it."""
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'], stdout=subprocess.DEVNULL)\n"
        "print(child.pid)"
    )
    assert has_ended(int(ran(code)))


def has_ended(pid):
    """Wait until a process has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with open(process, closefd=True) as ending:
        poll = select.poll()
        poll.register(ending, select.POLLIN)
        return bool(poll.poll(120_000))


def test_a_hook_is_opened_from_the_log():
    """RUN-19: from its settings in the log; unreadable settings are damage."""
    terms = HookSettings(name="own", options={"command": ["true"], "timeoutS": 3})
    assert CommandHook.from_settings(terms).name == "own"
    with pytest.raises(Damaged, match="own"):
        CommandHook.from_settings(HookSettings(name="own", options={"command": "true"}))
