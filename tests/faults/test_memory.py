"""LOG-16, ST-8: the memory of commands does not grow with the log: it is read entry by entry, and so is a fork of it.

The peak of each command is measured on a log and on one that is three times as long. Between them the log grows by
25 MB: a command that held it would grow by three times as much, which the control shows.
"""

import os
import subprocess
import sys

import pytest

from bench.made import Words, talk, write_log
from tests.faults.figures import Figure
from tests.faults.processes import environment
from wakelog.forking import fork
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

NAME = "crab_user_1"
MESSAGES = (8_000, 24_000)
GROWTH_MAX_BYTES = 15_000_000
RIG, CHECKED, FOUND = "log three times as long", "commands", "that held it in memory"
COMMANDS = {
    "ls": ("ls",),
    "verify": ("verify", NAME),
    "verify a fork": ("verify", "FORK"),
    "doctor": ("doctor", NAME),
    "salvage": ("doctor", NAME, "--salvage", "OUT"),
    "export": ("export", NAME, "-o", "OUT"),
    "export a fork": ("export", "FORK", "-o", "OUT"),
    "export md": ("export", NAME, "-f", "md", "-o", "OUT"),
    "export md of a fork": ("export", "FORK", "-f", "md", "-o", "OUT"),
    "export md at an entry": ("export", NAME, "-f", "md", "--at", "7000", "-o", "OUT"),
    "export json": ("export", NAME, "-f", "json", "-o", "OUT"),
    "copy": ("copy", NAME, "--to", "OUT"),
    "audit": ("audit", NAME, "--context"),
    "audit a fork": ("audit", "FORK", "--json"),
}
# These cover the steps of all commands; the other commands run in `make test-faults`.
SHORT = ("ls", "verify a fork", "export a fork", "export md of a fork", "audit a fork")
COMMAND = "import sys; from wakelog.cli import main; sys.exit(main())"
# Reads a session as a whole.
READ_WHOLE = "import sys; from wakelog.reading import read_log; from wakelog.stores import open_store; "
READ_WHOLE += f"read_log(open_store(sys.argv[2]), {NAME!r})"
# A child starts with the peak memory of its parent, so a small process starts the program.
START = """
import os, sys
child = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss * 1024, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Two stores with a log and a fork of it; the logs of the second are three times as long."""
    made = []
    for messages in MESSAGES:
        folder = str(tmp_path_factory.mktemp("store"))
        write_log(folder, NAME, talk("bench-1", Words(), messages=messages, size=1_000))
        made.append((folder, fork(Session(JsonlStore(folder), NAME)).name))
    return made


def peak_of(place, program, store, words=()):
    """The peak memory of a program."""
    command = [sys.executable, "-c", START, "-c", program, "--store", store, *words]
    variables = environment(XDG_CACHE_HOME=str(place / "cache"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1])


def growth(tmp_path, stores, program, words=()):
    """How much more memory a program took for the longer log."""
    peaks = []
    for store, forked in stores:
        place = tmp_path / os.path.basename(store)
        place.mkdir()
        named = {"FORK": forked, "OUT": str(place / "out")}
        peaks.append(peak_of(place, program, store, [named.get(word, word) for word in words]))
    return peaks[1] - peaks[0]


def figure(growth_bytes, control=""):
    held = int(growth_bytes > GROWTH_MAX_BYTES)
    return Figure(RIG, "files", 1, 1, (1, CHECKED), (held, FOUND), control)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=name, marks=() if name in SHORT else pytest.mark.faults)
        for name, words in COMMANDS.items()
    ],
)
def test_a_longer_log_takes_no_more_memory(tmp_path, stores, words, record):
    """For every command that reads a log."""
    found = growth(tmp_path, stores, COMMAND, words)
    assert found < GROWTH_MAX_BYTES, f"{found / 1e6:.0f} MB more"
    record(figure(found))


def test_control_holding_a_whole_log_takes_more_memory(tmp_path, stores, record):
    """The test above can fail."""
    found = growth(tmp_path, stores, READ_WHOLE)
    assert found > GROWTH_MAX_BYTES
    record(figure(found, control="the log is read as a whole"))
