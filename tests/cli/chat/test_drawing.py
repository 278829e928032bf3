"""Drawing of items: bounded, never wider than the terminal, and stored text is always escaped (law 13)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.payloads import PAYLOADS
from wakelog.cli.chat.drawing import ItemLayout, diff_lines, diff_tool_call, draw_item
from wakelog.cli.chat.items import Block, Decision, Item, Notice, RunningTool, Thought, ToolUse, UserMessage
from wakelog.cli.chat.live_area import (
    FrameTime,
    StatusFigures,
    live_lines,
    running_tool_line,
    status_line,
    thinking_line,
)
from wakelog.cli.chat.markdown import markdown_lines
from wakelog.cli.chat.session_list import Page, page_layout, page_lines
from wakelog.cli.chat.transcript import ChatTranscript
from wakelog.cli.ui.safe_text import hostile_characters
from wakelog.cli.ui.terminal import TerminalStyle, text_width
from wakelog.log.content import Prompt, TextDelta, ToolResult, Usage
from wakelog.log.entry import AttentionResolved, Entry, ModelCall, Queued
from wakelog.ports.catalogs import SessionRow

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PLAIN = TerminalStyle(colour=False, width=60)
BRIGHT = TerminalStyle(colour=True, width=60)
HOSTILE = [*PAYLOADS, "&#x202e;&#8206;&rlm;&#13;&#9;", "<b>&shy;</b>", "x" * 3_000]


def result(text="", **more):
    return ToolResult(**{"tool_call_id": "t", "tool_name": "shell", "status": "ok", "content": text, **more})


def everything(text):
    """Yield a stored text in every way in which it can be drawn."""
    markdown = [
        text,
        f"# {text}",
        f"- {text}",
        f"```{text}\n{text}\n```",
        f"| {text} |\n|---|\n| {text} |",
        f"[{text}]({text})",
    ]
    shown: list[Item] = [
        UserMessage(text),
        *map(Block, markdown),
        Block(f"![{text}](http://x/{text})\n\n> `{text}` **{text}**"),
        Thought(text),
        Notice(text),
        Decision(AttentionResolved(attention_id="a", decision=text, result=text), text, {"command": text}),
        ToolUse(text, {"command": text}, result(text)),
        ToolUse(text, {text: text}, result(text, status="error")),
        ToolUse("edit", {"path": text, "old": text, "new": text + "\n" + text, text: text}, result()),
        ToolUse("write", {"path": text, "content": text}, result()),
    ]
    for look in (BRIGHT, PLAIN):
        for one in shown:
            yield from draw_item(ItemLayout(look), one)
        yield running_tool_line(
            look, RunningTool(text, {"command": text}, "2026-01-01T00:00:00.000Z", output=text), "*", 0
        )
        yield thinking_line(look, text)
        yield status_line(look, StatusFigures(name=text, title=text, model=text, calls=1), "working", 1)
        yield from live_lines(look, talking(text), FrameTime(0))
        row = SessionRow(
            "i",
            text,
            text,
            text,
            text,
            text,
            1,
            text,
            0,
            text,
            1,
            1,
            text,
            text,
            1,
            False,
            0,
            text,
            None,
            False,
            0.0,
            "",
        )
        yield from page_lines(look, Page((row,), 0, text), text, 0, page_layout(30))


def talking(text):
    talk = ChatTranscript("s")
    talk.queue["q"] = Queued(message=Prompt(content=text))
    talk.add_entry("s", Entry(b"{}", ModelCall(id="c", reply_id="r", timestamp="2026-01-01T00:00:00.000Z"), 1))
    talk.add_piece("r", TextDelta(text))
    return talk


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_stored_text_reaches_a_terminal_unescaped(text):
    """Colours are wakelog's own; every other control or hidden character is drawn as a symbol."""
    for line in everything(text):
        assert not hostile_characters().search(COLOUR.sub("", line)), line


@given(st.text())
def test_no_markdown_reaches_a_terminal_unescaped(text):
    for look in (BRIGHT, PLAIN, TerminalStyle(utf8=False, width=20)):
        for line in markdown_lines(look, text):
            assert not hostile_characters().search(COLOUR.sub("", line))


# ── Markdown ─────────────────────────────────────────────────────────────────────────────────────


def drawn(text, look=PLAIN):
    return markdown_lines(look, text)


def test_markdown():
    assert drawn("# Title\n") == ["Title"]
    assert drawn("one\ntwo *three*") == ["one", "two three"]
    assert drawn("- a\n- b\n  - c") == [" • a", " • b", "    • c"]
    assert drawn("```\nx = 1\n```") == [" x = 1"]
    assert drawn("[a](http://b/c)") == ["a (http://b/c)"]
    assert drawn("> said") == ["▌ said"]
    assert [line.strip() for line in drawn("| a | b |\n|---|---|\n| 1 | 2 |")] == ["a  b", "────", "1  2"]
    assert drawn("   ") == []


def test_html_is_text():
    """A dropped tag would be text of the model that the reader never sees."""
    assert drawn("Use <div> and <!-- this --> &lt;b&gt;") == ["Use <div> and <!-- this --> <b>"]
    assert drawn("<script>alert(1)</script>") == ["<script>alert(1)</script>"]


def test_code_is_coloured_and_no_text_is_lost_without_colours():
    code = "```python\ndef f():\n    return 1\n```"
    assert COLOUR.search("".join(drawn(code, BRIGHT)))
    assert [COLOUR.sub("", line) for line in drawn(code, BRIGHT)] == drawn(code) == [" def f():", "     return 1"]


@pytest.mark.parametrize("width", [12, 20, 40, 100])
def test_markdown_is_no_wider_than_the_terminal(width):
    text = (
        "# A rather long title of it\n\nwords " * 9
        + "\n\n- "
        + "item " * 20
        + "\n\n```\n"
        + "code " * 30
        + "\n```\n日本語日本語日本語"
    )
    assert max(map(text_width, drawn(text, TerminalStyle(width=width)))) <= width


def test_ascii_where_there_is_no_utf8():
    text = "# T\n\n- a\n\n> q\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---"
    assert all(line.isascii() for line in drawn(text, TerminalStyle(width=40, utf8=False)))
    assert all(line.isascii() for line in markdown_lines(PLAIN, text, boxes=False))


def test_a_very_long_block_is_not_laid_out():
    """The terminal wraps it; the time grows with its length only."""
    assert drawn("x" * 200_000) == ["x" * 200_000]


# ── tools ────────────────────────────────────────────────────────────────────────────────────────


def lines_of(shown, look=PLAIN):
    return draw_item(ItemLayout(look), shown)


def test_a_tool_is_one_line():
    ls = {"command": "ls"}
    assert lines_of(ToolUse("shell", ls, result("a\nb\nc\n", duration_ms=312))) == ["✓ shell ls · 312 ms · 3 lines"]
    assert lines_of(ToolUse("shell", ls, result("one", duration_ms=3_100))) == ["✓ shell ls · 3.1 s"]
    assert lines_of(ToolUse("shell", ls, result(status="denied"))) == ["✗ shell ls · denied"]
    assert lines_of(ToolUse("shell", ls, result(status="unknown"))) == ["! shell ls · unknown"]
    assert lines_of(ToolUse("read", {}, result(), in_subagent=True)) == ["  ✓ read"]
    assert lines_of(ToolUse("shell", ls, result("no such file", status="error"))) == ["✗ shell ls", "  no such file"]
    plain = TerminalStyle(width=60, utf8=False)
    assert lines_of(ToolUse("shell", ls, result("a\nb")), plain) == ["v shell ls - 2 lines"]


def test_long_items_are_shortened_with_a_count():
    many = "\n".join(f"line {number}" for number in range(50))
    assert lines_of(UserMessage(many))[-1] == "  … 38 more lines"
    assert lines_of(ToolUse("x", {}, result(many, status="error")))[-1] == "  … 46 more lines"
    write = ToolUse("write", {"path": "x", "content": many}, result())
    assert (len(lines_of(write)), lines_of(write)[-1]) == (18, "  … 34 more lines")
    assert len(diff_lines(PLAIN, "write", {"path": "x", "content": many})) == 50


def test_a_decision_is_one_dim_line():
    approve = AttentionResolved(attention_id="a", decision="approve")
    assert lines_of(Decision(approve, "shell", {"command": "ls -l"})) == ["· decided: approve · shell ls -l"]
    assert lines_of(Decision(approve, "shell", {"command": "ls"}, in_subagent=True)) == [
        "  · decided: approve · shell ls"
    ]
    assert lines_of(Decision(approve)) == ["· decided: approve"]
    (long,) = lines_of(Decision(approve, "shell", {"command": "word " * 40}), BRIGHT)
    assert long.startswith("\x1b[2m")
    assert text_width(COLOUR.sub("", long)) <= 60


FAMILY = "👨\u200d👩\u200d👧"


@given(st.lists(st.sampled_from([FAMILY, "🇩🇪", "👍🏽", "w", "日"]), min_size=1, max_size=40))
def test_the_end_of_thinking_is_cut_between_graphemes(said):
    """As many of the last graphemes as have room, none of them split."""
    ends = ["".join(said[at:]) for at in range(len(said))]
    for between in (" ", ""):
        shown = thinking_line(PLAIN, between.join(said))
        assert shown.removeprefix("∴ thinking … ").replace(" ", "") in ends
        assert text_width(shown) <= 60


def test_thinking_is_one_line():
    assert lines_of(Thought("First this.\nThen " + "that " * 50)) == ["∴ thought, 53 words: First this."]


@pytest.mark.parametrize("columns", [12, 30, 80])
def test_lines_of_tools_fit(columns):
    look = TerminalStyle(width=columns)
    used = ToolUse("a_tool_with_a_long_name_indeed", {"command": "word " * 40}, result("a\nb", duration_ms=90_000))
    assert text_width(lines_of(used, look)[0]) <= max(columns, 40)
    tool = RunningTool("shell", {"command": "word " * 40}, "2026-01-01T00:00:00.000Z", output="out " * 40)
    assert text_width(running_tool_line(look, tool, "*", 0)) <= columns


# ── diffs ────────────────────────────────────────────────────────────────────────────────────────


def edit_diff(given):
    """Return the diff of an `edit` call, which must have one."""
    lines = diff_tool_call("edit", given)
    assert lines is not None
    return lines


def test_diffs():
    given = {"path": "x", "old": "a\nb\nc", "new": "a\nB\nc"}
    assert diff_tool_call("edit", given) == [(" ", "a"), ("-", "b"), ("+", "B"), (" ", "c")]
    assert edit_diff({**given, "all": True})[0] == (" ", "(all: true)")
    assert diff_tool_call("write", {"path": "x", "content": "a\nb\n"}) == [("+", "a"), ("+", "b")]
    assert diff_tool_call("write", {"path": "x", "content": ""}) == []
    assert [
        diff_tool_call("shell", {"command": "x"}),
        diff_tool_call("edit", "x"),
        diff_tool_call("edit", {"path": 1}),
    ] == [None] * 3


@given(
    st.lists(st.sampled_from(["a", "b", "c", "? x", "- y", ""]), max_size=8),
    st.lists(st.sampled_from("abc"), max_size=8),
)
def test_a_diff_is_complete(old, new):
    """Both sides of a change can be read from it, so the approval covers what is shown."""
    lines = edit_diff({"path": "x", "old": "\n".join(old), "new": "\n".join(new)})
    assert "\n".join(line for sign, line in lines if sign != "+") == "\n".join(old)
    assert "\n".join(line for sign, line in lines if sign != "-") == "\n".join(new)


def test_a_very_long_change_is_not_compared():
    old = "\n".join(map(str, range(3_000)))
    assert edit_diff({"path": "x", "old": old, "new": "y"})[-1] == ("+", "y")


# ── the status ───────────────────────────────────────────────────────────────────────────────────

KNOWN = StatusFigures(
    name="crab_user_3",
    title="The parser",
    model="demo",
    tokens=4_100,
    compact_at=8_000,
    spent=Usage(input_tokens=1_500_000, output_tokens=20, cost_micros=12_300),
    calls=3,
)


def test_the_status_line():
    wide = status_line(TerminalStyle(width=140), KNOWN, "working", 2)
    assert wide == ("crab_user_3 · The parser · demo · context 4.1k/8k · spent 1.5M · $0.0123 · working · 2 questions")
    assert "cost unknown" in status_line(TerminalStyle(width=140), StatusFigures(spent=Usage(), calls=1), "", 0)
    assert status_line(TerminalStyle(width=80), StatusFigures(model="demo"), "", 0) == "a new session · demo"


@pytest.mark.parametrize("columns", [12, 20, 40, 60, 80])
def test_a_narrow_status_line_keeps_the_most_important_parts(columns):
    line = status_line(TerminalStyle(width=columns), KNOWN, "working", 1)
    assert text_width(line) <= columns
    assert line.startswith("crab_user_")
    assert columns < 40 or ("working" in line and "1 question" in line)
