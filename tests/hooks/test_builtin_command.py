"""VIEW-7: a program of one's own before each run: what it prints, and everything that can go wrong with it."""

import asyncio
import os
import select
import sys

import pytest

from wakelog.decide.policy import HookSettings
from wakelog.errors import Damaged
from wakelog.hooks.builtin import CommandHook
from wakelog.ports.runtime import HookContext


def ran(code, *, cwd="", timeout_s=120.0, prompt="Hi."):
    hook = CommandHook("own", [sys.executable, "-c", code], timeout_s)
    return asyncio.run(hook.before_run(HookContext("crab_user_1", "u1", "crab", "me", str(cwd), prompt, 0)))


def test_it_is_told_of_the_run(tmp_path):
    """The run is in its environment, its folder is the session's, and nothing comes in."""
    code = (
        "import os, sys; print(os.getcwd(), sys.stdin.read() == '',"
        " *(os.environ['WAKELOG_' + k] for k in ('SESSION', 'AGENT', 'SENDER', 'PROMPT')))"
    )
    assert ran(code, cwd=tmp_path, prompt="Say\0it") == f"{tmp_path} True crab_user_1 crab me Say it"


def test_a_prompt_of_any_length():
    """A variable is bounded in bytes, and signs are not bytes: a program is started whatever was said."""
    told = ran("import os; print(len(os.environb[b'WAKELOG_PROMPT']))", prompt="\N{GRINNING FACE}" * 40_000)
    assert told == str(32 * 1024)


def test_too_much_is_cut_off():
    """A bound on everything: the model is told that there was more."""
    text = ran("print('é' * 100_000)")
    assert len(text.encode()) < 33_000
    assert text.endswith("[cut off after 32,768 bytes]")


@pytest.mark.parametrize(
    ("code", "why"), [("raise SystemExit(3)", "ended with 3"), ("import time; time.sleep(99)", "0.5 s")]
)
def test_what_fails_says_so(code, why):
    """Rule 3 of the room: the failure is an error here, and a line for the model where hooks are asked."""
    with pytest.raises((RuntimeError, TimeoutError), match=why):
        ran(code, timeout_s=0.5 if "sleep" in code else 120.0)


def test_nothing_is_left_behind():
    """What the program has started dies with it."""
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'], stdout=subprocess.DEVNULL)\n"
        "print(child.pid)"
    )
    assert has_ended(int(ran(code)))


def has_ended(pid):
    """Waits for a process to end; the kernel says when."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with open(process, closefd=True) as ending:
        poll = select.poll()
        poll.register(ending, select.POLLIN)
        return bool(poll.poll(120_000))


def test_from_the_log():
    """RUN-19: made anew from what the log says; what cannot be read is said to be damaged."""
    terms = HookSettings(name="own", options={"command": ["true"], "timeoutS": 3})
    assert CommandHook.from_settings(terms).name == "own"
    with pytest.raises(Damaged, match="own"):
        CommandHook.from_settings(HookSettings(name="own", options={"command": "true"}))
