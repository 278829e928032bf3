"""A test run does not depend on how its shell was started: children begin with default signals."""

import subprocess

from tests.faults.processes import INTERPRETER, environment
from tests.signals import INHERITED

RUN = """
import signal, subprocess, sys
from tests.signals import INHERITED, let_children_begin_with_defaults
for number in INHERITED:
    signal.signal(number, signal.SIG_IGN)
let_children_begin_with_defaults()
for number in INHERITED:
    if number is not signal.SIGINT:
        signal.raise_signal(number)
script = f"import signal; print([n for n in {[*map(int, INHERITED)]} if signal.getsignal(n) is signal.SIG_IGN])"
print(subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True).stdout, end="")
"""


def test_a_run_with_ignored_signals_has_children_with_defaults():
    """As under `nohup … &`: the run itself still ignores SIGHUP, SIGQUIT and SIGTERM."""
    done = subprocess.run([INTERPRETER, "-c", RUN], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_this_run_has_children_with_defaults():
    """However pytest was started, a child is ended by SIGINT and SIGQUIT."""
    with open("/proc/self/status", encoding="ascii") as file:
        ignored = next(int(line.split()[1], 16) for line in file if line.startswith("SigIgn"))
    assert [number.name for number in INHERITED if ignored >> (number - 1) & 1] == []
