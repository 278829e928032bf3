"""Lines that no writer should produce (laws 9, 10 and 13; LOG-8, LOG-9, LOG-11): served, kept or reported.

Each log is read whole, read from its end, proven and appended to by a process of its own, which says how
much memory that took. No line may cost its neighbours anything, and none may raise but a `WakelogError`.
"""

import contextlib
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.figures import Figure
from tests.faults.processes import run
from tests.faults.samples import bytes_of, lines_of, put, read, small_log
from wakelog.errors import UsageError
from wakelog.log.codec import NESTING_MAX
from wakelog.log.entry import Custom, Message, UnknownBody
from wakelog.log.lines import EntryReader

MEMORY_MB = 256
DEEP = 100_000


def line(entry_id: str, *more: str, kind: str = "message", text: str = "hello") -> bytes:
    """A line as a person would write it: no seq, no seal. `more` is inserted unchanged."""
    said = '"message":{"role":"user","content":' + json.dumps(text) + "}"
    return ("{" + ",".join([f'"type":"{kind}","id":"{entry_id}"', said, *more]) + "}").encode()


def custom(entry_id: str, value: str) -> bytes:
    """A line with any JSON as its data."""
    return f'{{"type":"custom","id":"{entry_id}","customType":"x","data":{value}}}'.encode()


# The line, whether it is read (with the id x), and the damage that is reported.
HOSTILE: dict[str, tuple[bytes, bool, str | None]] = {
    "NUL block": (b"\x00" * 4096, False, "unreadable"),
    "NUL block before a record": (b"\x00" * 4096 + line("x"), True, "unreadable"),
    "NUL inside a string": (
        b'{"type":"message","id":"x","message":{"role":"user","content":"\x00"}}',
        False,
        "unreadable",
    ),
    "invalid UTF-8": (
        b'{"type":"message","id":"x","message":{"role":"user","content":"\xff\xfe"}}',
        False,
        "unreadable",
    ),
    "invalid UTF-8 in the type": (b'{"type":"mess\xee","id":"x"}', False, "unreadable"),
    "invalid UTF-8 in the id": (b'{"type":"message","id":"\xc3","message":{"role":"user"}}', False, "unreadable"),
    "an overlong NUL": (
        b'{"type":"message","id":"x","message":{"role":"user","content":"\xc0\x80"}}',
        False,
        "unreadable",
    ),
    "separators in a string": (line("x", text="\u2028\u2029\x85").replace(b"\\u", b"\\u"), True, None),
    "raw separators in a string": ('{"type":"custom","id":"x","customType":"\u2028\u2029\x85"}'.encode(), True, None),
    "VT and FF in a string": (b'{"type":"custom","id":"x","customType":"\x0b\x0c"}', False, "unreadable"),
    "CR LF": (line("x") + b"\r", True, None),
    "a bare CR": (b'{"type":"custom",\r"id":"x","customType":"y"}', True, None),
    "BOM": (b"\xef\xbb\xbf" + line("x"), True, None),
    "duplicate keys": (line("y", '"id":"x"'), True, None),
    "duplicate types": (line("x", '"type":"message"', kind="label"), True, None),
    "21 digits": (custom("x", "123456789012345678901"), True, None),
    "a seq of 21 digits": (line("x", '"seq":123456789012345678901'), True, None),
    "a negative seq": (line("x", '"seq":-7'), True, None),
    "a seq that is a word": (line("x", '"seq":"7"'), False, "unreadable"),
    "a seq that is a fraction": (line("x", '"seq":7.5'), False, "unreadable"),
    "a version that is a word": (line("x", '"v":"1"'), False, "unreadable"),
    "a newer version": (line("x", '"v":99'), True, "newer"),
    "a lone surrogate escape": (
        b'{"type":"message","id":"x","message":{"role":"user","content":"\\ud800"}}',
        True,
        None,
    ),
    "a lone surrogate in a key": (custom("x", '{"\\udc00":1}'), True, None),
    "100,000 levels of lists": (custom("x", "[" * DEEP + "]" * DEEP), False, "unreadable"),
    "100,000 levels of objects": (custom("x", '{"a":' * DEEP + "1" + "}" * DEEP), False, "unreadable"),
    "1e999": (custom("x", "1e999"), True, None),
    "a version below the first": (line("x", '"v":0'), True, "unreadable"),
    "NaN": (custom("x", "NaN"), False, "unreadable"),
    "no id": (b'{"type":"message","message":{"role":"user","content":"x"}}', False, "unreadable"),
    "no type": (b'{"id":"x","message":{"role":"user","content":"x"}}', False, "unreadable"),
    "an id that climbs": (line("../../etc/passwd"), False, "unreadable"),
    "an id with a NUL": (line("a\\u0000b"), False, "unreadable"),
    "an id of 129 letters": (line("a" * 129), False, "unreadable"),
    "an empty id": (line(""), False, "unreadable"),
    "a list": (b'["type","message"]', False, "unreadable"),
    "a string": (b'"message"', False, "unreadable"),
    "an unknown type": (b'{"type":"hologram","id":"x","deep":{"er":[1,2]}}', True, None),
    "a known type with another body": (b'{"type":"label","id":"x","targetId":7}', True, "unreadable"),
    "a parent that is itself": (line("x", '"parentId":"x"'), True, "bridged"),
    "a parent that does not exist": (line("x", '"parentId":"nobody"'), True, "bridged"),
    "a head that does not exist": (b'{"type":"head","id":"x","targetId":"nobody"}', True, "orphan"),
    "an id that is taken": (line("e3"), True, "repeated"),
    "blanks": (b" \t \r ", False, None),
    "an escape sequence": (line("x", text="\x1b]0;owned\x07"), True, None),
}
# The same for lines of many megabytes, each made only when it is wanted.
HUGE: dict[str, tuple[Callable[[], bytes], bool, str | None]] = {
    "100 MB": (lambda: b'{"type":"message","id":"x","t":"' + b"a" * 100_000_000 + b'"}', False, "too_long"),
    "20 MB of opened objects": (lambda: b'{"' * 10_000_000, False, "too_long"),
    "15 MB of opened objects": (lambda: b'{"' * 7_500_000, False, "unreadable"),
    "15 MB of opened lists": (lambda: b"[" * 15_000_000, False, "unreadable"),
    "15 MB of backslashes": (lambda: b'{"' + b"\\" * 15_000_000, False, "unreadable"),
    "600 KB of lone surrogates": (lambda: line("x")[:-3] + b"\\udead" * 100_000 + b'"}}', True, None),
    "300 KB of records": (lambda: b'{"type":"y","id":"e3"}' * 14_000, True, "glued repeated"),
    "15 MB of empty lists": (lambda: custom("x", "[" + "[]," * 5_000_000 + "0]"), False, "unreadable"),
    "120 KB of numbers too large": (lambda: custom("x", "[" + "1e999," * 20_000 + "0]"), True, None),
    "15 MB of opened numbers": (lambda: b'{"a":1e999,' * 1_400_000, False, "unreadable"),
    "15 MB of text": (lambda: line("x", text="a" * 15_000_000), True, None),
}
NEVER_APPENDED = {"a newer version"}
GOOD = ["s", *(f"e{at}" for at in range(1, 12))]


def hostile_log(folder: str, hostile: bytes, *, ended: bool) -> None:
    """A sealed log with one inserted line: in its middle, or after its end without LF."""
    small_log(folder, entries=len(GOOD))
    good = bytes_of(folder)
    lines = good.split(b"\n")
    put(folder, b"\n".join([*lines[:6], hostile, *lines[6:]]) if ended else good + hostile)


def outcomes(*folders: str, times: int = 1) -> list[dict[str, Any]]:
    """The results of a process of its own for these logs."""
    done = run("read_all", str(times), *folders)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2_000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(name: str, seen: dict[str, Any], *, is_read: bool, reported: str | None, ended: bool) -> None:
    """Assert that no other line was lost, the problem is reported.

    The session continues (or the error says why not).
    """
    assert [entry for entry in dict.fromkeys(seen["entries"]) if entry in GOOD] == GOOD, name
    assert seen["peak_mb"] < MEMORY_MB, name
    if ended:
        assert (len(seen["entries"]) > len(GOOD)) == is_read, name
        assert {kind.replace(" ", "_") for kind, _ in seen["damage"]} == set((reported or "").split()), name
        assert all(at == 7 for _, at in seen["damage"]), f"{name}: damage was reported where there is none"
    if name in NEVER_APPENDED:
        assert {json.loads(said)["error"] for said in seen["said"]} == {"NewerFormat"}
        assert seen["after"] == seen["entries"]
    else:
        appended = seen["after"][len(seen["entries"]) :]
        assert appended[-len(seen["said"]) :] == seen["said"], f"{name}: what was appended cannot be read"
        assert len(appended) <= len(seen["said"]) + 1, f"{name}: more than a note of a torn end was added"
        assert len(seen["broken"]) <= ended, f"{name}: one fault, one report; what stood at the end is covered"


def figure(planned: int, applied: int, lost: int = 0, control: str = "") -> Figure:
    """The figures of a number of lines, each among the same valid ones."""
    neighbours = (applied * len(GOOD), "entries beside them")
    return Figure("hostile line in a log", "files", planned, applied, neighbours, (lost, "lost"), control)


@pytest.mark.parametrize("ended", [True, False], ids=["in the middle", "at the end"])
def test_a_hostile_line_affects_no_other_line(quick_folder, ended, record):
    """LOG-9, LOG-11, laws 1 and 9: read in every way and appended to; a torn end may add its note."""
    folders = {name: os.path.join(quick_folder, str(at)) for at, name in enumerate(HOSTILE)}
    before = {}
    for name, folder in folders.items():
        hostile_log(folder, HOSTILE[name][0], ended=ended)
        before[name] = bytes_of(folder)
    for name, seen in zip(HOSTILE, outcomes(*folders.values(), times=2), strict=True):
        _, is_read, reported = HOSTILE[name]
        check(name, seen, is_read=is_read, reported=reported, ended=ended)
        assert bytes_of(folders[name]).startswith(before[name]), f"{name}: bytes once written stay"
    record(figure(len(HOSTILE), sum(HOSTILE[name][0] in before[name] for name in HOSTILE)))


def test_control_a_plain_reader_of_json_lines(quick_folder, record):
    """The test above can fail: a reader that parses each line as JSON ends at the first one that is not."""
    lost = 0
    for name, (hostile, _, _) in HOSTILE.items():
        hostile_log(os.path.join(quick_folder, name), hostile, ended=True)
        found = []
        with contextlib.suppress(ValueError, RecursionError):
            for each in bytes_of(os.path.join(quick_folder, name)).splitlines():
                found.append(json.loads(each))  # noqa: PERF401 - what was found before the error counts
        lost += max(0, len(GOOD) - len(found))
    record(figure(len(HOSTILE), len(HOSTILE), lost, control="each line is parsed as it stands"))


@pytest.mark.parametrize(
    ("name", "ended"),
    [*((name, True) for name in HUGE), ("100 MB", False), ("15 MB of opened objects", False)],
)
def test_a_huge_line_stays_within_its_memory(tmp_path, name, ended, record):
    """LOG-11: 256 MB are enough for any line, read in every way and appended to."""
    make, is_read, reported = HUGE[name]
    hostile = make()
    hostile_log(str(tmp_path), hostile, ended=ended)
    (seen,) = outcomes(str(tmp_path))
    check(name, seen, is_read=is_read, reported=reported, ended=ended)
    record(figure(1, int(hostile in bytes_of(str(tmp_path)))))


def test_a_file_without_entries_reads_as_an_empty_log(quick_folder):
    """LOG-11: there is no traceback; nothing can be appended, and the error says so."""
    contents = [b"", b"\n", b"\n" * 300_000, b"\r\n", b"\x00", b"\xef\xbb\xbf", b"{", b"null", b"{}\n[]\n"]
    folders = [os.path.join(quick_folder, str(at)) for at in range(len(contents))]
    for folder, content in zip(folders, contents, strict=True):
        put(folder, content)
    for folder, content, seen in zip(folders, contents, outcomes(*folders), strict=True):
        assert (seen["entries"], seen["after"]) == ([], [])
        assert json.loads(seen["said"][0])["error"] == "Damaged"
        assert bool(seen["damage"]) == bool(content.strip())
        assert seen["peak_mb"] < MEMORY_MB
        assert bytes_of(folder) == content


def test_unusual_json_values_are_read_unchanged(quick_folder):
    """Law 10: unusual but correct JSON is a correct value, and every line keeps its bytes."""
    lines = [custom("a", "123456789012345678901"), line("b", text="\u2028\x85"), b"\xef\xbb\xbf" + line("c")]
    lines += [line("d") + b"\r", b'{"type":"hologram","id":"e","n":1.50}', custom("f", '{"k":1,"k":2}')]
    reader = EntryReader()
    entries = reader.feed_all(lines_of(b"\n".join(lines) + b"\n"))
    assert [entry.raw for entry in entries] == lines
    assert reader.damage == []
    values = {entry.id: entry.value for entry in entries}
    assert isinstance(values["a"], Custom)
    assert values["a"].data == 123456789012345678901
    assert isinstance(values["b"], Message)
    assert values["b"].message.content == "\u2028\x85"
    assert isinstance(values["e"], UnknownBody)
    assert values["f"].data == {"k": 2}


def test_a_crlf_copy_of_a_log_is_read_whole(quick_folder):
    """LOG-9: an editor that changed every line end has removed nothing."""
    small_log(quick_folder, entries=12)
    put(quick_folder, bytes_of(quick_folder).replace(b"\n", b"\r\n"))
    (seen,) = outcomes(quick_folder)
    assert (seen["entries"], seen["damage"]) == (GOOD, [])
    assert seen["after"] == [*GOOD, *seen["said"]]


def nested(depth: int) -> str:
    """A reply whose tool call has an input of this many levels, five below the line's own."""
    call = '{"type":"toolCall","id":"t","name":"n","input":' + "[" * depth + "]" * depth + "}"
    return f'{{"type":"message","id":"x","message":{{"role":"assistant","content":[{call}]}}}}'


def test_nesting_is_read_to_a_fixed_depth_whatever_the_stack(quick_folder):
    """LOG-11: a line that can be read in one place can be read everywhere, also by projections.

    The rest is reported.
    """
    folders = {depth: os.path.join(quick_folder, str(depth)) for depth in (10, 252, 253, 985, 2_000)}
    for depth, folder in folders.items():
        inner = '{"message":' * depth + "{}" + "}" * depth
        hostile_log(folder, f'{nested(depth)}\n{{"type":"message","id":"y","message":{inner}}}'.encode(), ended=True)
    for depth, seen in zip(folders, outcomes(*folders.values()), strict=True):
        assert ("x" in seen["entries"]) == (depth <= NESTING_MAX - 4), depth
        assert [at for _, at in seen["damage"]] == ([8] if depth <= NESTING_MAX - 4 else [7, 8])
        assert seen["after"] == [*seen["entries"], *seen["said"]]


def test_nothing_is_written_that_could_not_be_read_back(quick_folder):
    """Law 4: an entry nested too deep is refused before it is acknowledged."""
    session = small_log(quick_folder, entries=3)
    value: list[Any] = []
    for _ in range(NESTING_MAX - 2):
        value = [value]
    kept = session.append(Custom(custom_type="deep", data=value))
    with pytest.raises(UsageError):
        session.append(Custom(custom_type="deeper", data=[value]))
    assert read(quick_folder).entries[-1].raw == kept.raw
    assert read(quick_folder).damage == ()
