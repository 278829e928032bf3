"""Blobs in files pass the suite; the tests below it are about names, modes, links and drafts."""

import os
import stat
import time
import tracemalloc

import pytest

from wakelog.errors import NotFound, StoreError
from wakelog.log.content import BlobRef
from wakelog.log.ids import digest_of
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.blob_files import BlobFiles
from wakelog.stores.jsonl.folder import Folder
from wakelog.testing.blob_suite import DAY_S, BlobSuite, age_of, digests

CONTENT = b"some content"
DIGEST = digest_of(CONTENT)
NAME = DIGEST.removeprefix("sha256:")


def path_of(folder, digest=DIGEST):
    name = digest.removeprefix("sha256:")
    return folder / ".blobs" / name[:2] / name


def make_older(path, seconds):
    then = os.lstat(path).st_mtime - seconds
    os.utime(path, (then, then), follow_symlinks=False)


class FilesRig:
    def __init__(self, folder):
        self.folder = folder
        self.blobs = self.again()

    def again(self):
        return JsonlStore(str(self.folder)).blobs

    def age(self, digest, seconds):
        make_older(path_of(self.folder, digest), seconds)

    def replace(self, digest, content):
        path_of(self.folder, digest).write_bytes(content)


class TestBlobFiles(BlobSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        return FilesRig(tmp_path / "store")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def blobs(folder):
    return BlobFiles(Folder(str(folder)))


def test_names_and_modes(folder, blobs):
    """LOG-12, ST-2: `.blobs/ab/ab12…` holds the bytes and nothing else, 0600 in folders 0700."""
    blobs.put(CONTENT)
    assert path_of(folder).read_bytes() == CONTENT
    assert sorted(os.listdir(folder / ".blobs")) == sorted([".lock", NAME[:2]])
    assert os.listdir(folder / ".blobs" / NAME[:2]) == [NAME]
    for place, _, files in os.walk(folder):
        assert stat.S_IMODE(os.stat(place).st_mode) == 0o700
        assert all(stat.S_IMODE(os.stat(os.path.join(place, file)).st_mode) == 0o600 for file in files)


def test_an_equal_blob_is_not_written_again(folder, blobs):
    """LOG-12: the existing file is kept."""
    blobs.put(CONTENT)
    before = os.stat(path_of(folder)).st_ino
    blobs.put(CONTENT)
    assert os.stat(path_of(folder)).st_ino == before


def test_reading_creates_nothing(folder, blobs):
    """Law 9: neither reading, listing nor collecting creates a folder or a lock file."""
    with pytest.raises(NotFound):
        blobs.get(BlobRef(digest=DIGEST, bytes=1))
    assert list(blobs.stored()) == []
    assert not blobs.remove(DIGEST, older_than_s=0)
    assert blobs.tidy(older_than_s=0) == 0
    assert not folder.exists()


def test_a_missing_blob_is_an_error_with_a_hint(blobs):
    """LOG-19: the error names the blob and the folder to copy it into."""
    with pytest.raises(NotFound) as caught:
        blobs.get(BlobRef(digest=DIGEST, bytes=1))
    assert DIGEST in caught.value.message
    assert caught.value.message.endswith("/.blobs")


# ── links and strangers ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("level", [".blobs", "shelf", "blob"])
def test_links_are_not_followed(tmp_path, folder, blobs, level):
    """Law 13: a link in the place of a folder or a blob is refused, and its target is not changed."""
    blobs.put(CONTENT)
    place = {".blobs": folder / ".blobs", "shelf": path_of(folder).parent, "blob": path_of(folder)}[level]
    outside = tmp_path / "outside"
    os.rename(place, outside)
    os.symlink(outside, place)
    before = os.lstat(outside).st_mtime_ns
    with pytest.raises(StoreError, match=r"link|folder|symbolic"):
        blobs.get(BlobRef(digest=DIGEST, bytes=len(CONTENT)))
    with pytest.raises(StoreError):
        BlobFiles(Folder(str(folder))).put(CONTENT)
    if level == "blob":
        assert digests(blobs) == []
        assert blobs.remove(DIGEST, older_than_s=0), "the link itself is no blob and may go"
    else:
        with pytest.raises(StoreError):
            blobs.remove(DIGEST, older_than_s=0)
    assert os.lstat(outside).st_mtime_ns == before
    assert os.path.exists(outside)


def test_a_lock_file_that_is_a_link_is_refused(tmp_path, folder, blobs):
    """Law 13: not even the lock file leads out of the store."""
    blobs.put(CONTENT)
    os.unlink(folder / ".blobs" / ".lock")
    os.symlink(tmp_path / "outside", folder / ".blobs" / ".lock")
    with pytest.raises(StoreError):
        blobs.put(b"more")
    assert not (tmp_path / "outside").exists()


def test_other_files_are_left_alone(folder, blobs):
    """Law 13: a file without the name of a blob is not removed, and does no harm."""
    blobs.put(CONTENT)
    shelf = path_of(folder).parent
    strangers = [shelf / "README", shelf / (NAME + ".old"), folder / ".blobs" / "notes", folder / ".blobs" / "zz"]
    for path in strangers[:3]:
        path.write_bytes(b"x")
        make_older(path, 9 * DAY_S)
    strangers[3].mkdir()
    os.mkfifo(shelf / ("0" * 64))
    assert digests(blobs) == [DIGEST]
    assert blobs.tidy(older_than_s=0) == 0
    assert all(path.exists() for path in strangers)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_blob_that_is_not_a_regular_file_is_an_error(folder, blobs, make):
    """Law 13: a pipe or a folder under a blob's name is an error at once; opening a pipe does not block."""
    os.makedirs(path_of(folder).parent, 0o700)
    make(path_of(folder))
    with pytest.raises(StoreError):
        blobs.get(BlobRef(digest=DIGEST, bytes=len(CONTENT)))
    assert digests(blobs) == []


def test_a_folder_of_another_user_is_not_written_to(folder, blobs, monkeypatch):
    """Law 13: files of another user are not written to."""
    folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(StoreError, match="another user"):
        blobs.put(CONTENT)


# ── ages and drafts ──────────────────────────────────────────────────────────────────────────────


def test_a_blob_with_a_time_in_the_future_is_not_old(folder, blobs):
    """Law 4: a clock that was set back does not make blobs old."""
    blobs.put(CONTENT)
    make_older(path_of(folder), -9 * DAY_S)
    assert age_of(blobs, DIGEST) == 0
    assert not blobs.remove(DIGEST, older_than_s=1)


def test_a_blob_exactly_at_the_age_limit_is_old(folder):
    """LOG-12: a second less is not."""
    now = float(int(time.time()))
    blobs = BlobFiles(Folder(str(folder)), now=lambda: now)
    blobs.put(CONTENT)
    os.utime(path_of(folder), (now - 100, now - 100))
    assert not blobs.remove(DIGEST, older_than_s=101)
    assert blobs.remove(DIGEST, older_than_s=100)


def test_old_drafts_are_removed(folder, blobs):
    """LOG-12: a draft that a crash left is not a blob, is counted, and is removed when it is old."""
    blobs.put(CONTENT)
    old, young = (path_of(folder).parent / f".new-{word}" for word in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half of some")
    make_older(old, 2 * DAY_S)
    assert digests(blobs) == [DIGEST]
    os.unlink(folder / ".blobs" / ".lock")
    assert blobs.tidy(older_than_s=DAY_S, dry_run=True) == 1
    assert old.exists()
    assert not (folder / ".blobs" / ".lock").exists(), "who only looks makes nothing"
    assert blobs.tidy(older_than_s=DAY_S) == 1
    assert (old.exists(), young.exists(), path_of(folder).exists()) == (False, True, True)


def test_an_interrupted_put_leaves_no_draft(folder, blobs, monkeypatch):
    """LOG-12: Ctrl-C in the middle of a put leaves no file."""
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    os.makedirs(path_of(folder).parent, 0o700)
    with pytest.raises(KeyboardInterrupt):
        blobs.put(CONTENT)
    assert os.listdir(path_of(folder).parent) == []


def test_a_blob_that_vanishes_while_it_is_listed(folder, blobs, monkeypatch):
    """LOG-12: two collections at the same time do not disturb each other."""
    blobs.put(CONTENT)
    blobs.put(b"other")
    listing = blobs.stored()
    seen = [next(listing).digest]
    for digest in (DIGEST, digest_of(b"other")):
        assert blobs.remove(digest, older_than_s=0)
    assert len([*seen, *(blob.digest for blob in listing)]) <= 2


def test_a_large_blob_is_checked_piece_by_piece(tmp_path):
    """LOG-16: checking a blob takes the memory of one piece."""
    blobs = BlobFiles(Folder(str(tmp_path / "sessions")))
    ref = blobs.put(bytes(32 * 1024 * 1024))
    tracemalloc.start()
    blobs.check(ref)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 1024 * 1024
