"""VIEW-6: after large live output and a crash or a cancel the session continues.

The output is clipped like any result.

RUN-7, RUN-10, VIEW-6, LOG-12. 9.5 MB of quotation marks would be an entry of 19 MB, which no line can hold.
"""

import pytest

from tests.faults.figures import Figure, store_name
from tests.faults.live_output import PRINTED, REPLIES, begin, wake_here
from tests.kernel.watching import Watched, until
from wakelog.decide import wording
from wakelog.decide.decisions import Idle
from wakelog.decide.policy import Policy
from wakelog.decide.wording import CLIP_BYTES
from wakelog.errors import UsageError
from wakelog.journals import read_journals
from wakelog.log.content import Reply, ToolResult
from wakelog.log.entry import Message, Partial
from wakelog.reading import read_log
from wakelog.runtime.user_actions import request_cancel
from wakelog.stores import open_store

# Redaction holds back the last bytes of a stream: they could be the beginning of a secret.
HELD_BACK = 4_096


@pytest.fixture(params=["files", "sqlite", "postgres"])
def url(request, tmp_path):
    own = {"files": str(tmp_path / "store"), "sqlite": f"sqlite:{tmp_path / 'own.db'}"}
    return own.get(request.param) or request.getfixturevalue("postgres_url")


@pytest.fixture
def store(url):
    opened = open_store(url)
    yield opened
    opened.close()


def _shown(store):
    return sum(len(piece) for pieces in store.journals("s").values() for piece in pieces) // 2


def _values(store, kind):
    return [entry.value for entry in read_log(store, "s").entries if isinstance(entry.value, kind)]


def _said(store, kind):
    return [value.message for value in _values(store, Message) if isinstance(value.message, kind)]


def _judge(store, status):
    """Assert one clipped partial with the whole output in a blob, one result with the same text, and no journal."""
    (partial,) = _values(store, Partial)
    (part,) = partial.content
    assert len(part.text.encode()) <= CLIP_BYTES
    assert "bytes left out" in part.text
    whole = store.blobs.get(part.blob)
    assert PRINTED - HELD_BACK <= len(whole) <= PRINTED
    assert set(whole) == {ord('"')}
    (result,) = _said(store, ToolResult)
    assert (result.status, result.truncated, result.blob) == (status, True, part.blob)
    assert result.text.endswith(wording.OUTPUT_SO_FAR.format(shown=part.text))
    assert store.journals("s") == {}


def figure(url, wrong=0, control=""):
    """The figures of one session whose tool was interrupted in the middle of its output."""
    store = store_name(url if ":" in url else "files")
    woken, found = (1, "sessions woken"), (wrong, "that cannot be woken")
    return Figure("kill or cancel amid 9.5 MB of output", store, 1, 1, woken, found, control)


def test_a_killed_worker_leaves_clipped_output(url, store, tmp_path, record):
    session = begin(store, tmp_path)
    with Watched(url, tmp_path, module="tests.faults.live_output") as worker:
        until(lambda: _shown(store) >= PRINTED - HELD_BACK)
        worker.kill()
    (shown,) = read_journals(store, session.name).partials
    assert len(shown.content[0].text.encode()) <= CLIP_BYTES
    assert wake_here(store).decision == Idle()
    _judge(store, "unknown")
    assert [reply.text for reply in _said(store, Reply)] == [reply["text"] for reply in REPLIES]
    record(figure(url))


def test_control_output_that_is_not_clipped(tmp_path, monkeypatch, record):
    """The test above can fail: without the clipping the entry is too long for a line, at every wake."""
    store = open_store(str(tmp_path / "store"))
    begin(store, tmp_path)
    with Watched(str(tmp_path / "store"), tmp_path, module="tests.faults.live_output") as worker:
        until(lambda: _shown(store) >= PRINTED - HELD_BACK)
        worker.kill()
    monkeypatch.setattr("wakelog.writer.with_clipped_output", lambda body, *_: body)
    monkeypatch.setattr("wakelog.writer.with_long_texts_in_blobs", lambda body, *_: body)
    for _ in range(2):
        with pytest.raises(UsageError, match="too long for one line"):
            wake_here(store)
    record(figure(str(tmp_path), 1, control="output is not clipped"))
    store.close()


def test_a_cancelled_turn_leaves_clipped_output(url, store, tmp_path, record):
    session = begin(store, tmp_path)
    with Watched(url, tmp_path, module="tests.faults.live_output") as worker:
        until(lambda: _shown(store) >= PRINTED - HELD_BACK)
        request_cancel(session)
        assert worker.end() == (0, {"left": "cancelled"})
    _judge(store, "interrupted")
    session.say("Go on.")
    assert wake_here(store).decision == Idle()
    assert [reply.text for reply in _said(store, Reply)] == [reply["text"] for reply in REPLIES]
    record(figure(url))


def test_the_limit_of_live_output_is_that_of_results():
    """VIEW-6: the tests above compare with the default limit of a session."""
    assert Policy().clip == CLIP_BYTES
