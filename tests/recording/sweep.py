"""The crash sweep of an example loop: `python -m tests.recording.sweep EXAMPLE FOLDER FIRST STRIDE`.

The example is killed (SIGKILL) before every write-class call it makes, in the order FIRST, FIRST + STRIDE, …, and then
run again to its end. For each point one line of JSON says what was acknowledged before the kill, what had been paid,
and what the log holds at the end. Processes are forked from this program, which has loaded the SDK once and has no
threads.
"""

import contextlib
import importlib.util
import io
import json
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tests.kernel.killing import KILLED, in_child
from tests.kernel.sweep import Counter
from wakelog.log.content import ToolResult
from wakelog.log.entry import Message
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.writer import SessionWriter

_write = os.write


def load_example(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("example", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_example(example: ModuleType, folder: str, planned: int | None) -> int:
    """Run the example in a process of its own and kill it before the planned write; return its exit status."""

    def work() -> None:
        os.chdir(folder)
        acknowledged = os.open("acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        counter = Counter(planned)
        counter.watch()
        append = SessionWriter.append

        def noted(self: SessionWriter, *args: Any, **options: Any) -> Any:
            entry = append(self, *args, **options)
            _write(acknowledged, f"{entry.id}\n".encode())
            return entry

        SessionWriter.append = noted  # type: ignore[method-assign]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            example.main()
        _write(acknowledged, f"said {out.getvalue().splitlines()[-1]}\n".encode())

    status: int = in_child(work)
    return status


def points(example: ModuleType, folder: str, first: int, stride: int) -> Iterator[dict[str, Any]]:
    """Yield what came of each point, until the example makes no more writes."""
    planned = first
    while True:
        place = os.path.join(folder, str(planned))
        os.makedirs(place)
        killed = run_example(example, place, planned) == KILLED
        paid_before = _lines(place, "payments.txt")
        acknowledged = _lines(place, "acknowledged")
        ended = run_example(example, place, None) if killed else 0
        yield {
            "point": planned,
            "killed": killed,
            "ended": ended,
            "lost": sorted(set(acknowledged) - _entry_ids(place)) if killed else [],
            "paid": [len(paid_before), len(_lines(place, "payments.txt"))],
            **_judged(place),
        }
        if not killed:
            return
        planned += stride


def _lines(place: str, name: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError), open(os.path.join(place, name)) as file:
        return file.read().splitlines()
    return []


def _session(place: str) -> Session:
    return Session.open(JsonlStore(os.path.join(place, "sessions")), agent="clerk", sender="ada")


def _entry_ids(place: str) -> set[str]:
    return {entry.id for entry in _session(place).entries()}


def _judged(place: str) -> dict[str, Any]:
    session = _session(place)
    messages = [entry.value.message for entry in session.entries() if isinstance(entry.value, Message)]
    return {
        "results": [(each.tool_name, each.status, each.text) for each in messages if isinstance(each, ToolResult)],
        "last": messages[-1].text,
        "intact": session.verify().ok,
    }


if __name__ == "__main__":
    _, path, folder, first, stride = sys.argv
    for found in points(load_example(path), folder, int(first), int(stride)):
        print(json.dumps(found), flush=True)
