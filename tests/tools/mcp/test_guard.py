"""RUN-7: the guard ends a server together with the process that started it, however that process ends."""

import os
import signal
import subprocess

import pytest

from tests.faults.processes import INTERPRETER, environment
from tests.patience import PATIENCE_S
from tests.tools.test_commands_shell import Watched
from wakelog.tools.mcp import guard

# Prints the numbers of the server and of a child of it, and stays whatever happens to its input.
FAMILY = "sleep 1000 & echo $$ $!; wait"
DEAF_FAMILY = f"trap '' TERM; {FAMILY}; while :; do sleep 1000; done"


def _words(*command, parent=None):
    return [INTERPRETER, "-I", "-S", guard.__file__, str(parent or os.getpid()), *command]


def _guarded(*command, parent=None):
    pipe = subprocess.PIPE
    return subprocess.Popen(_words(*command, parent=parent), stdin=pipe, stdout=pipe, stderr=pipe)


def _heard(*command, said=b""):
    with _guarded(*command) as guarding:
        return guarding.communicate(said, timeout=PATIENCE_S)


def test_it_passes_input_and_output():
    assert _heard("cat", said=b"one\ntwo") == (b"one\ntwo", b"[exit status 0]\n")
    size = 3_000_000
    output, _ = _heard("sh", "-c", f"head -c {size} /dev/zero | tr '\\0' '\\n'")
    assert output == b"\n" * size


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("echo why >&2; exit 3", b"why\n[exit status 3]\n"),
        ("kill -9 $$", b"[killed by signal 9]\n"),
        ("exec >&-; sleep 1000", b"[ended: it closed its output]\n"),
    ],
)
def test_its_last_line_says_how_the_server_ended(command, error):
    assert _heard("sh", "-c", command) == (b"", error)


def test_a_command_that_cannot_be_started():
    assert _heard("no-such-program") == (b"", b"cannot start no-such-program: No such file or directory\n")


def test_a_line_without_end():
    output, error = _heard("sh", "-c", "yes | tr -d '\\n'")
    assert len(output) <= guard.LINE_BYTES
    assert error == f"[ended: it sent a message of more than {guard.LINE_BYTES:,} bytes]\n".encode()


@pytest.mark.parametrize("family", [FAMILY, DEAF_FAMILY], ids=["kind", "deaf"])
def test_sigterm_ends_the_whole_group(family):
    """With SIGKILL if needed."""
    with _guarded("sh", "-c", family) as guarding:
        watched = Watched([int(word) for word in guarding.stdout.readline().split()])
        guarding.send_signal(signal.SIGTERM)
        assert watched.all_end()
        assert guarding.wait(PATIENCE_S) == 0


def test_child_processes_of_a_server_end_with_it():
    with _guarded("sh", "-c", "sleep 1000 & echo $!; read line") as guarding:
        watched = Watched([int(guarding.stdout.readline())])
        guarding.stdin.close()
        assert watched.all_end()


@pytest.mark.parametrize("family", [FAMILY, DEAF_FAMILY], ids=["kind", "deaf"])
def test_the_parent_is_killed(family):
    """The guard notices also SIGKILL of its parent."""
    program = (
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-I', '-S', sys.argv[1], str(os.getpid()), 'sh', '-c', sys.argv[2]],"
        " stdin=open('/dev/zero'))\n"
        "time.sleep(1000)"
    )
    words = [INTERPRETER, "-c", program, guard.__file__, family]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment()) as parent:
        numbers = [int(word) for word in parent.stdout.readline().split()]
        watched = Watched(numbers)
        parent.kill()
        ended = watched.all_end()
    if not ended:
        # A guard that does not see it would be here for ever.
        os.killpg(numbers[0], signal.SIGKILL)
    assert ended


@pytest.mark.parametrize("family", [FAMILY, DEAF_FAMILY], ids=["kind", "deaf"])
def test_the_guard_is_killed(family):
    """RUN-7: SIGKILL of the guard and its group ends the server all the same."""
    words = _words("sh", "-c", family)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as guarding:
        watched = Watched([int(word) for word in guarding.stdout.readline().split()])
        os.killpg(guarding.pid, signal.SIGKILL)
        assert watched.all_end()


def test_nothing_is_started_if_the_parent_has_ended():
    """RUN-7: a server without a client is not started."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with _guarded("echo", "started", parent=gone.pid) as guarding:
        assert guarding.communicate(timeout=PATIENCE_S) == (b"", b"")
