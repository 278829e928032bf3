"""RUN-6: file changes are complete or not made at all, and the file itself is the receipt."""

import asyncio
import os
import re
import signal
import stat
import subprocess
import tempfile
from pathlib import Path

import msgspec
import pytest

from tests.faults.processes import INTERPRETER, environment
from tests.tools.asking import ask, begun, invocation, refusal
from wakelog.log.ids import digest_of
from wakelog.ports.runtime import ToolOutcome
from wakelog.tools import builtin_tools
from wakelog.tools.file_changes import _CHANGE_LOCK, _temporary_path
from wakelog.tools.function_tool import by_name


@pytest.fixture
def tools(tmp_path):
    return by_name(builtin_tools(str(tmp_path)))


def test_write_creates_folders_and_replaces_files(tmp_path, tools):
    assert ask(tools["write"], path="a/b/c.txt", content="new €\r\n").text == "created a/b/c.txt (9 bytes)"
    assert ask(tools["write"], path="a/b/c.txt", content="").text == "replaced a/b/c.txt (0 bytes)"
    assert ask(tools["write"], path="a/b/c.txt", content="last").text == "replaced a/b/c.txt (4 bytes)"
    assert (tmp_path / "a/b/c.txt").read_text() == "last"
    assert os.listdir(tmp_path / "a/b") == ["c.txt"]


def test_modes_and_links_are_kept(tmp_path, tools):
    (tmp_path / "run.sh").write_text("old")
    (tmp_path / "run.sh").chmod(0o4751)
    (tmp_path / "link").symlink_to("run.sh")
    assert not ask(tools["edit"], path="link", old="old", new="new").is_error
    assert (tmp_path / "run.sh").read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE(os.stat(tmp_path / "run.sh").st_mode) == 0o4751
    mask = os.umask(0o027)
    try:
        ask(tools["write"], path="fresh", content="x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(os.stat(tmp_path / "fresh").st_mode) == 0o640


def test_invalid_writes_are_refused(tmp_path, tools):
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tools["write"], path=".", content="") == "cannot change .: it is a folder"
    assert refusal(tools["write"], path="pipe", content="") == "cannot change pipe: it is not a regular file"
    assert refusal(tools["write"], path="file/below", content="") == "cannot change file/below: Not a directory"
    assert refusal(tools["write"], path="n" * 300, content="").endswith("File name too long")
    assert refusal(tools["write"], path="x", content=7).startswith("bad arguments")


# Whoever is not root may not be able to read the interpreter's own files: everything is imported before.
AS_A_STRANGER = """
import concurrent.futures.thread, os, sys
from tests.tools.asking import refusal
from wakelog.tools import builtin_tools
os.getuid() or os.setuid(65534)
(write,) = builtin_tools(sys.argv[1], ["write"])
print(refusal(write, path="kept", content="new"))
"""


def test_a_read_only_file_is_not_replaced():
    """Renaming over a file needs no write permission for it: the tool requires that permission all the same."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "kept"
        kept.write_text("old")
        kept.chmod(0o444)
        os.chmod(folder, 0o777)
        words = [INTERPRETER, "-c", AS_A_STRANGER, folder]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("cannot change kept: it is read-only\n", "")
        assert kept.read_text() == "old"


def test_edit_is_exact(tmp_path, tools):
    path = tmp_path / "f"
    path.write_bytes(b"one two\r\ntwo three\n")
    edit = tools["edit"]
    assert ask(edit, path="f", old="one", new="1").text == "changed one place in f"
    assert (
        refusal(edit, path="f", old="two", new="2") == "the old text stands 2 times in f: give more of it, or set all"
    )
    assert refusal(edit, path="f", old="four", new="4") == "the old text does not stand in f"
    assert refusal(edit, path="f", old="two\ntwo", new="") == (
        "the old text does not stand in f; the file's lines end in CRLF"
    )
    assert refusal(edit, path="f", old="", new="x") == "the old text is empty: use write to make a file"
    assert refusal(edit, path="g", old="a", new="b") == "cannot edit g: there is no such file"
    assert ask(edit, path="f", old="two", new="2", all=True).text == "changed 2 places in f"
    assert path.read_bytes() == b"1 2\r\n2 three\n"


def test_edit_refuses_files_that_are_not_text(tmp_path, tools):
    (tmp_path / "latin").write_bytes(b"caf\xe9 x")
    (tmp_path / "binary").write_bytes(b"x\0")
    assert refusal(tools["edit"], path="latin", old="x", new="y") == "cannot edit latin: it is not UTF-8 text"
    assert refusal(tools["edit"], path="binary", old="x", new="y") == "cannot edit binary: it is a binary file"


def test_concurrent_edits_of_one_file_are_all_applied(tmp_path, tools):
    """Calls of one reply run concurrently: no edit is lost, though all were prepared on the same file."""
    words = [f"<{number}>" for number in range(20)]
    (tmp_path / "f").write_text(" ".join(words))

    async def main():
        calls = [await begun(tools["edit"], invocation(path="f", old=word, new=word * 2)) for word in words]
        calls = [msgspec.structs.replace(call, tool_call_id=f"c{number}") for number, call in enumerate(calls)]
        return await asyncio.gather(*(tools["edit"].run(call) for call in calls))

    assert not any(outcome.is_error for outcome in asyncio.run(main()))
    assert (tmp_path / "f").read_text() == " ".join(word * 2 for word in words)


def test_cancelling_waits_for_the_change(tmp_path, tools):
    """RUN-12: when the cancelled call returns, the change is complete and nothing continues in the background."""

    async def main():
        with _CHANGE_LOCK:
            task = asyncio.create_task(tools["write"].run(invocation(path="f", content="x")))
            await asyncio.wait([task], timeout=0.05)
            task.cancel()
            _, waiting = await asyncio.wait([task], timeout=0.05)
            assert waiting, "it came back while the thread went on"
        with pytest.raises(asyncio.CancelledError):
            await task
        return os.listdir(tmp_path)

    assert asyncio.run(main()) == ["f"]


# ── receipts ─────────────────────────────────────────────────────────────────────────────────────


CALLS = [
    ("write", {"path": "f", "content": "after"}, None),
    ("write", {"path": "f", "content": "after"}, "before"),
    ("edit", {"path": "f", "old": "be", "new": "wherebe"}, "before"),
]


@pytest.fixture(params=CALLS, ids=["created", "replaced", "edited"])
def change(request, tmp_path, tools):
    name, arguments, before = request.param
    if before is not None:
        (tmp_path / "f").write_text(before)
    return tools[name], asyncio.run(begun(tools[name], invocation(**arguments))), before


def test_the_intent_holds_both_digests(tmp_path, change):
    made, call, before = change
    assert call.intent["path"] == str(tmp_path / "f")
    assert call.intent["before"] == (None if before is None else digest_of(before.encode()))
    asyncio.run(made.run(call))
    assert call.intent["after"] == digest_of((tmp_path / "f").read_bytes())


def test_the_receipt_compares_the_file_with_both_digests(tmp_path, change):
    """RUN-6: "not begun" before the change, done after it, and unknown after a change by another program."""
    made, call, _ = change
    assert asyncio.run(made.receipt(call)) == "not begun"
    outcome = asyncio.run(made.run(call))
    assert asyncio.run(made.receipt(call)) == outcome == ToolOutcome(call.intent["said"])
    (tmp_path / "f").write_text("somebody else")
    assert asyncio.run(made.receipt(call)) == "cannot say"
    (tmp_path / "f").unlink()
    (tmp_path / "f").mkdir()
    assert asyncio.run(made.receipt(call)) == "cannot say"


def test_the_receipt_removes_the_draft_of_a_killed_run(tmp_path, tools):
    """Also where the outcome is unknown and nothing runs again."""
    call = asyncio.run(begun(tools["write"], invocation(path="f", content="x")))
    Path(_temporary_path(call, str(tmp_path / "f"))).write_text("half")
    (tmp_path / "f").write_text("somebody else")
    assert asyncio.run(tools["write"].receipt(call)) == "cannot say"
    assert os.listdir(tmp_path) == ["f"]


def test_a_change_without_a_difference_counts_as_done(tmp_path, tools):
    (tmp_path / "f").write_text("same")
    call = asyncio.run(begun(tools["write"], invocation(path="f", content="same")))
    assert asyncio.run(tools["write"].receipt(call)) == ToolOutcome("replaced f (4 bytes)")


def test_a_missing_intent_gives_an_unknown_outcome(tools):
    call = invocation(path="f", content="x")
    assert asyncio.run(tools["write"].receipt(call)) == "cannot say"


RUN = """
import asyncio, sys
import msgspec
from wakelog.ports.runtime import ToolInvocation
from wakelog.tools import builtin_tools
(made,) = builtin_tools(sys.argv[1], [sys.argv[2]])
asyncio.run(made.run(msgspec.json.decode(sys.argv[3], type=ToolInvocation)))
"""
STEPS = "openat,write,fsync,fchmod,fchown,rename,mkdir,close"


def traced_run(folder, name, call, *options):
    """Run the call in a process under strace, which sees the steps on the file, its folder and its draft."""
    fields = {key: getattr(call, key) for key in ("reply_id", "tool_call_id", "arguments", "intent")}
    words = [INTERPRETER, "-c", RUN, str(folder), name, msgspec.json.encode(fields).decode()]
    paths = [str(folder), str(folder / "f"), _temporary_path(call, str(folder / "f"))]
    strace = ["strace", "-f", "-qq", "-e", f"trace={STEPS}", *options, *(f"-P{path}" for path in paths)]
    done = subprocess.run([*strace, *words], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def steps_of(folder, name, call, report):
    """Every step of an undisturbed run, as (system call, how many of its kind)."""
    assert traced_run(folder, name, call, "-o", str(report)) == 0
    names = re.findall(r"^\d+ +(\w+)\(", report.read_text(), re.MULTILINE)
    return [(name, names[: place + 1].count(name)) for place, name in enumerate(names)]


@pytest.mark.strace
def test_killed_at_every_step_a_change_happens_once(tmp_path, tmp_path_factory, change):
    """RUN-6, law 6: at whatever step the process dies, the receipt is right, and waking leaves no draft."""
    made, call, before = change
    planned = steps_of(tmp_path, made.name, call, tmp_path_factory.mktemp("strace") / "report")
    answers = []
    for step, number in planned:
        reset(tmp_path, before)
        killed = traced_run(
            tmp_path, made.name, call, "-o", os.devnull, "-e", f"inject={step}:signal=KILL:when={number}"
        )
        assert killed == -signal.SIGKILL, f"{step} {number} was not reached"
        content = (tmp_path / "f").read_text() if (tmp_path / "f").exists() else None
        assert content in (before, "after", "wherebefore"), "half a file"
        answers.append(asyncio.run(made.receipt(call)))
        assert answers[-1] == ("not begun" if content == before else ToolOutcome(call.intent["said"]))
        if answers[-1] == "not begun":
            assert not asyncio.run(made.run(call)).is_error
        assert os.listdir(tmp_path) == ["f"]
        assert digest_of((tmp_path / "f").read_bytes()) == call.intent["after"]
    assert {"openat", "write", "fsync", "rename"} <= {step for step, _ in planned}
    assert "not begun" in answers
    assert ToolOutcome(call.intent["said"]) in answers


def reset(folder, before):
    (folder / "f").unlink(missing_ok=True)
    if before is not None:
        (folder / "f").write_text(before)
