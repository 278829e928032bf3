"""Law 4, LOG-11: a killed copy leaves a prefix of the log, and the next copy continues there."""

import signal
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S
from tests.transfer.rigs import KEPT_KINDS, log_of
from wakelog.log.content import Image, Prompt
from wakelog.log.entry import Message
from wakelog.session import Session
from wakelog.transfer import copy


@pytest.mark.parametrize("kind", KEPT_KINDS)
@pytest.mark.parametrize(("when", "at"), [("before", 0), ("after", 0), ("before", 4)])
def test_a_killed_copy_is_continued(stores, kind, when, at):
    """Law 4, LOG-11: complete lines, no more than the source has, nothing sent twice, and in the end all of it."""
    here, there = stores.url("jsonl"), stores.url(kind)
    source = stores.open(here)
    for name in ("a", "b"):
        session = Session.create(source, agent="crab", session_id=name)
        session.append(Message(message=Prompt(content=(Image(blob=source.blobs.put(name.encode())),))))
        for number in range(30):
            session.say(f"message {number} {'x' * number}")
    words = [sys.executable, "-m", "tests.transfer.dying", here, there, when, str(at)]
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    target = stores.open(there)
    left = {stat.name: log_of(target, stat.name) for stat in target.sessions()}
    runs = at + (when == "after")
    assert bool(left) == bool(runs)
    for name, raw in left.items():
        assert raw.endswith(b"\n")
        assert log_of(source, name).startswith(raw)
    rows = list(copy(source, target))
    assert sum(row.copied for row in rows) == sum(stat.size for stat in source.sessions()) - sum(
        map(len, left.values())
    )
    for name in ("a", "b"):
        assert log_of(target, name) == log_of(source, name)
        assert not Session(target, name).read().damage
    assert {blob.digest for blob in target.blobs.stored()} == {blob.digest for blob in source.blobs.stored()}
    assert [row.status for row in copy(source, target)] == ["unchanged", "unchanged"]
