"""The drawn sessions hold what they are drawn for, and are valid, so that properties over them mean something."""

from hypothesis import Phase, given, settings

from tests.exchange.generated_sessions import sessions_to_write
from wakelog.exchange.writing import kind_of
from wakelog.log.content import Image, Reply, Thinking, ToolResult
from wakelog.log.entry import Compaction, Message


def features(session):
    found = {kind_of(node) for node in session.nodes}
    nodes = {node.id: node for node in session.nodes}
    parents = [node.parent_id for node in session.nodes]
    if len(set(parents)) < len(parents):
        found.add("branches")
    calls, results = set(), set()
    for node in session.nodes:
        if isinstance(node, Compaction):
            found.add("kept" if node.first_kept_entry_id else "nothing kept")
        if not isinstance(node, Message):
            continue
        found |= {type(part).__name__ for part in node.message.parts if isinstance(part, Image | Thinking)}
        if isinstance(node.message, Reply):
            calls |= {(node.id, call.id) for call in node.message.tool_calls}
        if isinstance(node.message, ToolResult):
            results.add((node.message.reply_id, node.message.tool_call_id))
            assert node.message.reply_id in nodes
    assert results <= calls
    found.add("open calls" if calls - results else "all answered")
    return found


def test_the_generator_makes_valid_sessions_with_every_feature():
    seen = set()

    @settings(max_examples=300, derandomize=True, phases=[Phase.generate], database=None)
    @given(sessions_to_write(branches=True))
    def check(session):
        ids = [session.session, *(node.id for node in session.nodes)]
        assert len(set(ids)) == len(ids)
        for number, node in enumerate(session.nodes):
            assert node.parent_id in ids[: number + 1]
        assert session.branch[-1].id == session.head
        for node in session.nodes:
            if isinstance(node, Message) and isinstance(node.message, Reply):
                calls = [call.id for call in node.message.tool_calls]
                assert len(set(calls)) == len(calls)
        seen.update(features(session))

    check()
    assert seen >= {
        *("prompt", "reply", "toolresult", "note", "compaction", "change of the model", "custom app:state", "failed"),
        *("cancelled", "setting thinkingLevel", "branches", "kept", "nothing kept", "open calls", "Image", "Thinking"),
    }


def test_call_ids_repeat_only_where_asked_for():
    repeats = {True: 0, False: 0}

    @settings(max_examples=60, phases=[Phase.generate], database=None)
    @given(sessions_to_write(repeated_call_ids=True), sessions_to_write())
    def check(repeating, plain):
        for session, key in ((repeating, True), (plain, False)):
            replies = [node.message for node in session.nodes if isinstance(node, Message)]
            ids = [call.id for reply in replies if isinstance(reply, Reply) for call in reply.tool_calls]
            repeats[key] += len(ids) - len(set(ids))

    check()
    assert repeats[True] > 0 == repeats[False]
