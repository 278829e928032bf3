"""Differences between two requests: added, dropped, changed, and where a provider's cache ends (VIEW-5, VIEW-9)."""

import msgspec

from wakelog.log.content import BlobRef
from wakelog.log.entry import ContextEntry, ModelChange
from wakelog.projections.context import build_context
from wakelog.projections.context_changes import compare_contexts
from wakelog.testing.builders import SessionBuilder


def talk(turns):
    story = SessionBuilder()
    for turn in range(turns):
        story.user(f"prompt {turn}")
        story.reply(f"reply {turn}")
    return story


def seen(story, plan="full"):
    return build_context(story.session.branch(), plan)


def compare(before, story, plan="full"):
    return compare_contexts(before, seen(story, plan), story.session.branch())


def test_a_continued_conversation():
    """Law 8: without a compaction or a change the first request is the beginning of the second."""
    story = talk(2)
    before = seen(story)
    new = story.user("and now?")
    found = compare(before, story)
    assert (found.kept, found.breaks_at, found.breaks_by) == (True, None, None)
    assert (found.common, found.before, found.after) == (4, 4, 5)
    assert found.common_tokens == before.tokens
    assert [(added.entry, added.number) for added in found.added] == [(new.id, 5)]
    assert (found.changed, found.dropped) == ((), ())


def test_equal_requests_have_no_differences():
    story = talk(1)
    found = compare(seen(story), story)
    assert (found.kept, found.added, found.dropped, found.changed) == (True, (), (), ())


def test_a_compaction():
    """The messages that it replaces are dropped; the cache ends at the first message."""
    story = talk(3)
    before = seen(story)
    compaction = story.session.compact("In short.", first_kept=before.entry_ids[4])
    found = compare(before, story)
    assert (found.kept, found.breaks_at, found.breaks_by, found.common) == (False, 1, "fold", 0)
    assert [(lost.entry, lost.why) for lost in found.dropped] == [(entry, "fold") for entry in before.entry_ids[:4]]
    assert [added.entry for added in found.added] == [compaction.id]


def test_a_window_that_moved_on():
    story = talk(2)
    before = seen(story, "window:4")
    story.user("more")
    found = compare(before, story, "window:4")
    assert (found.breaks_at, found.breaks_by) == (1, "window")
    assert {lost.why for lost in found.dropped} == {"window"}


def test_another_branch():
    story = talk(2)
    before = seen(story)
    story.session.move_head(before.entry_ids[1])
    story.user("another way")
    found = compare(before, story)
    assert (found.common, found.breaks_at, found.breaks_by) == (2, 3, "branch")
    assert [lost.entry for lost in found.dropped] == list(before.entry_ids[2:])


def test_a_request_for_a_summary():
    """It ends before the messages that are kept word for word."""
    story = talk(2)
    before = seen(story)
    found = compare_contexts(before, before.first_messages(2), story.session.branch())
    assert [lost.why for lost in found.dropped] == ["kept", "kept"]


def test_changes_before_the_messages():
    """Another model, other tools or other instructions end the cache; other parameters do not."""
    story = talk(1)
    before = seen(story)
    story.session.append(ContextEntry(params={"temperature": 0}))
    found = compare(before, story)
    assert (found.kept, [change.what for change in found.changed]) == (True, ["params"])
    blob = BlobRef(digest="sha256:" + "0" * 64, bytes=1)
    story.session.append(ContextEntry(system=blob, tools=blob))
    found = compare(before, story)
    assert (found.breaks_at, found.breaks_by) == (0, "tools")
    assert [(change.what, change.before, change.after) for change in found.changed] == [
        ("tools", None, blob.digest),
        ("system", None, blob.digest),
    ]
    story.session.append(ModelChange(model="other", provider="p"))
    assert compare(before, story).breaks_by == "provider"


def test_changed_text_of_the_same_entry():
    """Text that changed under an entry's id counts as new text."""
    story = talk(2)
    before = seen(story)
    said = before.messages[1]
    other = msgspec.structs.replace(said, is_error=True)
    after = msgspec.structs.replace(before, messages=(before.messages[0], other, *before.messages[2:]))
    found = compare_contexts(before, after, story.session.branch())
    assert (found.common, found.breaks_at, found.breaks_by) == (1, 2, "messages")
    assert [added.entry for added in found.added] == [before.entry_ids[1]]
