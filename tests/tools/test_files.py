"""The tools `read` and `list`: limited output, notices about what is missing.

Nothing outside of the working folder.
"""

import os

import pytest

from tests.tools.asking import ask, refusal
from wakelog.tools import builtin_tools
from wakelog.tools.files import LIST_ENTRIES, READ_BYTES
from wakelog.tools.function_tool import by_name


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "work"
    place.mkdir()
    return place


@pytest.fixture
def tools(folder):
    return by_name(builtin_tools(str(folder)))


def test_read_returns_the_exact_text(folder, tools):
    """The text can be passed to `edit`: line ends, blanks and a missing last LF included."""
    content = "a\r\n\tb  \n\nc€"
    (folder / "f").write_bytes(content.encode())
    assert ask(tools["read"], path="f").text == content
    assert ask(tools["read"], path=str(folder / "f")).text == content


def test_read_some_lines(folder, tools):
    (folder / "f").write_text("1\n2\n3\n4\n")
    assert ask(tools["read"], path="f", offset=3).text == "3\n4\n"
    assert ask(tools["read"], path="f", offset=4, limit=9).text == "4\n"
    some = ask(tools["read"], path="f", offset=2, limit=2).text
    assert some == "2\n3\n[lines 2 to 3; 2 bytes follow; go on with offset 4]"
    assert ask(tools["read"], path="f", offset=5).text == "[the file ends before line 5]"
    assert refusal(tools["read"], path="f", offset=7) == "there is no line 7: the file has 4"
    assert refusal(tools["read"], path="f", limit=0).startswith("bad arguments")


def test_a_large_file_comes_in_parts_that_join(folder, tools):
    """Reading from the offset in the notice gives every line once."""
    lines = [f"{number} {'x' * (number % 300)}\n" for number in range(5_000)]
    (folder / "f").write_text("".join(lines))
    found, offset = "", 1
    while True:
        text = ask(tools["read"], path="f", offset=offset).text
        part, bracket, note = text.rpartition("[lines ")
        found += part if bracket else text
        if not bracket:
            break
        assert len(part) <= READ_BYTES
        offset = int(note.rsplit(" ", 1)[1].rstrip("]"))
    assert found == "".join(lines)
    assert offset > 1


def test_a_very_long_line_is_truncated_with_a_notice(folder, tools):
    (folder / "f").write_text("x" * (READ_BYTES + 10) + "\nnext\n")
    text, _, note = ask(tools["read"], path="f").text.rpartition("\n")
    assert (len(text), note) == (READ_BYTES, "[line 1 is cut; 16 bytes follow; go on with offset 2]")
    assert ask(tools["read"], path="f", offset=2).text == "next\n"


def test_read_reports_what_is_not_a_text_file(folder, tools):
    (folder / "binary").write_bytes(b"\x7fELF\0\0")
    (folder / "latin").write_bytes(b"caf\xe9\n")
    (folder / "empty").write_bytes(b"")
    os.mkfifo(folder / "pipe")
    assert refusal(tools["read"], path="binary") == "binary is a binary file of 6 bytes"
    assert ask(tools["read"], path="latin").text == "caf\ufffd\n[bytes that are not UTF-8 are shown as \ufffd]"
    assert ask(tools["read"], path="empty").text == "[the file is empty]"
    assert refusal(tools["read"], path="pipe") == "cannot read pipe: it is not a regular file"
    assert refusal(tools["read"], path=".") == "cannot read .: it is a folder"
    assert refusal(tools["read"], path="none") == "cannot read none: No such file or directory"
    assert refusal(tools["read"], path="empty/x") == "cannot read empty/x: Not a directory"
    assert refusal(tools["read"], path="a\0b") == "not a path: 'a\\\\x00b'"
    assert refusal(tools["read"], path="").startswith("not a path")


def test_list(folder, tools):
    assert ask(tools["list"]).text == "[the folder is empty]"
    (folder / "b.txt").write_text("x" * 1234)
    (folder / ".hidden").mkdir()
    (folder / "link").symlink_to("b.txt")
    os.mkfifo(folder / "pipe")
    assert ask(tools["list"]).text.split("\n") == [".hidden/", "b.txt  1,234", "link -> b.txt", "pipe  (no file)"]
    assert refusal(tools["list"], path="b.txt") == "cannot list b.txt: Not a directory"


def test_hostile_names_stay_on_their_line(folder, tools):
    """Law 13: a file name can produce neither an extra line nor a terminal sequence, and is always UTF-8."""
    for name in (b"a\nb.txt", b"\x1b[31m", b"caf\xe9"):
        (folder / os.fsdecode(name)).write_text("word\n")
    assert ask(tools["list"]).text.split("\n") == ["\\x1b[31m  5", "a\\nb.txt  5", "caf\\xe9  5"]
    assert ask(tools["grep"], pattern="word").text.split("\n") == [
        "\\x1b[31m:1: word",
        "a\\nb.txt:1: word",
        "caf\\xe9:1: word",
    ]


def test_a_long_listing_is_truncated_with_a_notice(folder, tools):
    for number in range(LIST_ENTRIES + 5):
        (folder / f"{number:04}").touch()
    lines = ask(tools["list"]).text.split("\n")
    assert (len(lines), lines[-1]) == (LIST_ENTRIES + 1, "[5 more entries are not shown]")


# ── staying inside ───────────────────────────────────────────────────────────────────────────────

ARGUMENTS = {
    "read": {},
    "list": {},
    "grep": {"pattern": "x"},
    "write": {"content": "new"},
    "edit": {"old": "secret", "new": "new"},
}
WAYS_OUT = ["../outside", "../outside/file", "/etc/passwd", "way/file", "file-link", "inside/../../outside", "~/x"]


@pytest.fixture
def outside(folder, tmp_path):
    place = tmp_path / "outside"
    place.mkdir()
    (place / "file").write_text("secret")
    (folder / "way").symlink_to(place)
    (folder / "file-link").symlink_to(place / "file")
    (folder / "dangling").symlink_to(place / "new")
    (folder / "inside").mkdir()
    return place


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("path", WAYS_OUT)
def test_paths_outside_of_the_working_folder_are_refused(outside, tools, name, path):
    """Law 13: parents, absolute paths and links are refused by every file tool; nothing is read or changed."""
    said = refusal(tools[name], path=path, **ARGUMENTS[name])
    assert said == f"{path} leads out of the working directory, which is not allowed"
    assert (outside / "file").read_text() == "secret"


def test_a_dangling_link_creates_nothing_outside(outside, tools):
    assert "leads out" in refusal(tools["write"], path="dangling", content="x")
    assert os.listdir(outside) == ["file"]


def test_a_folder_with_the_same_prefix_is_outside(folder, tools):
    (folder.parent / "work-too").mkdir()
    assert "leads out" in refusal(tools["list"], path="../work-too")


def test_grep_does_not_follow_links(outside, tools):
    assert ask(tools["grep"], pattern="secret").text.startswith("[no line matches]")


def test_the_working_directory_may_itself_be_a_link(folder, tmp_path):
    (tmp_path / "alias").symlink_to(folder)
    (folder / "f").write_text("x")
    tools = by_name(builtin_tools(str(tmp_path / "alias")))
    assert ask(tools["read"], path="f").text == "x"
    assert ask(tools["grep"], pattern="x").text == "f:1: x"


def test_unconfined_tools_go_anywhere(outside, folder):
    tools = by_name(builtin_tools(str(folder), confined=False))
    assert ask(tools["read"], path="../outside/file").text == "secret"
    assert ask(tools["read"], path="file-link").text == "secret"
    assert not ask(tools["write"], path="../outside/more", content="x").is_error
