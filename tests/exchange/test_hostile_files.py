"""ST-9: hostile files of every format are refused or read within 256 MB and in time that grows with their size.

Each is imported by a process of its own, whose memory is measured and whose CPU time is limited: far above what a few
passes over the file take, and far below what nested passes would.
"""

import json
import os
import subprocess
import sys

import pytest

LIMIT_KB = 256 * 1024
SIZE = 12 << 20
MESSAGE = {"role": "user", "content": "x"}
RECORD = {"type": "user", "uuid": "u", "parentUuid": None, "sessionId": "s", "message": MESSAGE}
PROGRAM = """
import resource, sys
from wakelog.exchange.sync import import_files
from wakelog.stores.memory import MemoryStore
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
for done in import_files(MemoryStore(), sys.argv[1:]):
    print(done.status)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def nested(opening, closing):
    return opening * (SIZE // 2) + closing * (SIZE // 2)


FILES = {
    "lists in lists": lambda: nested(b"[", b"]"),
    "objects in objects": lambda: b'{"a":' * (SIZE // 5) + b"1",
    "many lists": lambda: b'{"messages":[' + b"[]," * (SIZE // 3) + b"1]}",
    "many lists on lines": lambda: b"[\n" + b"[],\n" * (SIZE // 4) + b"1]",
    "many small records": lambda: (json.dumps(RECORD).encode() + b"\n") * (SIZE // 400),
    "one long string": lambda: b'{"messages":[{"role":"user","content":"' + b"x" * SIZE + b'"}]}',
    "braces in text": lambda: b"{" * SIZE,
    "an unfinished list of messages": lambda: b'[{"role":"user","content":"' + b"{" * SIZE,
    "lines of two bytes": lambda: b"{\n" * (SIZE // 8),
    "a chat of Aider": lambda: b"# aider chat started at 2026-01-01 00:00:00\n\n#### hi\n" + b"```\n" * (SIZE // 64),
    "a store of crabtalk": lambda: b"CRMEM\0" + b"\x01\0\0\0" + b"\xff" * SIZE,
}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_takes_little_memory(tmp_path, name):
    path = tmp_path / "session.jsonl"
    path.write_bytes(FILES[name]())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    status, memory_kb = done.stdout.split("\n")[:2]
    assert status in ("imported", "no session", "failed")
    assert int(memory_kb) < LIMIT_KB
