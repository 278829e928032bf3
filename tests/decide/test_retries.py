"""RUN-8, RUN-12: faults are counted, waited for and given up from the log alone."""

import pytest

from wakelog.decide.decisions import take_snapshot
from wakelog.decide.policy import Policy, stored_policy
from wakelog.decide.retries import consecutive_faults, last_fault, recovery_strategy, retry_at_ms, too_many_faults
from wakelog.decide.timing import retry_delay_ms
from wakelog.log.content import BlobRef, Text, Thinking
from wakelog.log.entry import Cancelled, Compaction, ContextEntry, Failed, FaultReport, ModelCall, Partial
from wakelog.log.timestamps import iso_timestamp
from wakelog.testing.builders import SessionBuilder

OVERLOAD = FaultReport(kind="overload", retryable=True, delay_ms=500)


def _story(**agreed):
    story = SessionBuilder()
    story.session.append(ContextEntry(policy=stored_policy(Policy(**agreed))))
    story.user("p")
    return story


def _snapshot(story):
    return take_snapshot(story.session.tree, 0, frozenset())


def _fail(story, number, partial=""):
    story.session.append(ModelCall(call_id=f"c{number}", reply_id=f"r{number}"))
    if partial:
        story.session.append(Partial(reply_id=f"r{number}", content=(Text(text=partial),)))
    return story.session.append(Failed(reason="call", error=OVERLOAD, call_id=f"c{number}"))


def test_faults_in_a_row_are_counted_and_bounded():
    """RUN-12: every failed call since the last message; a reply or a prompt starts the count again."""
    story = _story(faults_max=2)
    assert (consecutive_faults(_snapshot(story)), too_many_faults(_snapshot(story))) == (0, None)
    _fail(story, 1)
    assert too_many_faults(_snapshot(story)) is None
    _fail(story, 2)
    assert consecutive_faults(_snapshot(story)) == 2
    assert too_many_faults(_snapshot(story)).reason == "faults"
    story.user("again")
    assert consecutive_faults(_snapshot(story)) == 0


def test_calls_for_summaries_are_not_faults_of_the_reply():
    """RUN-16: a failed compaction has a count of its own."""
    story = _story()
    story.session.append(ModelCall(call_id="c", reply_id="r", purpose="compaction"))
    assert consecutive_faults(_snapshot(story)) == 0


@pytest.mark.parametrize(("cut", "count"), [("replace", 3), ("resume", 1)])
def test_new_text_restarts_the_count_under_resume(cut, count):
    """RUN-8: a long reply may be interrupted many times, as long as each attempt adds text."""
    story = _story(cut=cut)
    for text in ("one", "one two", "one two"):
        story.session.append(ModelCall(call_id="c", reply_id="r"))
        story.session.append(Partial(reply_id="r", content=(Text(text=text),)))
    assert consecutive_faults(_snapshot(story)) == count


def test_only_plain_text_is_resumed():
    """RUN-8: not a partial thinking part, not an empty reply; and only if the policy says so."""
    for content, agreed, way in [
        ((Text(text="Hel"),), "resume", "resume"),
        ((Text(text="Hel"),), "replace", "replace"),
        ((Thinking(thinking="hm"), Text(text="Hel")), "resume", "replace"),
        ((), "resume", "replace"),
        (None, "resume", "replace"),
    ]:
        story = _story(cut=agreed)
        story.session.append(ModelCall(call_id="c", reply_id="r"))
        if content is not None:
            story.session.append(Partial(reply_id="r", content=content))
        assert recovery_strategy(_snapshot(story), "r") == way


def test_a_clipped_text_is_not_resumed():
    """RUN-8: a model that continued it would continue after the mark of the omitted part."""
    story = _story(cut="resume")
    story.session.append(ModelCall(call_id="c", reply_id="r"))
    whole = BlobRef(digest=f"sha256:{'0' * 64}", bytes=9)
    story.session.append(Partial(reply_id="r", content=(Text(text="Hel", blob=whole),)))
    assert recovery_strategy(_snapshot(story), "r") == "replace"


def test_the_last_fault_is_waited_for_once():
    """RUN-12: after a compaction or another message it is not waited for again."""
    story = _story()
    assert last_fault(story.session.branch()) is None
    fault = _fail(story, 1)
    assert last_fault(story.session.branch()).id == fault.id
    story.session.append_compaction(Compaction(summary="s", first_kept_entry_id=None))
    assert last_fault(story.session.branch()) is None


def test_when_to_try_again():
    """RUN-12: the fault's time and its delay; never longer than the delay from now, whatever the clocks say."""
    story = _story()
    at_ms = 1_800_000_000_000
    fault = story.session.append(Failed(error=OVERLOAD, timestamp=iso_timestamp(at_ms)))
    assert retry_at_ms(fault, 1, at_ms + 1) == at_ms + 500
    assert retry_at_ms(fault, 1, at_ms - 60_000) == at_ms - 60_000
    plain = story.session.append(Failed(error=FaultReport(retryable=True), timestamp=iso_timestamp(at_ms)))
    assert retry_at_ms(plain, 3, at_ms) == at_ms + retry_delay_ms(plain.id, 3, None)


def test_a_cancelled_turn_restarts_the_count():
    """RUN-12: failures before a cancel do not count after it."""
    story = _story(faults_max=1)
    _fail(story, 1)
    story.session.append(Cancelled())
    assert consecutive_faults(_snapshot(story)) == 0
