"""ST-9, VIEW-8: calls that a provider ran itself are recognised in the data bound to a reply, of any shape."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.log.content import Text, ToolCall
from wakelog.log.provider_calls import ProviderCall, provider_calls

SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "tides"},
}
USE = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "tides"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv_1",
    "content": [
        {"type": "web_search_result", "title": "Tide", "url": "https://tides.example", "encrypted_content": "zzz"},
        {"type": "other", "n": 1, "encrypted_index": "yyy"},
    ],
}


def bound(*data):
    return tuple(Text(text="", bound=each) for each in data)


def test_an_item_of_openai_is_a_call_with_its_outcome():
    files = {"type": "file_search_call", "status": "failed", "queries": ["a"], "results": [{"text": "b"}]}
    server = {"type": "mcp_call", "id": "m", "name": "fetch", "arguments": "{}", "output": "page", "server_label": "s"}
    assert provider_calls(bound({"item": SEARCH}, {"item": files}, {"item": server})) == {
        0: ProviderCall(id="ws_1", name="web_search", input=SEARCH["action"], status="ok", result="", api="openai"),
        1: ProviderCall(
            id="file_search_call_1",
            name="file_search",
            input={"queries": ["a"]},
            status="error",
            result='[{"text": "b"}]',
            api="openai",
        ),
        2: ProviderCall(id="m", name="fetch", input={"arguments": "{}"}, status="ok", result="page", api="openai"),
    }


def test_two_blocks_of_anthropic_are_one_call():
    call = ProviderCall(
        id="srv_1",
        name="web_search",
        input={"query": "tides"},
        status="ok",
        result='Tide https://tides.example\n{"type": "other", "n": 1}',
        api="anthropic",
    )
    assert provider_calls(bound(USE, FOUND)) == {0: call, 1: None}


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ((), "unknown"),
        (({**FOUND, "content": {"type": "web_search_tool_result_error", "error_code": "too_many"}},), "error"),
        (({**FOUND, "is_error": True},), "error"),
    ],
)
def test_the_status_is_what_the_outcome_says(outcome, status):
    """RUN-7: a call whose outcome is not recorded is unknown."""
    call = provider_calls(bound(USE, *outcome))[0]
    assert call.status == status


def test_other_parts_are_no_such_calls():
    function = {"item": {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}}
    parts = (
        Text(text="Look", bound={"citations": []}),
        Text(text="x", bound=USE),
        ToolCall(id="c", name="ls", bound={"item": SEARCH}),
        *bound(function, FOUND, {"item": {"type": "compaction"}}, {"type": "redacted_thinking"}),
    )
    assert provider_calls(parts) == {}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_known = dict.fromkeys(("id", "name", "input", "status", "action", "content", "tool_use_id", "error", "results"), _json)
_blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(("web_search_call", "server_tool_use", "web_search_tool_result", "x")) | _json},
    optional=_known,
)


@given(
    st.lists(_blocks | st.builds(lambda block: {"item": block}, _blocks | _json) | st.dictionaries(st.text(), _json))
)
def test_any_data_are_read_without_an_error(data):
    """Rule 3 of bound data: a log is untrusted."""
    parts = bound(*data)
    for at, call in provider_calls(parts).items():
        assert parts[at].bound
        assert call is None or (call.id and isinstance(call.name, str) and isinstance(call.result, str))
