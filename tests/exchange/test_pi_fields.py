"""ST-9: what pi stores beside messages, which call a result answers, and ids that no other session has."""

import json

import pytest

from tests.exchange.pi_records import Chain, bodies, call, header, messages, read, stamp, tree_of
from tests.exchange.pi_written import to_write
from tests.exchange.samples import account_of
from wakelog.exchange.pi import entries as pi_entries
from wakelog.exchange.pi.writer import write_session
from wakelog.log.content import ToolResult, Usage
from wakelog.log.entry import Custom, Message, Partial

_SPENT = {"input": 1000, "output": 5, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 1}}


def _fields(entries):
    return [entry.data for entry in entries if isinstance(entry, Custom) and entry.custom_type == "pi:fields"]


# ── fields ───────────────────────────────────────────────────────────────────────────────────────


def test_fields_of_records_are_kept():
    chain = Chain(header())
    chain.add("message", "u1", appendMode="now", message={"role": "user", "content": "Hi"})
    chain.add("model_change", "m1", provider="p", modelId="m", source="cli")
    chain.add("thinking_level_change", "k1", thinkingLevel="high", reason="asked")
    chain.add("custom", "x1", customType="todo", data=1, owner="me")
    chain.add("label", "l1", targetId="u1", label="L", color="red")
    chain.add("session_info", "i1", name="N", icon="star")
    chain.add("leaf", "f1", targetId="u1", why="undo")
    entries = bodies(*chain.records)
    assert _fields(entries) == [
        {"record": {"appendMode": "now"}},
        {"source": "cli"},
        {"reason": "asked"},
        {"owner": "me"},
        {"color": "red"},
        {"icon": "star"},
        {"why": "undo"},
    ]
    prompt = next(entry for entry in entries if isinstance(entry, Message))
    kept = next(entry for entry in entries if isinstance(entry, Custom) and entry.parent_id == prompt.id)
    assert tree_of(entries).head == kept.id


def _reply_with_fields():
    content = [
        {"type": "text", "text": "x", "citations": [1]},
        {**call("c|fc_1"), "thoughtSignature": "sig", "partialJson": "{"},
    ]
    usage = {
        "input": 1,
        "output": 2,
        "reasoning": 777,
        "totalTokens": 3,
        "cost": {"input": 0.1, "total": 0.5, "tax": 1},
    }
    more = {"api": "openai-codex-responses", "provider": "openai-codex", "model": "m", "stopReason": "toolUse"}
    image = {"type": "image", "data": "QQ==", "mimeType": "image/png", "fileName": "a.png"}
    return Chain(header()).say("u", "user", [image]).say("r", "assistant", content, usage=usage, **more)


def test_fields_of_parts_and_of_usage_are_kept():
    entries = bodies(*_reply_with_fields().records)
    assert _fields(entries) == [
        {"parts": {"0": {"fileName": "a.png"}}},
        {
            "parts": {"0": {"citations": [1]}, "1": {"partialJson": "{"}},
            "usage": {"reasoning": 777, "cost": {"tax": 1}},
            "api": "openai-codex-responses",
        },
    ]
    [found] = messages(entries)[1].tool_calls
    assert found.bound == {"id": "fc_1", "thoughtSignature": "sig"}


def test_fields_go_back_into_their_records():
    records = _reply_with_fields().records
    records[1]["appendMode"] = "now"
    [file] = write_session(to_write(read(*records), bodies(*records))).files
    _, prompt, reply = map(json.loads, file.content.splitlines())
    assert prompt["appendMode"] == "now"
    assert prompt["message"]["content"] == records[1]["message"]["content"]
    message = reply["message"]
    assert (message["api"], message["content"]) == ("openai-codex-responses", records[2]["message"]["content"])
    assert (message["usage"]["reasoning"], message["usage"]["input"]) == (777, 1)


def test_model_calls_of_tools_and_of_summaries_are_counted():
    chain = Chain(header()).say("u", "user", "Go").say("r", "assistant", [call("c")])
    chain.say("t", "toolResult", "ok", toolCallId="c", toolName="task", usage=_SPENT)
    chain.add("branch_summary", "b", fromId="t", summary="S", usage=_SPENT)
    entries = bodies(*chain.records)
    spent = [entry for entry in entries if isinstance(entry, Partial)]
    assert [each.usage for each in spent] == [Usage(input_tokens=1000, output_tokens=5, cost_micros=1_000_000)] * 2
    assert [each.content for each in spent] == [(), ()]
    assert spent[0].reply_id == messages(entries, ToolResult)[0].reply_id
    assert spent[1].reply_id == spent[1].parent_id


# ── results ──────────────────────────────────────────────────────────────────────────────────────


def _texts(chain):
    return [message.text for message in messages(bodies(*chain.records), ToolResult)]


def test_a_result_on_another_branch_than_its_call_is_verbatim():
    chain = Chain(header()).say("u", "user", "Go").say("r", "assistant", [call("c")])
    chain.say("u2", "user", "Other", parent="u").say("t", "toolResult", "lost", toolCallId="c")
    assert _texts(chain) == []
    assert account_of(read(*chain.records).items)["verbatim"] == 2


def test_a_second_result_of_a_call_is_verbatim_on_the_same_branch_only():
    chain = Chain(header()).say("u", "user", "Go").say("r", "assistant", [call("c")])
    chain.say("t1", "toolResult", "one", toolCallId="c").say("t2", "toolResult", "two", toolCallId="c")
    chain.say("t3", "toolResult", "three", parent="r", toolCallId="c")
    assert _texts(chain) == ["one", "three"]


def test_results_of_calls_with_one_id_take_few_steps(monkeypatch):
    """Results that all stand directly under their reply are found without passing over each other."""
    steps = 0

    class Counted(dict[str, str]):
        def get(self, key, default=None):
            nonlocal steps
            steps += 1
            return super().get(key, default)

    real = pi_entries.EntryReader.__init__

    def counting(self, *given, **named):
        real(self, *given, **named)
        self._anchors = Counted()

    monkeypatch.setattr(pi_entries.EntryReader, "__init__", counting)
    chain = Chain(header()).say("r", "assistant", [call("c")] * 200)
    for number in range(200):
        chain.say(f"t{number}", "toolResult", "x", parent="r", toolCallId="c")
    assert len(_texts(chain)) == 200
    assert steps < 1_000


# ── ids ──────────────────────────────────────────────────────────────────────────────────────────


def test_equal_ids_in_two_sessions_are_not_one_entry():
    """Ids of pi have 8 digits: only with the time are they those of one record, and of its copies in forks."""
    first = Chain(header()).say("1a2b3c4d", "assistant", "One").records
    other = json.loads(json.dumps(first))
    other[1]["timestamp"] = stamp(50)
    ids = [bodies(*records)[1].id for records in (first, other, [header(id="fork"), *first[1:]])]
    assert ids[0] == ids[2] != ids[1]


@pytest.mark.parametrize("time", [None, [], {}])
def test_ids_of_records_without_a_time_are_those_of_their_session(time):
    record = {"type": "message", "id": "m1", "parentId": None, "message": {"role": "user", "content": "Hi"}}
    record |= {"timestamp": time}
    assert bodies(header(), record)[1].id != bodies(header(id="other"), record)[1].id
