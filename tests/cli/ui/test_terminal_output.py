"""What a terminal gets and a pipe does not: colours, shortened output, a limited list, a pager."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.cli.running import run_on_terminal
from wakelog.cli.ui.quantities import age_text, duration_text, size_text
from wakelog.cli.ui.terminal import TerminalStyle, clip, text_width, wrap
from wakelog.log.timestamps import iso_timestamp
from wakelog.session import Session


@pytest.fixture
def long(shell, story):
    """A session with a tool result of thirty lines and a side branch."""
    first = story.user(
        "Please have a look at the parser, which loses the last token when a file has no newline at its end."
    )
    reply = story.reply("I will.", calls=[("t1", "bash", {"command": "make test"})])
    story.result(reply, "t1", "\n".join(f"line {number}" for number in range(30)))
    story.reply("Another way.", at=first.id)
    return shell


def test_tool_output_is_shortened_on_a_terminal_only(long):
    shown = long.terminal("show", "crab_user_1", "--no-pager").out
    assert "… 26 more lines (--full)" in shown
    assert "line 29" not in shown
    assert "line 29" in long.terminal("show", "crab_user_1", "--no-pager", "--full").out
    assert "line 29" in long.process("show", "crab_user_1").out


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("command", ["show", "tree", "context", "ls"])
def test_nothing_is_wider_than_the_terminal(long, command, columns):
    words = (command,) if command == "ls" else (command, "crab_user_1", "--no-pager")
    shown = long.terminal(*words, "--color", "never", columns=columns).out
    assert max(text_width(line) for line in shown.splitlines()) <= columns


def test_colours(long):
    """On a terminal, except with NO_COLOR, TERM=dumb or --color never; in a pipe only on request."""
    words = ("tree", "crab_user_1")
    assert b"\x1b[" in long.terminal(*words, "--no-pager").raw
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert b"\x1b" not in long.terminal(*words, "--no-pager", env=env).raw
    assert b"\x1b" not in long.terminal(*words, "--no-pager", "--color", "never").raw
    assert b"\x1b" not in long.process(*words).raw
    assert b"\x1b[" in long.process(*words, "--color", "always").raw
    assert b"\x1b[" in long.process("--color", "always", *words).raw
    assert b"\x1b[" in long.process(*words, "--color", "always", env={"NO_COLOR": "1"}).raw


def test_ascii_where_there_is_no_utf8(long):
    """A tree is drawn with ASCII where the locale, or the stream, has no UTF-8."""
    for env in ({"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}):
        shown = long.process("tree", "crab_user_1", env=env).raw
        assert shown.isascii()
        assert b"|-o" in shown
        assert b"<- head" in shown
    long("append", "crab_user_1", "日本")
    shown = long.process("show", "crab_user_1", env={"PYTHONIOENCODING": "ascii"})
    assert (shown.code, "\\u65e5\\u672c" in shown.out) == (0, True)


def test_a_pager_on_a_terminal(long):
    """`$WAKELOG_PAGER` is used, except with --no-pager, a pipe or a dumb terminal; if it fails, output is printed."""
    pager = {"WAKELOG_PAGER": "sed s/^/PAGED:/"}
    assert long.terminal("show", "crab_user_1", env=pager).out.startswith("PAGED:")
    for words in (("show", "crab_user_1", "--no-pager"), ("--no-pager", "show", "crab_user_1"), ("ls",)):
        assert "PAGED:" not in long.terminal(*words, env=pager).out
    assert "PAGED:" not in long.terminal("show", "crab_user_1", env={**pager, "TERM": "dumb"}).out
    assert "PAGED:" not in long.process("show", "crab_user_1", env=pager).out
    missing = long.terminal("show", "crab_user_1", env={"PAGER": "/no/such/pager"})
    assert (missing.code, "crab_user_1" in missing.out) == (0, True)


def test_a_pager_that_is_quit_early(long):
    """Quitting a pager is no error."""
    assert long.terminal("show", "crab_user_1", env={"WAKELOG_PAGER": "true"}).code == 0


def test_a_long_list_is_limited_on_a_terminal(shell, store):
    """Thirty rows and a hint; everything in a pipe."""
    for _ in range(33):
        Session.create(store, agent="crab", sender="user").say("hi")
    shown = shell.terminal("ls").out
    assert shown.count("crab_user_") == 30
    assert "3 more sessions; `--limit 33` shows all" in shown
    assert shell.terminal("ls", "--limit", "40").out.count("crab_user_") == 33
    assert shell.process("ls").out.count("crab_user_") == 33


def test_a_progress_bar_for_long_work(shell, story):
    """After a second, and on a terminal only. Here the delay is removed, so that the test need not be slow."""
    program = (
        "import sys, wakelog.cli.ui.output as progress; progress._BAR_DELAY_S = -1\n"
        "from wakelog.cli.main import run; sys.exit(run(['ls', '--all']))"
    )
    seen = run_on_terminal([sys.executable, "-c", program], 80, dict(os.environ))
    assert seen.code == 0
    assert "Reading sessions" in seen.out
    again = run_on_terminal([sys.executable, "-c", program], 80, dict(os.environ))
    assert "Reading sessions" not in again.out
    shutil.rmtree(shell.folder / "cache")
    piped = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (piped.stderr, "Reading" in piped.stdout) == ("", False)


# ── the drawing ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("日本", 4), ("é", 1), ("a日", 3), ("", 0), ("⚠️", 2), ("ｆｕｌｌ", 8)]
)
def test_cells(text, width):
    assert text_width(text) == width


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 4, "abc…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
    ],
)
def test_clip(text, width, cut):
    assert clip(TerminalStyle(), text, width) == cut


@pytest.mark.parametrize("width", [1, 2, 5, 10, 40])
@pytest.mark.parametrize("text", ["", "a b c", "word " * 30, "x" * 100, "日本語" * 20, "    indented code"])
def test_wrap_loses_no_word(text, width):
    lines = wrap(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(text_width(line) <= max(2, width) for line in lines)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "now"), (4, "now"), (5, "5s"), (59, "59s"), (60, "1m"), (3_600, "1h"), (86_399, "23h"), (86_400, "1d")],
)
def test_ago(seconds, said):
    now = 1_800_000_000_000
    assert age_text(iso_timestamp(now - seconds * 1_000), now) == said


def test_unreadable_times():
    assert age_text("yesterday", 0) == ""
    assert age_text("2026-01-01T00:00:00.000Z", 0) == "2026-01-01"
    assert age_text("2020-01-01T00:00:00.000Z", 1_800_000_000_000) == "2020-01-01"


def test_amounts():
    assert [duration_text(ms) for ms in (5, 3_210, 600_000)] == ["5 ms", "3.2 s", "10 min"]
    assert [size_text(count) for count in (0, 999, 1_000, 4_100_000, 10**15)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "4.1 MB",
        "1000.0 TB",
    ]
