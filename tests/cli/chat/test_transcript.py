"""The transcript of a chat is a function of the log, however its pieces arrived (laws 2 and 5)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.chat.test_block_splitter import blocks_of
from wakelog.cli.chat.items import Block, Decision, Item, Notice, ReplyAssembler, Thought, ToolUse, UserMessage
from wakelog.cli.chat.transcript import ChatTranscript
from wakelog.decide.assembly import assemble_parts, to_deltas
from wakelog.log.content import (
    Prompt,
    Reply,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
)
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Cancelled,
    Compaction,
    ContextEntry,
    Entry,
    Failed,
    FaultReport,
    Head,
    Message,
    ModelCall,
    Partial,
    Queued,
    Resumed,
    Spawned,
    ToolStarted,
)

HERE = "crab_user_1"
words = st.text(st.sampled_from("ab `#-\n"), max_size=12)
pieces = st.lists(
    st.one_of(
        words.map(TextDelta),
        words.map(ThinkingDelta),
        st.just(ToolCallDelta("c", "read", {"path": "x"})),
    ),
    max_size=12,
)


class TranscriptRig:
    """A transcript, and numbered entries for it."""

    def __init__(self):
        self.talk = ChatTranscript(HERE)
        self.count = 0

    def __call__(self, body, entry_id=None, session=HERE):
        self.count += 1
        value = msgspec.structs.replace(body, id=entry_id or f"e{self.count}", timestamp="2026-01-01T00:00:00.000Z")
        return self.talk.add_entry(session, Entry(b"{}", value, self.count))

    def pieces(self, journal, deltas):
        return [shown for delta in deltas for shown in self.talk.add_piece(journal, delta)]


@pytest.fixture
def told():
    return TranscriptRig()


def reply(*parts, **more):
    return Message(message=Reply(content=parts, **more))


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


@given(pieces, st.integers(0, 12))
def test_streamed_or_read_afterwards_the_same_is_shown(deltas, seen):
    """A reader from the beginning, from the middle, or only of the end sees the same in the end."""
    parts = assemble_parts(deltas)
    late, early = TranscriptRig(), TranscriptRig()
    for one in (late, early):
        one(ModelCall(reply_id="r"))
    shown = early.pieces("r", deltas[:seen])
    assert [*shown, *early(reply(*parts), "r")] == late(reply(*parts), "r")


@given(pieces)
def test_a_reply_is_shown_whole(deltas):
    """Every block of every text part, and every thinking part, in order."""
    shown = TranscriptRig()(reply(*assemble_parts(deltas)), "r")
    wanted: list[Item] = []
    for part in assemble_parts(deltas):
        if isinstance(part, Text):
            wanted += [Block(block) for block in blocks_of(part.text)]
        elif isinstance(part, Thinking) and part.thinking.strip():
            wanted.append(Thought(part.thinking))
    assert shown == wanted


@given(pieces)
def test_parts_split_into_deltas_are_assembled_again(deltas):
    answer = ReplyAssembler()
    parts = assemble_parts(deltas)
    first = [shown for delta in to_deltas(parts) for shown in answer.take(delta)]
    assert answer.catch_up(parts) == []
    assert [*first, *answer.finish()] == TranscriptRig()(reply(*parts), "r")


def test_an_unfinished_part_is_live(told):
    told(ModelCall(reply_id="r"))
    assert told.pieces("r", [ThinkingDelta("Hm.")]) == []
    assert told.talk.thinking == "Hm."
    assert told.pieces("r", [TextDelta("One.\n\nTw")]) == [Thought("Hm."), Block("One.")]
    assert (told.talk.thinking, told.talk.unfinished_lines(5)) == ("", ["Tw"])
    assert told(reply(Thinking(thinking="Hm."), Text(text="One.\n\nTwo.")), "r") == [Block("Two.")]
    assert told.talk.unfinished_lines(5) == []


def test_pieces_before_their_call_wait_for_it(told):
    """A log and its journals are two files: one may be read a moment before the other."""
    assert told.pieces("r", [TextDelta("One.\n\nTwo")]) == []
    assert told(ModelCall(reply_id="r")) == [Block("One.")]
    assert told.talk.unfinished_lines(5) == ["Two"]


def test_the_text_of_a_summary_is_not_a_reply(told):
    told(ModelCall(reply_id="s", purpose="compaction"))
    assert told.pieces("s", [TextDelta("What was asked:\n\n")]) == []
    assert told.talk.compacting
    assert told(Compaction(summary="x", tokens_before=9000, tokens_after=50)) == [
        Notice("compacted from about 9,000 to 50 tokens")
    ]
    assert not told.talk.compacting


def test_a_model_that_stops_early_is_named(told):
    shown = told(reply(Text(text="Well"), stop_reason="length"), "r")
    assert shown == [Block("Well"), Notice("the model stopped: length", "warn")]


# ── cut ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_interrupted_reply_that_begins_again(told):
    """The displayed text stays, and a notice says that it is void."""
    told(ModelCall(reply_id="r"))
    told.pieces("r", [TextDelta("One.\n\nTw")])
    assert told(Partial(reply_id="r", content=(Text(text="One.\n\nTwo"),))) == []
    assert told.talk.unfinished_lines(5) == ["Two"]
    assert told(Resumed(reply_id="r")) == [Block("Two"), Notice("reply interrupted; starting over", "warn")]
    told(ModelCall(reply_id="r"))
    assert told.pieces("r", [TextDelta("New.\n\n")]) == [Block("New.")]
    assert told(reply(Text(text="New.\n\nEnd.")), "r") == [Block("End.")]


def test_an_interrupted_reply_that_is_resumed(told):
    """No block is split: the interrupted one is finished by what follows."""
    told(ModelCall(reply_id="r"))
    told(Partial(reply_id="r", content=(Thinking(thinking="Hm."), Text(text="One.\n\nTw"))))
    assert told(Resumed(reply_id="r", strategy="resume", prior_chars=8)) == []
    told(ModelCall(reply_id="r"))
    assert told.pieces("r", [ThinkingDelta("Go on."), TextDelta("o.\n\n")]) == [
        Block("Tw"),
        Thought("Go on."),
        Block("o."),
    ]
    told2 = TranscriptRig()
    told2(ModelCall(reply_id="r"))
    told2(Partial(reply_id="r", content=(Text(text="One.\n\nTw"),)))
    told2(Resumed(reply_id="r", strategy="resume", prior_chars=8))
    assert told2.pieces("r", [TextDelta("o.\n\n")]) == [Block("Two.")]
    assert told2(reply(Text(text="One.\n\nTwo.\n\nEnd")), "r") == [Block("End")]


def test_a_fault_and_a_retry(told):
    told(ModelCall(reply_id="r"))
    told.pieces("r", [TextDelta("Half")])
    told(Partial(reply_id="r", content=(Text(text="Half a"),)))
    fault = FaultReport(kind="overloaded", message="busy", retryable=True)
    assert told(Failed(reason="call", error=fault)) == [Block("Half a"), Notice("the model call failed: busy", "warn")]
    assert told(ModelCall(reply_id="s")) == [Notice("retrying (attempt 2)", "dim")]
    last = FaultReport(kind="auth", message="no key")
    assert told(Failed(reason="call", error=last)) == [Notice("the turn failed: no key; /retry runs it again", "bad")]


def test_a_moved_head(told):
    """TREE-3: it is reported, unless a command moved it as part of its work."""
    assert told(Head(target_id="e1")) == [Notice("head moved; the next message continues from there", "dim")]
    told.talk.expected_head_moves.add("x")
    assert told(Head(target_id="e1"), "x") == []


def test_a_cancelled_turn(told):
    told(ModelCall(reply_id="r"))
    told.pieces("r", [TextDelta("Half")])
    told(Queued(mode="cancel"))
    assert told.talk.cancelling
    assert told(Cancelled()) == [Block("Half"), Notice("cancelled", "warn")]
    assert not told.talk.cancelling


# ── tools and people ─────────────────────────────────────────────────────────────────────────────


def test_a_tool_is_live_until_its_result(told):
    told(reply(ToolCall(id="t", name="shell", input={"command": "make"})), "r")
    told(ToolStarted(reply_id="r", tool_call_id="t", name="shell"), "s")
    told.pieces("s", [TextDelta("x" * 1000 + "\n"), TextDelta("last")])
    (tool,) = told.talk.tools.values()
    assert (tool.name, tool.input, tool.output[-5:], len(tool.output)) == ("shell", {"command": "make"}, "\nlast", 400)
    result = ToolResult(tool_call_id="t", tool_name="shell", reply_id="r", status="ok", content="done")
    assert told(Message(message=result)) == [ToolUse("shell", {"command": "make"}, result)]
    assert told.talk.tools == {}


def test_tool_calls_of_sub_agents_are_shown_and_their_replies_are_not(told):
    told(reply(ToolCall(id="t", name="agent", input={"prompt": "look"})), "r")
    told(Spawned(child_session="child", reply_id="r", tool_call_id="t"))
    assert told(Message(message=Prompt(content="look")), session="child") == []
    assert told(reply(Text(text="I will"), ToolCall(id="t", name="read", input={})), "q", "child") == []
    result = ToolResult(tool_call_id="t", tool_name="read", reply_id="q", status="ok")
    assert told(Message(message=result), session="child") == [ToolUse("read", {}, result, in_subagent=True)]
    assert [tool.name for tool in told.talk.tools.values()] == ["agent"]


def test_a_queued_message_is_shown_until_it_is_taken_up(told):
    told(Queued(message=Prompt(content="and then?")), "q")
    assert list(told.talk.queue) == ["q"]
    assert told(Message(message=Prompt(content="and then?", queued_id="q"))) == [UserMessage("and then?")]
    assert told.talk.queue == {}


def test_a_change_is_not_shown_again_after_its_approval(told):
    told(reply(ToolCall(id="t", name="edit", input={})), "r")
    told.talk.inputs_shown.add((HERE, "r", "t"))
    result = ToolResult(tool_call_id="t", tool_name="edit", reply_id="r", status="ok")
    assert told(Message(message=result)) == [ToolUse("edit", {}, result, input_shown=True)]


# ── decisions ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("session", "inside"), [(HERE, False), ("crab_user_1_sub", True)])
def test_a_decision_is_shown_with_its_call(told, session, inside):
    """RUN-13: read from the log, whichever process decided, and wherever the call is."""
    told(reply(ToolCall(id="c", name="shell", input={"command": "ls"})), "r", session)
    assert told(Attention(reason="approve", reply_id="r", tool_call_id="c"), "q", session) == []
    (shown,) = told(AttentionResolved(attention_id="q", decision="deny"), session=session)
    assert (shown.decision.decision, shown.name, shown.input) == ("deny", "shell", {"command": "ls"})
    assert shown.in_subagent is inside


def test_a_decision_about_an_unknown_call_is_shown_too(told):
    (shown,) = told(AttentionResolved(attention_id="q", decision="ran"))
    assert isinstance(shown, Decision)
    assert (shown.decision.decision, shown.name) == ("ran", "")


def test_a_tool_that_may_run_without_approval_from_now_on_is_reported(told):
    """In the words of the transcript; the settings that a session begins with are not reported."""
    assert told(ContextEntry(policy={"approval": "ask"})) == []
    changed = told(ContextEntry(policy={"approval": "ask", "approvals": {"shell": "auto"}}))
    assert changed == [Notice("context: shell runs without approval")]
