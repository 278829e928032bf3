"""Kills while a reply streams: displayed text is never lost, and the reply restarts only under `replace`."""

import json
import os
import pathlib
import subprocess
import tempfile

import pytest

from tests.faults.processes import INTERPRETER, PATIENCE_S, environment
from tests.kernel.outside import Outside, held
from tests.kernel.streams import APART, CHAIN, DELTAS, SHORT, SIZE, begin, work
from wakelog.stores.jsonl import JsonlStore

PARTS = 2
_IN_MEMORY = "/dev/shm"


@pytest.fixture
def place():
    """A folder in memory, where there is one: the processes are killed a thousand times, the machine never."""
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY if os.path.isdir(_IN_MEMORY) else None) as folder:
        yield pathlib.Path(folder)


def _killed(*words):
    """Run the program; return its lines, each of which is a kill that was planned and applied."""
    command = [INTERPRETER, "-m", "tests.kernel.streams", *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=30 * PATIENCE_S, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _put_out(events):
    """The text that a reader of the channel gets, without repeats: one text for each clean restart."""
    texts = [""]
    for event in events:
        if "reset" in event:
            texts.append("")
        elif "delta" in event:
            assert event["offset"] <= len(texts[-1])
            texts[-1] += event["text"][len(texts[-1]) - event["offset"] :]
    return texts


def _undisturbed(folder, cut):
    begin(JsonlStore(str(folder / "store")), cut)
    work(str(folder), SHORT)
    return _put_out(Outside(str(folder / "outside")).events)


@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_any_delta(part, place):
    """Law 5, RUN-8: the displayed text is a prefix of the recovered text, byte for byte.

    Kills at each of 500 deltas, ten in one session, which goes on with its reply after each; all of them end with
    the same words, delivered, and can be replayed.
    """
    lines = _killed("points", place, "resume", part + 1, PARTS)
    assert sorted(line["planned"] for line in lines) == [
        point for point in range(1, DELTAS + 1) if point % PARTS == (part + 1) % PARTS
    ]
    _were_killed_where_they_should_be(lines)


def test_killed_at_any_delta_and_replaced(place):
    """Law 5, RUN-8: the same under `replace`: the displayed text is kept as an annotation though the reply restarts."""
    lines = _killed("points", place, "replace", 0, 2)
    assert [line["planned"] for line in lines] == list(range(0, DELTAS + 1, 2 * DELTAS // APART))
    _were_killed_where_they_should_be(lines)


def _were_killed_where_they_should_be(lines):
    assert all(line["displayed"] == SIZE * line["planned"] for line in lines)
    assert all(line["recovered"] >= line["displayed"] for line in lines)


def test_resumed_after_every_delta(place):
    """Law 5, RUN-8: with any number of kills a resumed reply displays the bytes of an undisturbed one."""
    alone = _undisturbed(place / "alone", "resume")
    assert len(_killed("chain", place, "resume")) == CHAIN
    events = Outside(str(place / "outside")).events
    assert _put_out(events) == alone == [SHORT]
    assert list(held(events).values()) == [SHORT]


def test_replaced_after_every_delta(place):
    """RUN-8: under `replace` each kill costs the reader one clean restart, and the last text is complete."""
    alone = _undisturbed(place / "alone", "replace")
    assert len(_killed("chain", place, "replace")) == CHAIN
    events = Outside(str(place / "outside")).events
    begun = _put_out(events)
    assert begun == [*(SHORT[: SIZE * delta] for delta in range(1, CHAIN + 1)), SHORT]
    assert begun[-1:] == alone
    assert sum("reset" in event for event in events) == CHAIN
    assert len(held(events)) == 1, "it is one reply, under one id, however often it is begun"
