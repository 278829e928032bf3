"""RUN-12: a failure is reported when it happens and a retry when it begins; no retry is announced in advance."""

import msgspec
import pytest

from wakelog.cli.ui.renderers import RecallNotices, RetryNotices
from wakelog.log.content import BlobRef, Prompt
from wakelog.log.entry import Cancelled, Compaction, Entry, Failed, FaultReport, Head, Message, ModelCall
from wakelog.stores.memory import MemoryStore

HERE = "crab_user_1"
FAULT = Failed(reason="call", error=FaultReport(kind="connection", message="nobody there", retryable=True))
CALL = ModelCall(reply_id="r")


@pytest.fixture
def tries():
    return RetryNotices()


def heard(tries, *bodies, session=HERE):
    return [tries.on_entry(session, Entry(b"{}", body, seq)) for seq, body in enumerate(bodies)]


def test_every_retry_is_counted_and_none_is_announced(tries):
    """After the last failure nothing is announced, because no call follows it."""
    over = Failed(reason="faults", error=FaultReport(kind="faults", message="3 calls in a row came to nothing"))
    said = heard(tries, CALL, FAULT, CALL, FAULT, CALL, FAULT, over, CALL)
    failed = "the model call failed: nobody there"
    assert said == ["", failed, "retrying (attempt 2)", failed, "retrying (attempt 3)", failed, "", ""]


@pytest.mark.parametrize(
    ("delay_ms", "words"),
    [
        (None, ""),
        (0, ""),
        (4_000, "; next attempt in 4.0 s at the earliest"),
        (3_600_000, " in 60 min at the earliest"),
    ],
)
def test_the_delay_that_a_server_asks_for(tries, delay_ms, words):
    assert FAULT.error is not None
    fault = Failed(reason="call", error=msgspec.structs.replace(FAULT.error, delay_ms=delay_ms))
    (said,) = heard(tries, fault)
    assert said.startswith("the model call failed: nobody there")
    assert said.endswith(words or "there")


@pytest.mark.parametrize(
    "between",
    [Message(message=Prompt()), Cancelled(), Compaction(summary=""), Head(target_id="x")],
    ids=["message", "cancelled", "fold", "head"],
)
def test_a_new_turn_is_not_a_retry(tries, between):
    assert heard(tries, FAULT, between, CALL)[-1] == ""


def test_a_summary_is_not_a_retry(tries):
    """The call for a summary comes in between where a context is too long."""
    assert heard(tries, FAULT, ModelCall(reply_id="s", purpose="compaction")) == [
        "the model call failed: nobody there",
        "",
    ]


def test_sessions_are_counted_separately(tries):
    heard(tries, FAULT, FAULT)
    assert heard(tries, CALL, FAULT, CALL, session="crab_user_2")[-1] == "retrying (attempt 2)"
    assert heard(tries, CALL) == ["retrying (attempt 3)"]


def test_passages_of_earlier_sessions_are_announced_once():
    """VIEW-7: a person sees when the model gets passages of other sessions, and which sessions they are from."""
    blobs = MemoryStore().blobs
    recalled = blobs.put(
        b"<earlier-sessions>\n- crab_a_1:7: the fix\n- crab_a_1:9: more\n- crab_b_2:1: x\n</earlier-sessions>"
    )
    others = blobs.put(b"<environment>\n- crab_a_1: not a passage\n</environment>")
    given = ModelCall(reply_id="r", injected=(others, recalled))
    missing = ModelCall(reply_id="r", injected=(BlobRef(digest="sha256:" + "0" * 64, bytes=3),))
    told = heard(RecallNotices(blobs), CALL, given, given, ModelCall(reply_id="r", injected=(others,)), missing)
    assert told == ["", "the model was given passages of 2 earlier sessions: crab_a_1, crab_b_2", "", "", ""]
