"""The tool `grep`: limited output, in order, and stopped when a pattern would take for ever."""

import asyncio
import os

import pytest

from tests.tools.asking import ask, invocation, refusal
from wakelog.tools import builtin_tools, commands
from wakelog.tools.function_tool import by_name
from wakelog.tools.grep_program import FILE_MAX_BYTES


@pytest.fixture
def search(tmp_path):
    made = by_name(builtin_tools(str(tmp_path)))["grep"]
    return lambda **arguments: ask(made, **arguments).text.split("\n")


@pytest.fixture
def files(tmp_path):
    for name, text in {
        "b.py": "import os\nprint('Needle')\n",
        "a.txt": "needle\n\nno\r\nneedle",
        "src/deep/c.py": "needle = 1\n",
        "src/d.py": "needle = 2\n",
        ".git/config": "needle\n",
        ".hidden": "needle\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "binary").write_bytes(b"needle\0")
    return tmp_path


def test_matches_are_in_the_order_of_names(files, search):
    everywhere = [".hidden:1: needle", "a.txt:1: needle", "a.txt:4: needle"]
    assert search(pattern="needle") == [*everywhere, "src/d.py:1: needle = 2", "src/deep/c.py:1: needle = 1"]
    assert search(pattern="(?i)NEEDLE", glob="*.py", path=".") == [
        "b.py:2: print('Needle')",
        "src/d.py:1: needle = 2",
        "src/deep/c.py:1: needle = 1",
    ]


def test_paths_and_globs(files, search):
    assert search(pattern="needle", path="src") == ["src/d.py:1: needle = 2", "src/deep/c.py:1: needle = 1"]
    assert search(pattern="needle", path="a.txt") == ["a.txt:1: needle", "a.txt:4: needle"]
    assert search(pattern="needle", glob="src/deep/*.py") == ["src/deep/c.py:1: needle = 1"]
    assert search(pattern="needle", glob="**/*.txt") == ["a.txt:1: needle", "a.txt:4: needle"]
    assert search(pattern="needle", path="a.txt", glob="*.py") == ["[no line matches]"]


def test_line_ends_and_empty_lines_are_matched(files, search):
    """Line ends are found, empty lines count, and the end of the file is not a line."""
    assert search(pattern="^$", path="a.txt") == ["a.txt:2: "]
    assert search(pattern="no$", path="a.txt") == ["a.txt:3: no"]
    assert search(pattern="^$", path="b.py") == ["[no line matches]"]


def test_too_many_matches_are_clipped_with_a_notice(tmp_path, search):
    (tmp_path / "f").write_text("x\n" * (commands.GREP_HITS + 1))
    found = search(pattern="x")
    assert len(found) == commands.GREP_HITS + 1
    assert found[-1] == f"[only the first {commands.GREP_HITS} hits are shown: narrow the pattern or the path]"
    (tmp_path / "f").write_text("x\n" * commands.GREP_HITS)
    assert search(pattern="x")[-1] == f"f:{commands.GREP_HITS}: x"


def test_skipped_files_are_reported(tmp_path, search):
    (tmp_path / "large").write_bytes(b"x" * (FILE_MAX_BYTES + 1))
    (tmp_path / "link").symlink_to("large")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_text("y" * 10_000 + "x")
    assert search(pattern="x") == [
        f"long:1: {'y' * 400} […]",
        f"[1 not searched: larger than {FILE_MAX_BYTES:,} bytes]",
        "[1 not searched: link]",
    ]


def test_hostile_lines_stay_on_their_line(tmp_path, search):
    """Law 13: the content of a file gives neither terminal sequences nor extra lines."""
    (tmp_path / "f").write_bytes(b"x\x1b[2J\x0b\xc2\x85\xe2\x80\xa8y\xff\tz\n")
    assert search(pattern="x") == ["f:1: x\\x1b[2J\\x0b\\x85\\u2028y\ufffd\tz"]


def test_invalid_searches_are_refused(tmp_path):
    made = by_name(builtin_tools(str(tmp_path)))["grep"]
    assert refusal(made, pattern="(") == "not a regular expression: missing ), unterminated subpattern at position 0"
    assert refusal(made, pattern="x", path="none") == "cannot search: there is no such file or folder"


def test_a_pattern_that_takes_for_ever_is_stopped(tmp_path, monkeypatch):
    """The search can be stopped although it never yields; the event loop is not blocked."""
    monkeypatch.setattr(commands, "_GREP_TIMEOUT_S", 0.5)
    (tmp_path / "f").write_text("a" * 60 + "!")
    made = by_name(builtin_tools(str(tmp_path)))["grep"]
    assert refusal(made, pattern="(a+)+$").startswith("the search for (a+)+$ took longer than 0.5 s")


def test_a_search_can_be_cancelled(tmp_path):
    (tmp_path / "f").write_text("a" * 60 + "!")
    made = by_name(builtin_tools(str(tmp_path)))["grep"]

    async def main():
        task = asyncio.create_task(made.run(invocation(pattern="(a+)+$")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
