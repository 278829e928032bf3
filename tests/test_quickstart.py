"""The README's quick start: an agent with its own tool, a run, a kill, a wake, a fork, in under fifteen lines."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()
PROGRAM = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[0]


def started(folder, program=PROGRAM):
    """Run the program as a reader would."""
    places = {"XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    words = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(words, cwd=folder, env=os.environ | places, capture_output=True, text=True, check=False)


def test_it_is_short():
    code = [line for line in PROGRAM.splitlines() if line and not line.startswith("#")]
    assert len(code) < 15


def test_it_is_killed_and_wakes(tmp_path):
    """RUN-2, law 6: the same program twice; a started tool is not started again, and its outcome is unknown."""
    killed = started(tmp_path)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "")
    woken = started(tmp_path)
    assert woken.stderr == ""
    assert woken.stdout == re.findall(r"^# (.*)$", PROGRAM, re.MULTILINE)[-1] + "\n"
    log = (tmp_path / "sessions" / "agent_user_1.jsonl").read_text()
    assert log.count('"type":"tool_started"') == 1


def test_without_the_kill_it_runs_and_forks(tmp_path):
    """The first change a reader makes: without the kill it runs, wakes at once, and forks."""
    program = PROGRAM.replace("    os.kill(os.getpid(), 9)  # the process dies in the middle of it\n", "")
    assert program != PROGRAM
    done = started(tmp_path, program)
    assert (done.stderr, done.stdout) == ("", "idle ['ok'] agent_user_2\n")
