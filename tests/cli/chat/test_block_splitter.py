"""Streamed Markdown: however it is split, the same blocks; a displayed block never changes, and no line is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.cli.chat.items import BlockSplitter

LINES = [
    "",
    "",
    "   ",
    "words and more",
    "# Heading",
    "##",
    "- item",
    "* other",
    "12. numbered",
    "  inside",
    "    deep",
    "\ttabbed",
    "```python",
    "```",
    "~~~~",
    "~~~",
    "  ```",
    "    ```",
    "``` `x",
    "> quote",
    "| a | b |",
    "|---|---|",
    "---",
    "Title",
    "=====",
    "ended by CR\r",
]
texts = st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=8)), max_size=30).map("\n".join)


def blocks_of(text):
    """Return the blocks of a whole text."""
    splitter = BlockSplitter()
    return [*splitter.feed(text), *splitter.finish()]


def fed(pieces):
    splitter = BlockSplitter()
    left = [block for piece in pieces for block in splitter.feed(piece)]
    return left, splitter


def cut(text, places):
    places = sorted({min(place, len(text)) for place in places})
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@given(texts, st.lists(st.integers(0, 300), max_size=12))
def test_any_split_gives_the_same_blocks(text, places):
    blocks, splitter = fed(cut(text, places))
    assert [*blocks, *splitter.finish()] == blocks_of(text)
    assert splitter.finish() == []


@given(texts, texts)
def test_a_finished_block_never_changes(text, more):
    assert blocks_of(text + more)[: len(fed([text])[0])] == fed([text])[0]


@given(texts)
def test_no_line_with_text_is_lost(text):
    said = [line.removesuffix("\r") for line in text.split("\n") if line.strip()]
    assert [line for block in blocks_of(text) for line in block.split("\n") if line.strip()] == said


@given(texts, st.integers(1, 9))
def test_the_rest_is_the_unfinished_end(text, most):
    _, splitter = fed([text])
    rest = splitter.last_lines(most)
    left = [line for block in splitter.finish() for line in block.split("\n") if line.strip()]
    said = [line.removesuffix("\r") for line in rest if line.strip()]
    assert len(rest) <= most
    assert said == left[len(left) - len(said) :]
    assert said or not text.split("\n")[-1].strip()


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("a\nb\n\nc", ["a\nb", "c"]),
        ("# One\ntext", ["# One", "text"]),
        ("text\n# One", ["text", "# One"]),
        ("```\na\n\nb\n```\nafter", ["```\na\n\nb\n```", "after"]),
        ("text\n```\na\n```\n", ["text", "```\na\n```"]),
        ("~~~\n```\n~~~\nx", ["~~~\n```\n~~~", "x"]),
        ("````\n```\n````\nx", ["````\n```\n````", "x"]),
        ("- a\n\n  more\n\n- b\n\ntext", ["- a\n\n  more\n\n- b", "text"]),
        ("- a\n  ```\n  code\n\n  code\n  ```\n- b\n", ["- a\n  ```\n  code\n\n  code\n  ```\n- b"]),
        ("1. a\n\n2. b\n", ["1. a\n\n2. b"]),
        ("| a |\n|---|\n| 1 |\n\nx", ["| a |\n|---|\n| 1 |", "x"]),
        ("```\nnever closed", ["```\nnever closed"]),
        ("a `` ```\nb", ["a `` ```\nb"]),
        ("\n\n\n", []),
    ],
)
def test_blocks(text, blocks):
    assert blocks_of(text) == blocks


def test_a_finished_block_is_given_at_once():
    """A paragraph with the blank line after it, code with its closing fence."""
    assert [fed(["a\n\n"])[0], fed(["# H\n"])[0], fed(["```\nx\n```\n"])[0]] == [["a"], ["# H"], ["```\nx\n```"]]
    assert fed(["- a\n\n"])[0] == []
