"""Law 2 and RUN-1: the decision is the same, whether the whole log was read or only its tail."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.logs import DAMAGE, MIXED_STORIES, STORIES, bytes_of, damaged, store_of, tell
from tests.older_rules import write_under_rules
from wakelog.decide.decisions import Idle
from wakelog.decide.table import decide
from wakelog.errors import WakelogError
from wakelog.log.content import Prompt
from wakelog.log.entry import RULES_VERSION, Message, Queued
from wakelog.reading import read_active, read_log

START_MS = 1_767_261_600_000
TIMES = st.sampled_from([0, START_MS, START_MS + 40_000, START_MS + 10_000_000])
CHANNELS = st.sampled_from([frozenset(), frozenset({"terminal"}), frozenset({"terminal", "bot"})])


def _judged(log, now_ms, attached):
    try:
        verdict = decide(log.tree, now_ms, attached)
    except WakelogError as error:
        return "refused", error.message, type(error)
    return verdict.rule, verdict.decision, verdict.snapshot.policy


def _compare(raw, now_ms, attached, seen):
    store = store_of(raw)
    try:
        whole = read_log(store, "s", verify=True)
    except WakelogError as error:
        seen[type(error).__name__] += 1
        return
    if whole.tree.head is None:
        return
    active = read_active(store, "s")
    verdict = _judged(whole, now_ms, attached)
    seen["partial" if active.tree.partial else "whole"] += 1
    seen[verdict[0]] += 1
    assert _judged(active, now_ms, attached) == verdict


def test_a_lost_reply_that_is_named_after_a_compaction():
    """Law 6: the tail cannot tell a lost reply from one before the tail; then the whole log is read."""
    told = tell([("user", 0), ("compact", None), ("user", 1), ("sent", 0)])
    seen: Counter[str] = Counter()
    _compare(bytes_of(told), START_MS, frozenset(), seen)
    assert seen == {"whole": 1, "damage": 1}


def test_decisions_of_the_tail_are_decisions_of_the_whole():
    """Law 2: for every prefix of random logs, the same rule and the same decision, to the last field."""
    seen: Counter[str] = Counter()

    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STORIES, TIMES, CHANNELS, st.data())
    def check(steps, now_ms, attached, data):
        lines = bytes_of(tell(steps)).split(b"\n")[:-1]
        for length in {len(lines), *(data.draw(st.integers(1, len(lines))) for _ in range(3))}:
            _compare(b"".join(line + b"\n" for line in lines[:length]), now_ms, attached, seen)

    check()
    assert seen["partial"] > seen["whole"] / 10, seen
    assert {"owed", "answer", "call not ours", "call new", "rest"} <= set(seen), seen


def test_decisions_of_a_damaged_tail():
    """Laws 2 and 6: the same after damage."""
    seen: Counter[str] = Counter()

    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STORIES, DAMAGE, TIMES, CHANNELS)
    def check(steps, hurts, now_ms, attached):
        _compare(damaged(bytes_of(tell(steps)), hurts), now_ms, attached, seen)

    check()
    assert seen["partial"] > 10, seen


def test_decisions_where_versions_are_mixed():
    """Law 2, RUN-22: the same with compactions of older versions in between."""
    seen: Counter[str] = Counter()

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(MIXED_STORIES, TIMES, CHANNELS)
    def check(steps, now_ms, attached):
        _compare(bytes_of(tell(steps)), now_ms, attached, seen)

    check()
    assert seen["partial"] > 10, seen
    assert {"steer", "follow-up"} & set(seen), seen


def test_a_sent_entry_counts_wherever_it_is_attached():
    """Law 2: a `sent` entry names a reply before the compaction, and its parent is a node of another branch."""
    prompts = [("user", 0)] * 6
    steps = [("rules", 1), ("asked", 1), ("compact", None), *prompts, ("head", 2), ("sent", 4)]
    _compare(bytes_of(tell(steps)), 0, frozenset({"terminal"}), Counter())


@pytest.mark.parametrize("rules", [1, RULES_VERSION])
def test_a_queued_message_used_on_another_branch_is_not_used_again_after_a_compaction(rules):
    """Law 2, RUN-11: a compaction carries the queue, and (rules 1) which messages another branch has used."""
    story = tell([("user", 1), ("reply", 0)])
    write_under_rules(story.session, rules)
    before = story.session.tree.head
    queued = story.session.append(Queued(message=Prompt(content="later")))
    story.session.append(Message(message=Prompt(content="later", queued_id=queued.id)))
    story.reply("done")
    story.session.move_head(before)
    story.user("another way")
    story.reply("done too")
    for summary in ("folded", "and again"):
        story.session.compact(summary)
        whole, tail = (read(story.store, story.session.id) for read in (read_log, read_active))
        assert tail.tree.partial
        for read in (whole, tail):
            assert decide(read.tree, START_MS).decision == Idle()
