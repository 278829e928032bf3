"""Run the programs in documents as they stand; each prints what its last comment says."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_DOCS = Path(__file__).parent.parent / "docs"


def python_blocks(text: str) -> list[str]:
    """Return the Python programs in a text."""
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def programs(page: str) -> list[str]:
    """Return the Python programs of a page of the documentation."""
    return python_blocks((_DOCS / page).read_text())


def check_printed(program: str, folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a program in a folder, with additions to the environment: it prints its last comment, nothing on stderr."""
    last_comment = re.search(r"(?:^# .*\n)+\Z", program, re.MULTILINE)
    assert last_comment is not None, "the program does not end with a comment that says what it prints"
    command = [sys.executable, "-W", "error", "-c", program]
    env = {**os.environ, **(environment or {})}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)
    assert (done.stdout, done.stderr) == (re.sub(r"^# ", "", last_comment[0], flags=re.MULTILINE), "")
