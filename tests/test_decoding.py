"""Decoders are built by one thread at a time: a first use in two threads at once does not end the process."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "wakelog"
# A second thread decodes while the first one builds the decoder of the same struct. The first one goes on when the
# second has ended, or waits for the lock.
TWO_THREADS = """
import sys, threading
import msgspec, msgspec._utils
from wakelog import decoding

class Inner(msgspec.Struct):
    number: int = 0

class Outer(msgspec.Struct):
    inner: Inner
    number: int = 0

class Lock:
    def __init__(self):
        self.lock, self.is_waited_for = threading.RLock(), threading.Event()
    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.is_waited_for.set()
            self.lock.acquire()
    def __exit__(self, *_):
        self.lock.release()

decoding._building = lock = Lock()
evaluate, seen, second, results = msgspec._utils._eval_type, [], None, []

def evaluate_slowly(*given):
    # The third annotation is that of Inner: Outer is described in part.
    global second
    seen.append(given)
    if len(seen) == 3:
        second = threading.Thread(target=lambda: results.append(USE))
        second.start()
        while second.is_alive() and not lock.is_waited_for.wait(0.01):
            pass
    return evaluate(*given)

msgspec._utils._eval_type = evaluate_slowly
results.append(USE)
second.join()
print(*results, sep="\\n")
"""
USES = {
    "decoder_of": 'decoding.decoder_of(Outer).decode(b\'{"inner":{"number":1},"number":2}\')',
    "build_decoder": 'decoding.build_decoder(Outer).decode(b\'{"inner":{"number":1},"number":2}\')',
    "convert": "decoding.convert({'inner': {'number': 1}, 'number': 2}, Outer)",
}


@pytest.mark.parametrize("use", USES)
def test_two_threads_build_the_decoder_of_a_struct(use):
    """LOG-10: threads that start at once decode their first entries at once."""
    words = [sys.executable, "-c", TWO_THREADS.replace("USE", USES[use])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["Outer(inner=Inner(number=1), number=2)"] * 2


FORKED = """
import os, sys, threading, time
from wakelog import decoding

held, is_forked = threading.Event(), threading.Event()

def hold():
    with decoding._building:
        held.set()
        while sys._current_frames()[main].f_code is not fork.__code__ and not is_forked.is_set():
            time.sleep(0)
        for _ in range(1_000):
            time.sleep(0)

def fork():
    return os.fork()

main = threading.get_ident()
threading.Thread(target=hold).start()
held.wait()
pid = fork()
if pid == 0:
    os._exit(0 if decoding._building.acquire(blocking=False) else 1)
is_forked.set()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_fork_waits_for_a_decoder_that_is_being_built():
    """LOG-11: no child process inherits an incomplete description, or a lock that no thread of it will release."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


# A struct that only its module decodes, when it is imported; a struct whose decoder was built with `build_decoder`.
EXEMPT = {"decoding.py", "overviews.py", "tools/function_tool.py"}
PLAIN = {"str", "int", "bytes", "list[str]", "dict[str, Any]", "list[dict[str, Any]]"}


def is_unlocked(call):
    """Return whether a call of msgspec may build the description of a struct."""
    name = ast.unparse(call.func)
    kinds = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "type"]
    if name.startswith("msgspec.") and name.endswith("Decoder"):
        return bool(call.args or kinds)
    if name.startswith("msgspec.") and name.endswith(".decode"):
        return any(kind not in PLAIN and "Raw" not in kind for kind in kinds)
    return name == "msgspec.convert"


def test_all_decoders_are_built_under_the_lock():
    """Every module decodes structs through `wakelog.decoding`."""
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and is_unlocked(node)
    }
    assert found == EXEMPT
