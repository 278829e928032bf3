"""Laws 7 and 8, VIEW-9: requests to the model over random turns, windows, compactions and changes of settings.

The plays run through the real `wake`; the model keeps every request. Requests and `call` entries come in the same
order, so each request is known with its place in the log.
"""

from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.laws.plays import SEEDS, Play
from wakelog.log.codec import canonical_json
from wakelog.log.content import ToolCall
from wakelog.log.entry import Compaction, ContextEntry, ModelCall, ModelChange, Setting
from wakelog.reading import read_log
from wakelog.runtime.model_request import build_request, context_of_call

VERBS = ("say", "say", "say", "say", "queue", "cancel", "fold", "agent", "setting", "head", "rerun", "interrupt")
ACTIONS = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 999)), min_size=2, max_size=9)
QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])


def _played(seed, actions):
    """The steps in one session, its log, and each of its model calls with its request."""
    play = Play(seed, tools=("look", "pay", "book", "ghost"))
    for verb, number in actions:
        play.act(verb, number)
    log = read_log(play.store, play.session.name)
    calls = [
        entry.value for entry in log.entries if isinstance(entry.value, ModelCall) and entry.value.purpose != "rerun"
    ]
    assert len(calls) == len(play.model.requests)
    return play, log, list(zip(calls, play.model.requests, strict=True))


def _bytes(request):
    return b"".join(canonical_json(part) for message in request.messages for part in message.content)


def _start(log, call):
    """The first message of a window; a summary comes before it and is in every window."""
    ids = context_of_call(log.tree, call)[0].entry_ids
    return next((entry for entry in ids if not isinstance(log.tree.nodes[entry].value, Compaction)), None)


def _pairs(log, made):
    """Each two successive requests for a reply on one branch, and the nodes between them."""
    replies = [(call, request) for call, request in made if call.purpose == "reply"]
    for at, (call, request) in enumerate(replies):
        path = [node.id for node in log.tree.branch(call.parent_id).nodes]
        before = next((pair for pair in reversed(replies[:at]) if pair[0].parent_id in path), None)
        if before is not None:
            between = path[path.index(before[0].parent_id) + 1 :]
            yield before, (call, request), [log.tree.nodes[node].value for node in between]


def test_each_request_begins_with_the_one_before():
    """Law 8: byte for byte, unless there is a compaction, a setting, or a stride of the window in between."""
    seen: Counter[str] = Counter()

    @settings(QUIET, max_examples=150)
    @given(SEEDS, ACTIONS)
    def check(seed, actions):
        _, log, made = _played(seed, actions)
        for (first, before), (second, after), between in _pairs(log, made):
            if any(isinstance(value, Compaction) for value in between):
                seen["fold"] += 1
            elif any(isinstance(value, ContextEntry | ModelChange | Setting) for value in between):
                seen["setting"] += 1
            elif _start(log, first) != _start(log, second):
                # Only a window moves its beginning, and with one policy in force there is only one window.
                assert second.strategy != "full", (first, second)
                seen["stride"] += 1
            else:
                assert _bytes(after).startswith(_bytes(before)), (first, second)
                assert (after.system, after.tools, after.params) == (before.system, before.tools, before.params)
                seen[f"prefix {first.strategy.partition(':')[0]}"] += 1

    check()
    for kind, least in [("prefix full", 10), ("prefix window", 5), ("prefix budget", 5), ("fold", 3), ("stride", 3)]:
        assert seen[kind] >= least, seen


def test_each_request_is_valid():
    """Law 7: a reply with tool calls is followed by one result for each call, with nothing between them."""
    seen: Counter[str] = Counter()

    @settings(QUIET, max_examples=60)
    @given(SEEDS, ACTIONS)
    def check(seed, actions):
        _, _, made = _played(seed, actions)
        for call, request in made:
            _check_groups(request.messages, seen)
            if call.purpose == "reply":
                assert request.messages[-1].role in ("user", "toolResult")

    check()
    assert seen["group"] > 20, seen


def _check_groups(messages, seen):
    awaited: list[str] = []
    for message in messages:
        if message.role == "toolResult":
            assert message.tool_call_id in awaited, messages
            awaited.remove(message.tool_call_id)
            continue
        assert awaited == [], messages
        awaited = [part.id for part in message.content if isinstance(part, ToolCall)]
        assert len(set(awaited)) == len(awaited)
        seen["group"] += bool(awaited)
    assert awaited == [], messages


def test_each_request_can_be_rebuilt():
    """VIEW-9: from the log alone, also after later compactions and on other branches, with the digest of the call."""
    seen: Counter[str] = Counter()

    @settings(QUIET, max_examples=60)
    @given(SEEDS, ACTIONS)
    def check(seed, actions):
        play, log, made = _played(seed, actions)
        for call, request in made:
            context, answers = context_of_call(log.tree, call)
            assert context.digest == call.context_digest
            again = build_request(
                context, play.store.blobs, answers=answers, prefill=request.prefill, purpose=call.purpose
            )
            assert again == request
            assert call.from_id in (None, *context.entry_ids[:1])
            assert call.over_limit == (context.over_limit or None)
            seen[call.purpose] += 1

    check()
    assert seen["reply"] > 50, seen
    assert seen["compaction"] > 2, seen
