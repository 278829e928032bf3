"""Bundles: one file with a session, its blobs and inherited history, that reading commands open (laws 1, 9 and 13)."""

import io
import tarfile

import pytest

from tests.cli.conftest import script, shell  # noqa: F401
from wakelog.errors import NotASession
from wakelog.transfer.bundles import open_bundle


@pytest.fixture
def recorded(shell, script):  # noqa: F811
    """A session that was really run, exported as a bundle."""
    assert shell("run", "--model", script({"text": "hello"}), "--system", "Be brief.", "hi").code == 0
    done = shell("export", "@latest", "-f", "bundle", "-o", "review.wakelog")
    assert done.code == 0, done.err
    for path in shell.store.rglob("*"):
        if path.is_file() and ".blobs" in path.parts:
            path.unlink()
    return shell


@pytest.mark.meddled
def test_a_reviewer_can_show_verify_and_replay_it(recorded):
    """Seed 2: "take your log, replay it". The store's own blobs are gone; the bundle has them (law 11)."""
    assert "hello" in recorded("show", "review.wakelog").out
    assert recorded("verify", "review.wakelog", "--json").json["ok"]
    assert recorded("replay", "review.wakelog", "--verify", "--json").json["ok"]


@pytest.mark.meddled
def test_a_replay_without_its_blobs_names_the_missing_one(recorded):
    """LOG-19: a replay names each missing blob and the line that needs it, and not only a line that differs."""
    report = recorded("replay", "@latest", "--verify", "--json").json
    assert not report["ok"]
    assert report["line"] is None
    assert [part.partition("; ")[2] for part in report["missing"]] == [
        f"line {line} needs it: {what}"
        for line, what in [
            (2, "the system instructions"),
            (2, "the tool declarations"),
            (5, "a text that was injected into the request"),
        ]
    ]
    assert "no blob sha256:" in report["missing"][0]
    for arguments in (("replay", "@latest", "--verify"), ("verify", "@latest")):
        said = recorded(*arguments)
        assert said.code == 4
        assert report["missing"][0] in said.out
        assert "export -f bundle" in said.out


@pytest.fixture
def fork_that_was_run(shell, script):  # noqa: F811
    """The name of a fork in which a worker wrote a reply."""
    replies = script({"text": "hello"}, {"text": "hello again"})
    assert shell("run", "--model", replies, "--system", "Be brief.", "hi").code == 0
    name = shell("fork", "@latest", "--new-session", "--json").json["name"]
    assert shell("run", "-s", name, "--model", replies, "again").code == 0
    return name


def test_a_log_without_its_parent_says_that_history_is_missing(shell, fork_that_was_run, tmp_path):  # noqa: F811
    """LOG-19: the log of a fork alone, copied out of the store, cannot be replayed; the parent is named."""
    alone = tmp_path / "elsewhere" / f"{fork_that_was_run}.jsonl"
    alone.parent.mkdir()
    alone.write_bytes((shell.store / alone.name).read_bytes())
    report = shell("replay", str(alone), "--verify", "--json").json
    assert not report["ok"]
    assert report["missing"][0].startswith("its parent session")
    assert "export -f bundle" in shell("verify", str(alone)).out


def test_an_export_as_jsonl_says_what_it_leaves_out(shell, script):  # noqa: F811
    """LOG-19: a file that cannot be replayed alone is not written in silence."""
    assert shell("new").code == 0
    assert shell("export", "@latest").err == ""
    assert shell("run", "--model", script({"text": "hello"}), "--system", "Be brief.", "hi").code == 0
    assert "not in the export: 3 blobs; `wakelog export -f bundle`" in shell("export", "@latest").err
    assert shell("fork", "@latest", "--new-session").code == 0
    assert "blobs, the log of the parent session" in shell("export", "@latest").err


def test_a_fork_exported_as_one_log_is_replayed(shell, fork_that_was_run):  # noqa: F811
    """LOG-19, law 11: its entries have other positions there, and the fence of a worker is one of these."""
    copy = shell.store / "one_log_1.jsonl"
    assert shell("export", fork_that_was_run, "-o", str(copy)).code == 0
    report = shell("replay", str(copy), "--verify", "--json").json
    assert report["ok"], report
    assert report["written"] > 0


@pytest.mark.meddled
def test_it_is_read_only_and_can_be_copied(recorded):
    """Law 4: a write that would be lost is refused, never acknowledged."""
    refused = recorded("append", "review.wakelog", "more")
    assert refused.code == 2
    assert "read-only" in refused.err
    assert recorded("copy", "review.wakelog", "--to", "elsewhere").code == 0
    assert recorded("--store", "elsewhere", "replay", "@latest", "--verify", "--json").json["ok"]


@pytest.mark.meddled
def test_a_fork_has_its_inherited_history(recorded):
    """LOG-9: inherited history is in the bundle, byte for byte."""
    assert recorded("fork", "@latest", "--new-session").code == 0
    assert recorded("export", "@latest", "-f", "bundle", "-o", "fork.wakelog").code == 0
    assert "hello" in recorded("show", "fork.wakelog").out


def _tar(path, *members):
    with tarfile.open(path, "w") as archive:
        for name, data, kind in members:
            member = tarfile.TarInfo(name)
            member.size, member.type = len(data), kind
            archive.addfile(member, io.BytesIO(data))
    return str(path)


ABOUT = ("wakelog-bundle.json", b'{"format":"wakelog-bundle/1","session":"a_b_1"}', tarfile.REGTYPE)


@pytest.mark.parametrize(
    "members",
    [
        (),
        (ABOUT,),
        (ABOUT, ("../../etc/passwd", b"x", tarfile.REGTYPE)),
        (ABOUT, ("sessions/../x.jsonl", b"x", tarfile.REGTYPE)),
        (ABOUT, ("sessions/a_b_1.jsonl", b"", tarfile.SYMTYPE)),
        (ABOUT, ("sessions/a_b_1.jsonl", b"", tarfile.DIRTYPE)),
        (("sessions/a_b_1.jsonl", b"{}\n", tarfile.REGTYPE), ABOUT),
    ],
)
def test_hostile_bundles_are_refused(tmp_path, members):
    """Law 13: paths, links and foreign members never become files or sessions."""
    with pytest.raises(NotASession):
        open_bundle(_tar(tmp_path / "bad.wakelog", *members))


@pytest.mark.parametrize("content", [b"", b"not a tar", b"\x1f\x8b" + bytes(600), bytes(5000)])
def test_other_files_are_refused(tmp_path, content):
    """A file that is not a bundle is refused with a message, compressed ones included."""
    path = tmp_path / "bad.wakelog"
    path.write_bytes(content)
    with pytest.raises(NotASession):
        open_bundle(str(path))
