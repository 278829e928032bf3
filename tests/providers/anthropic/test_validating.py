"""The judge finds what it is there for: each complaint is made of a body that is good but for that."""

import copy

import pytest

from tests.providers.anthropic.validating import complaints

MARK = {"cache_control": {"type": "ephemeral"}}
GOOD = {
    "model": "m",
    "max_tokens": 9,
    "stream": True,
    "system": [{"type": "text", "text": "Be brief.", **MARK}],
    "tools": [{"name": "read", "input_schema": {"type": "object"}, **MARK}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi", **MARK}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "s"},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {}},
                {"type": "tool_use", "id": "t2", "name": "read", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "no"}]},
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "ok"}], **MARK},
                {"type": "text", "text": "now"},
            ],
        },
    ],
}


def judge(body):
    return complaints(body, own={"s"}, injected=["now", " "])


def test_a_good_body_is_good():
    assert judge(GOOD) == []


def _said(body, at=2):
    return body["messages"][at]["content"]


SPOILED = {
    "nobody knows the key": lambda body: body.update(tempreature=1),
    "the SDK's types say": lambda body: body.update(max_tokens="many"),
    "nobody speaks": lambda body: body.update(messages=[]),
    "two messages of user": lambda body: body["messages"].insert(
        0, {"role": "user", "content": [{"type": "text", "text": "x"}]}
    ),
    "the user does not begin": lambda body: body["messages"].pop(0),
    "would have to be continued": lambda body: body["messages"].append(
        {"role": "assistant", "content": [{"type": "text", "text": "x"}]}
    ),
    "an empty message": lambda body: body["messages"][0].update(content=[]),
    "text that shows nothing": lambda body: _said(body, 0)[0].update(text=" \n"),
    "with more than it has": lambda body: _said(body, 0)[0].update(bound={}),
    "a result that shows nothing": lambda body: _said(body)[0].update(content=[]),
    "more than text": lambda body: _said(body)[0].update(
        is_error=True,
        content=[{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}],
    ),
    "are answered by": lambda body: _said(body)[0].update(tool_use_id="t3"),
    "are never answered": lambda body: body["messages"].pop(),
    "stands before a result": lambda body: _said(body).insert(0, {"type": "text", "text": "x"}),
    "in the wrong mouth": lambda body: _said(body, 0).append(_said(body, 1)[1]),
    "no id": lambda body: _said(body, 1)[1].update(id="t.1"),
    "no name": lambda body: _said(body, 1)[1].update(name=""),
    "no object": lambda body: _said(body, 1)[1].update(input=[]),
    "twice": lambda body: _said(body, 1)[1].update(id="t2"),
    "a thought in": lambda body: _said(body, 0).insert(0, _said(body, 1)[0]),
    "ends in a thought": lambda body: _said(body, 1).reverse(),
    "a thought of somebody else": lambda body: _said(body, 1)[0].update(signature="other"),
    "too many marks": lambda body: _said(body)[0].update(MARK),
    "a mark on a thought": lambda body: (_said(body, 0)[0].pop("cache_control"), _said(body, 1)[0].update(MARK)),
    "not at the end": lambda body: _said(body)[-1].update(text="later"),
    "a mark behind": lambda body: (_said(body, 0)[0].pop("cache_control"), _said(body)[-1].update(MARK)),
    "nothing that is said is marked": lambda body: [
        block.pop("cache_control", None) for at in (0, 2) for block in _said(body, at)
    ],
}


@pytest.mark.parametrize("complaint", SPOILED)
def test_every_complaint_is_made(complaint):
    body = copy.deepcopy(GOOD)
    SPOILED[complaint](body)
    assert any(complaint in each for each in judge(body)), judge(body)
