"""The demo model's sentences become tool calls, completely or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.providers.demo import parse_prompt


def wished(prompt):
    steps = parse_prompt(prompt)
    return steps if steps is None else [[(wish.tool, wish.input) for wish in step] for step in steps]


@pytest.mark.parametrize(
    ("prompt", "tool", "given"),
    [
        ("read notes.txt", "read", {"path": "notes.txt"}),
        ("Please READ the file notes.txt.", "read", {"path": "notes.txt"}),
        ("can you show me 'my notes.txt'?", "read", {"path": "my notes.txt"}),
        ("list", "list", {"path": "."}),
        ("ls ..", "list", {"path": ".."}),
        ("list all the files in src/", "list", {"path": "src/"}),
        ("list the folder src.", "list", {"path": "src"}),
        ("grep TODO", "grep", {"pattern": "TODO", "path": "."}),
        ("search for two words in src", "grep", {"pattern": "two words", "path": "src"}),
        ('find "x in y" in docs', "grep", {"pattern": "x in y", "path": "docs"}),
        ("run make test", "shell", {"command": "make test"}),
        ("run ls .", "shell", {"command": "ls ."}),
        ("$ echo hi", "shell", {"command": "echo hi"}),
        ("execute `if true; then echo 'a and b'; fi`", "shell", {"command": "if true; then echo 'a and b'; fi"}),
        ('run git commit -m "read and then write"', "shell", {"command": 'git commit -m "read and then write"'}),
        ("write hello to notes.txt", "write", {"path": "notes.txt", "content": "hello\n"}),
        ("write don't go to bed to it.txt", "write", {"path": "it.txt", "content": "don't go to bed\n"}),
        ('put "one\ntwo" into the file a.txt', "write", {"path": "a.txt", "content": "one\ntwo\n"}),
        ("replace cat with dog in a.txt", "edit", {"path": "a.txt", "old": "cat", "new": "dog"}),
        ('replace "a with b" by "c in d" in e', "edit", {"path": "e", "old": "a with b", "new": "c in d"}),
        ("count the lines in a.txt", "shell", {"command": "wc -l -- a.txt"}),
        ("count characters of '$(x) y'", "shell", {"command": "wc -m -- '$(x) y'"}),
        ("ask an agent to read notes.txt", "agent", {"prompt": "read notes.txt"}),
        ('ask a sub-agent "read a, then list b"', "agent", {"prompt": "read a, then list b"}),
        ('use weather with {"town": "Rome and then some"}', "weather", {"town": "Rome and then some"}),
        ("use weather", "weather", {}),
    ],
)
def test_one_step(prompt, tool, given):
    """The sentences that the demo model understands."""
    assert wished(prompt) == [[(tool, given)]]


@pytest.mark.parametrize(
    "prompt",
    [
        "read a.txt and then run pwd",
        "read a.txt, then run pwd",
        "read a.txt. Then run pwd",
        "read a.txt and run pwd",
        "- read a.txt\n- run pwd",
        "1. read a.txt\n\n2. please run pwd\n",
    ],
)
def test_steps_in_order(prompt):
    assert wished(prompt) == [[("read", {"path": "a.txt"})], [("shell", {"command": "pwd"})]]


@pytest.mark.parametrize("prompt", ["read a, b and c", "read a and b, and c", "read the files a,b,c"])
def test_files_named_together_are_one_reply_with_several_calls(prompt):
    """Files named together are read together: one reply with several calls."""
    assert wished(prompt) == [[("read", {"path": path}) for path in "abc"]]


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        " \n ",
        "hello",
        "what can you do?",
        "show me what you can do",
        "run pwd and then dance",
        "dance, then run rm -rf x",
        "use weather with {bad}",
        "use weather with '[1]'",
        "write to notes.txt",
        "run if true; then echo hi; fi",
        "What was asked:\n- run make\n- read a.txt",
        "run " + "x" * 5_000,
    ],
)
def test_a_partly_understood_prompt_makes_no_call(prompt):
    """Where one part of a prompt is not understood, no part of it is run."""
    assert parse_prompt(prompt) is None


@given(
    st.text(max_size=200)
    | st.lists(
        st.sampled_from(["run", "read", "a.txt", "then", "and", "to", "in", "with", '"', "'", "`", ",", "\n"])
    ).map(" ".join)
)
def test_any_text_is_accepted(prompt):
    """Law 13: no text makes the rules fail, and every parsed step has a tool and a title."""
    for step in parse_prompt(prompt) or ():
        assert step
        assert all(wish.tool and wish.title for wish in step)
