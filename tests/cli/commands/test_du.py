"""`gc`: blobs without a reference are shown and removed; all others, and every log, stay."""

import os
import sys

import pytest

from tests.cli.running import run_on_terminal
from tests.stores.jsonl.test_blob_files import make_older, path_of
from wakelog.cli.ui.quantities import parse_span, span_text
from wakelog.errors import UsageError
from wakelog.log.content import Image, Prompt
from wakelog.log.entry import Message
from wakelog.transfer.garbage import DAY_S


@pytest.fixture
def old(shell, store):
    """Put a blob with a time some days ago."""

    def put(content, days=3):
        ref = store.blobs.put(content)
        make_older(path_of(shell.store, ref.digest), days * DAY_S)
        return ref

    return put


@pytest.fixture
def blobs(story, store, old):
    """An old blob with a reference, one without, and a young one."""
    named, lost, young = old(b"named"), old(b"lost" * 1_000), store.blobs.put(b"young")
    story.session.append(Message(message=Prompt(content=(Image(mime_type="image/png", blob=named),))))
    return {"named": named, "lost": lost, "young": young}


def kept(store, blobs):
    """Return which of the blobs exist."""
    there = {blob.digest for blob in store.blobs.stored()}
    return [word for word, ref in blobs.items() if ref.digest in there]


def test_a_dry_run_removes_nothing(shell, store, blobs):
    """LOG-12: unreferenced blobs are listed with size and age, and stay."""
    answer = shell("gc", "--dry-run")
    assert answer.code == 0
    assert answer.out == f"4.0 kB  3d  {blobs['lost'].digest}\n1 blob would be removed: 4.0 kB\n"
    assert kept(store, blobs) == ["named", "lost", "young"]


def test_only_old_unreferenced_blobs_are_removed(shell, store, blobs):
    """LOG-12, law 1: neither referenced blobs, nor those younger than a day, nor any log."""
    log = shell.store / "crab_user_1.jsonl"
    before = log.read_bytes()
    answer = shell("gc")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith("1 blob removed: 4.0 kB\n")
    assert kept(store, blobs) == ["named", "young"]
    assert log.read_bytes() == before
    assert shell("gc").out == "nothing to remove\n"


def test_as_json(shell, blobs):
    """One object a line, the sums in the last."""
    for words, removed in ((("--dry-run",), False), ((), True)):
        blob, total = shell("gc", *words, "--json").rows
        assert blob == {"kind": "blob", "digest": blobs["lost"].digest, "size": 4_000, "age": blob["age"]}
        assert 3 * DAY_S <= blob["age"] < 4 * DAY_S
        assert total == {"kind": "total", "blobs": 1, "bytes": 4_000, "leftovers": 0, "removed": removed}
    (total,) = shell("gc", "--json").rows
    assert (total["blobs"], total["bytes"]) == (0, 0)


@pytest.mark.parametrize(("given", "left"), [("4d", "named lost young"), ("71h", "named young"), ("0s", "named")])
def test_the_age_is_an_option(shell, store, blobs, given, left):
    """LOG-12: younger than a day only with `--older-than`."""
    assert shell("gc", "--older-than", given).code == 0
    assert kept(store, blobs) == left.split()


@pytest.mark.parametrize("given", ["", "1", "d", "1.5d", "-1d", "1 d", "1y", "٣d", "1d\x1b[31m", "9999999d", "1d 2h"])
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_bad_age_is_one_clear_line(shell, store, blobs, given, words):
    """What happened and what to do; nothing is removed."""
    answer = shell("gc", "--older-than", given, *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert "not a duration" in answer.err
    assert "12h" in answer.err
    assert "\x1b" not in answer.err
    assert kept(store, blobs) == ["named", "lost", "young"]


def test_ages_in_words():
    """`1d`, `12h`, `30m` and back."""
    assert [parse_span(text) for text in ("0s", "30m", "12h", "1d", "2w")] == [0, 1_800, 43_200, 86_400, 1_209_600]
    assert [span_text(seconds) for seconds in (0, 59.9, 60, 7_300, 90_000, 10**7)] == [
        "0s",
        "59s",
        "1m",
        "2h",
        "1d",
        "115d",
    ]
    with pytest.raises(UsageError):
        parse_span("soon")


def test_leftovers_are_reported(shell, old):
    """LOG-12: files of interrupted puts are not blobs, and are removed, too."""
    draft = path_of(shell.store, old(b"x").digest).parent / ".new-1"
    draft.write_bytes(b"half")
    make_older(draft, 2 * DAY_S)
    shell("gc", "--dry-run")
    assert draft.exists()
    assert "1 partly written blob left by a crash" in shell("gc").out
    assert not draft.exists()


def test_an_unreadable_log_stops_it(shell, store, blobs):
    """Law 4: one line that says so, exit code 1, and everything stays."""
    (shell.store / "crab_user_2.jsonl").write_bytes(b'{"type":"session","id":"crab_user_1"}\n')
    os.symlink("../crab_user_2.jsonl", shell.store / "by-id" / "crab_user_1")
    answer = shell("gc")
    assert answer.code == 1
    assert answer.err.startswith("wakelog: crab_user_1 is also the id of another session")
    assert kept(store, blobs) == ["named", "lost", "young"]


def test_without_a_store(shell):
    """Law 9: no store is created."""
    assert shell("gc").out == "nothing to remove\n"
    assert not shell.store.exists()


def test_it_runs_as_a_process(shell, blobs):
    """A module of this package must not hide Python's own `gc`, which the command line uses at its end."""
    answer = shell.process("gc", "--dry-run")
    assert (answer.code, answer.err) == (0, "")
    assert "1 blob would be removed" in answer.out


def test_long_lists_are_limited_on_a_terminal(shell, old):
    """A terminal gets the first rows and the sum, a pipe gets all."""
    for number in range(25):
        old(b"%d" % number)
    shown = shell.terminal("gc", "--dry-run", env={"NO_COLOR": "1"}).out
    assert (shown.count("sha256:"), "and 5 more blobs" in shown) == (20, True)
    assert shell("gc").out.count("sha256:") == 25


def test_a_progress_bar_for_long_work(shell, blobs):
    """Logs may be large. The delay of the bar is removed, so that the test need not be slow."""
    program = (
        "import sys, wakelog.cli.ui.output as progress; progress._BAR_DELAY_S = -1\n"
        "from wakelog.cli.main import run; sys.exit(run(['gc', '--dry-run']))"
    )
    seen = run_on_terminal([sys.executable, "-c", program], 80, dict(os.environ))
    assert (seen.code, "Reading logs" in seen.out) == (0, True)


def test_doctor_knows_the_folder_of_blobs(shell, blobs):
    """It is not reported as an unknown file."""
    assert shell("doctor", "--json").json["problems"] == []
