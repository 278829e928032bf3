"""Faults injected by strace, counted in its own output.

Rule 1: a fault counts only if strace's log says that it was injected; every sweep asserts planned == applied.
Rule 2: never `--seccomp-bpf`: together with `inject=` it applies no fault and reports no error.
Rule 3: calls are matched by the path of their descriptor (`-P`), so that the interpreter's own calls do not count.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from tests.faults.processes import CHILDREN, INTERPRETER, run

_CALL = re.compile(r"^\d+\s+(\w+)\((?:AT_FDCWD\S*, )?(\d+)?(?:<([^>]*)>)?(.*?)\)?\s+= (-?\d+)(.*)$")


class Called(NamedTuple):
    """One system call in the report of strace."""

    name: str
    descriptor: int
    path: str
    arguments: str
    result: int
    injected: bool


class Traced(NamedTuple):
    """A child that ran under strace: its output and its system calls."""

    done: "subprocess.CompletedProcess[str]"
    calls: list[Called]

    @property
    def applied(self) -> int:
        """The number of faults that strace says it injected."""
        return sum(call.injected for call in self.calls)

    def said(self, word: str) -> list[list[str]]:
        """The output of the child under a word: the rest of each such line, split at its first two blanks."""
        lines = [line.split(" ", 2) for line in self.done.stdout.splitlines()]
        return [line[1:] for line in lines if line[0] == word]


def traced(
    report: str, *words: str, paths: Sequence[str], trace: str, inject: str = "", module: str = CHILDREN, shown: int = 0
) -> Traced:
    """Runs a child under strace and reads its report. So many signs of a text, or parts of a list, stand there."""
    strace = shutil.which("strace")
    assert strace is not None, "strace is needed: install it with your package manager"
    with open(INTERPRETER, "rb") as file:
        assert file.read(4) == b"\x7fELF", f"{INTERPRETER} is a shim: its own calls would be counted"
    before = [strace, "-f", "-qq", "-y", "-s", str(shown), "-o", report, "-e", f"trace={trace}"]
    for path in paths:
        before += ["-P", path]
    if inject:
        before += ["-e", f"inject={inject}"]
    done = run(*words, before=before, module=module)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2_000:]
    with open(report, encoding="utf-8", errors="replace") as file:
        return Traced(done, [call for line in file if (call := _call(line)) is not None])


def _call(line: str) -> Called | None:
    found = _CALL.match(line)
    if found is None:
        return None
    name, descriptor, path, arguments, result, note = found.groups()
    return Called(name, int(descriptor or result), path or "", arguments, int(result), "(INJECTED)" in note)
