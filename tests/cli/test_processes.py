"""Behaviour that only a real process has: the modules it loads, its exit, and following a log."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S
from wakelog.version import VERSION


def modules(shell, *words):
    """Return the modules that a command has loaded when it ends."""
    program = (
        "import sys, atexit\n"
        "sys.argv[0] = 'wakelog'\n"
        "atexit.register(lambda: sys.stderr.write('\\n'.join(sorted(sys.modules))))\n"
        "from wakelog.__main__ import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    return set(done.stderr.split("\n"))


def test_the_version_loads_few_modules(shell):
    """Start-up time: `--version` costs little more than Python itself."""
    for flag in ("--version", "-V"):
        assert shell.process(flag).out == f"wakelog {VERSION}\n"
    assert not modules(shell, "--version") & {"click", "msgspec", "sqlite3", "typing", "wakelog.errors"}
    assert shell("--version").out == f"wakelog {VERSION}\n"


def test_commands_load_only_what_they_need(shell, story):
    """Start-up time: no drawing library, no event loop, no package metadata, no index for a session that is named."""
    story.user("a")
    needless = {"rich", "asyncio", "email", "importlib.metadata", "wakelog.cli.demo.command", "subprocess"}
    for words in (("ls",), ("show", "crab_user_1"), ("append", "crab_user_1", "b"), ("search", "a"), ("--help",)):
        assert not modules(shell, *words) & needless, words
    for words in (("show", "crab_user_1"), ("append", "crab_user_1", "b"), ("verify", "crab_user_1")):
        assert not modules(shell, *words) & {"sqlite3", "wakelog.stores.catalog.index"}, words
    assert not modules(shell, "--help") & {"wakelog.log.codec", "wakelog.stores"}
    assert not modules(shell, "show", "crab_user_1", "--json") & {
        "wakelog.cli.ui.terminal",
        "wakelog.projections.transcript",
    }


def test_a_command_runs_no_garbage_collection(shell, story):
    """Start-up time: loaded modules are not traversed while they are loaded, nor at the end."""
    story.user("a")
    program = (
        "import gc, sys, atexit\n"
        "def collections(): return sum(generation['collections'] for generation in gc.get_stats())\n"
        "atexit.register(lambda: sys.stderr.write(f'{collections() - before} {gc.get_freeze_count() > 10_000}'))\n"
        "from wakelog.cli import main\n"
        "before = collections()\n"
        "sys.argv[1:] = ['show', 'crab_user_1', '--json']\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "0 True"


def test_a_reader_that_leaves_early(shell, story):
    """SIGPIPE is silent: no message, no traceback, and the code a shell expects."""
    for _ in range(40):
        story.user("x" * 20_000)
    running = shell.start("show", "crab_user_1", "--json")
    running.stdout.read(10)
    running.stdout.close()
    assert running.stderr.read() == b""
    running.stderr.close()
    assert running.wait(PATIENCE_S) == 141


def test_tail_follows_and_ends_quietly(shell, store, story):
    """Entries that another process appends are shown; Ctrl-C ends with 130 and prints nothing."""
    story.user("first")
    running = shell.start("tail", "crab_user_1", "-n", "1", "-f", "--json")
    assert json.loads(running.stdout.readline())["message"]["content"][0]["text"] == "first"
    assert shell.process("append", "crab_user_1", "second").code == 0
    assert json.loads(running.stdout.readline())["message"]["content"][0]["text"] == "second"
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, out, err.strip()) == (130, b"", b"")


def test_tail_follows_as_text_too(shell, story):
    story.user("first")
    running = shell.start("tail", "crab_user_1", "-n", "1", "-f")
    assert [running.stdout.readline().split()[-1:] for _ in range(3)][1:] == [[b"first"], []]
    assert shell.process("append", "crab_user_1", "second").code == 0
    assert [running.stdout.readline().split()[-1:] for _ in range(3)][1:] == [[b"second"], []]
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE_S)


def test_tail_reports_a_torn_tail_once(shell, story):
    """LOG-9: damage that appears while following is reported, with the entries after it; Ctrl-C exits with 130."""
    story.user("first")
    with open(shell.store / "crab_user_1.jsonl", "ab") as log:
        log.write(b'{"v":1,"seq":2,"ty')
    running = shell.start("tail", "crab_user_1", "-n", "1", "-f", "--json")
    running.stdout.readline()
    assert shell.process("append", "crab_user_1", "second").code == 0
    seen = [json.loads(running.stdout.readline())["type"] for _ in range(2)]
    assert seen == ["damage", "message"]
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert err.count(b"cut short") <= 1


def test_a_full_disk_is_one_line(shell, story):
    """A refused write: one line, exit code 1, nothing on stdout."""
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$@"', "-", *shell.command("append", "crab_user_1", "x")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("wakelog: cannot append to crab_user_1: File too large")


def test_output_that_cannot_be_written(shell, story):
    """A full device behind stdout is a failure, in one line."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(shell.command("show", "crab_user_1"), stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr == b"wakelog: No space left on device\n"


def test_stdin_is_not_read_without_need(shell, story):
    """Without a terminal no question is asked: a command with a closed stdin works."""
    done = subprocess.run(
        shell.command("show", "crab_user_1"), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_the_same_log_gives_the_same_output(shell, story, hash_seed):
    """No output depends on the order of a set."""
    first = story.user("a")
    for number in range(5):
        story.reply(f"b{number}", at=first.id)
    shown = [
        subprocess.run(
            shell.command("tree", "crab_user_1", "--json"),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", hash_seed)
    ]
    assert shown[0] == shown[1]
