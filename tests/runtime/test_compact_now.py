"""Compaction on request: the session's own model writes the summary.

An unusable summary changes nothing (RUN-16, VIEW-4).
"""

import asyncio

import pytest

from wakelog.errors import Conflict, UsageError
from wakelog.log.entry import Cancelled, Compaction, Failed, FaultReport
from wakelog.projections.context import build_context
from wakelog.providers.scripted import ScriptedProvider
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.user_actions import compact_now
from wakelog.runtime.wake import wake
from wakelog.testing.builders import SessionBuilder


def story_of(turns):
    story = SessionBuilder()
    for turn in range(turns):
        story.user(f"prompt {turn} " + "long " * 40)
        story.reply(f"reply {turn} " + "long " * 40)
    return story


def fold(story, *replies, **more):
    asked = []

    class Watched(ScriptedProvider):
        def stream(self, request):
            asked.append(request)
            return super().stream(request)

    runtime = LiveRuntime(story.store, provider=lambda *_: Watched(replies))
    done = asyncio.run(compact_now(runtime, story.session.name, **more))
    return done, asked


def test_the_model_writes_the_summary():
    """The summary replaces the older part; the call, its purpose and the instructions are in the log."""
    story = story_of(3)
    before = build_context(story.session.branch())
    done, [request] = fold(story, {"text": "In short."}, instructions="Mind the names.")
    value = done.entry.value
    assert isinstance(value, Compaction)
    assert (value.trigger, value.tokens_before) == ("manual", before.tokens)
    assert value.first_kept_entry_id == before.entry_ids[-1], "of a short talk only the last group is kept"
    assert value.tokens_after == build_context(story.session.branch()).tokens < before.tokens
    assert (request.purpose, request.injected[0].endswith("Mind the names.")) == ("compaction", True)
    assert [entry.type for entry in story.session.read().entries[-4:]] == ["activity", "call", "compaction", "activity"]
    assert story.session.read().entries[-5].value.mode == "compact"
    assert story.store.held(story.session.name) is None


def test_entries_from_the_given_one_on_are_kept():
    """Entries from a given entry on are kept; one that is not a message means the next message."""
    story = story_of(3)
    ids = build_context(story.session.branch()).entry_ids
    done, _ = fold(story, {"text": "In short."}, keep=ids[4])
    assert done.entry.value.first_kept_entry_id == ids[4]
    assert build_context(story.session.branch()).entry_ids[1:] == ids[4:]


def test_nothing_to_compact():
    story = SessionBuilder()
    story.user("hi")
    done, asked = fold(story, {"text": "x"})
    assert (done.entry, done.reason, asked) == (None, "there is nothing to compact", [])


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"text": " "}, "the summary was empty"),
        ({"text": "longer " * 400}, "the summary was no shorter than what it stood for"),
        ({"error": {"kind": "down", "message": "no line"}}, "no line"),
    ],
)
def test_an_unusable_summary_changes_nothing(reply, why):
    story = story_of(3)
    before = build_context(story.session.branch()).digest
    done, _ = fold(story, reply)
    assert (done.entry, done.reason) == (None, why)
    assert build_context(story.session.branch()).digest == before


def test_compaction_never_separates_a_call_from_its_result():
    """Law 7: a session in the middle of a turn is not compacted.

    Neither is a range that would split a call group.
    """
    story = story_of(2)
    reply = story.reply("", calls=[("t1", "bash", {})])
    with pytest.raises(Conflict):
        fold(story, {"text": "x"})
    result = story.result(reply, "t1")
    story.reply("done")
    with pytest.raises(UsageError):
        fold(story, {"text": "x"}, keep=result.id)
    with pytest.raises(UsageError):
        fold(story, {"text": "x"}, keep="nothing")
    assert fold(story, {"text": "x"}, keep=reply.id)[0].entry is not None


@pytest.mark.meddled
def test_a_request_waits_for_the_next_worker():
    """The request stays in the log, and the next worker of the session carries it out once."""
    story = story_of(2)
    lease = story.session.acquire("a worker", ttl_s=60)
    done, asked = fold(story, {"text": "x"})
    assert (done.entry.value.mode, asked) == ("compact", [])
    story.session.release(lease)
    runtime = LiveRuntime(story.store, provider=lambda *_: ScriptedProvider([{"text": "In short."}]))
    assert asyncio.run(wake(runtime, story.session.name)).rules == ("fold asked", "rest")
    assert [entry.type for entry in story.session.read().entries].count("compaction") == 1


@pytest.mark.parametrize("end", [Cancelled(reason="x"), Failed(error=FaultReport(kind="x", message="too long"))])
def test_a_failed_turn_does_not_prevent_compaction(end):
    """A context that is too long is a common reason for compaction, so a failed turn does not prevent it."""
    story = story_of(2)
    story.user("more")
    story.session.append(end)
    done, _ = fold(story, {"text": "In short."})
    assert isinstance(done.entry.value, Compaction)
    assert [entry.type for entry in story.session.read().entries].count("call") == 1
