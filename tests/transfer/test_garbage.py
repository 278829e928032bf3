"""LOG-12: blobs that no log names are found by reading every byte of every log, and removed only when they are old."""

import os
import tracemalloc

import msgspec
import pytest

from tests.stores.jsonl.test_blob_files import make_older, path_of
from wakelog.errors import NotFound, StoreError
from wakelog.forking import fork
from wakelog.log.codec import LINE_MAX_BYTES
from wakelog.log.content import Image, Prompt, Text
from wakelog.log.entry import ContextEntry, Message, ModelCall
from wakelog.log.ids import digest_of
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.folder import BLOCK_BYTES, FIRST_BLOCK_BYTES
from wakelog.stores.memory import MemoryStore
from wakelog.transfer.garbage import DAY_S, collect, unnamed_blobs


class Place:
    """A store with blobs that are two days old."""

    def __init__(self, folder):
        self.folder = folder
        self.store = JsonlStore(str(folder))
        self.session = Session.create(self.store, session_id="s")

    @property
    def log(self):
        return self.folder / f"{self.session.name}.jsonl"

    def old(self, content):
        ref = self.store.blobs.put(content)
        make_older(path_of(self.folder, ref.digest), 2 * DAY_S)
        return ref

    def unnamed(self):
        return [blob.digest for blob in unnamed_blobs(self.store)]

    def add(self, raw):
        with open(self.log, "ab") as file:
            file.write(raw)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "store")


def test_a_named_blob_is_not_collected(place):
    """LOG-12: whatever kind of entry names it, on any branch."""
    refs = [place.old(b"%d" % number) for number in range(5)]
    place.session.append(Message(id="m1", message=Prompt(content=(Image(mime_type="image/png", blob=refs[0]),))))
    place.session.append(ContextEntry(system=refs[1], tools=refs[2]))
    place.session.append(ModelCall(call_id="c", reply_id="r", injected=(refs[3],)))
    place.session.move_head("s")
    place.session.say("another branch")
    assert place.unnamed() == [refs[4].digest]
    assert [blob.digest for blob in collect(place.store).blobs] == [refs[4].digest]
    assert all(place.store.blobs.get(ref) for ref in refs[:4])
    with pytest.raises(NotFound):
        place.store.blobs.get(refs[4])


def test_a_young_blob_is_not_collected(place):
    """LOG-12: an unnamed blob is kept for a day, or as long as given."""
    young = place.store.blobs.put(b"young")
    old = place.old(b"old")
    assert place.unnamed() == [old.digest]
    assert collect(place.store, older_than_s=3 * DAY_S).blobs == ()
    found = collect(place.store, older_than_s=0).blobs
    assert sorted(blob.digest for blob in found) == sorted([young.digest, old.digest])
    assert list(place.store.blobs.stored()) == []


def test_a_dry_run_removes_nothing(place):
    """LOG-12: it reports what a collection would remove."""
    old = place.old(b"old")
    draft = path_of(place.folder, old.digest).parent / ".new-left"
    draft.write_bytes(b"o")
    make_older(draft, 2 * DAY_S)
    seen = collect(place.store, dry_run=True)
    assert ([blob.digest for blob in seen.blobs], seen.leftovers) == ([old.digest], 1)
    assert place.store.blobs.get(old) == b"old"
    assert draft.exists()
    done = collect(place.store)
    assert ([blob.digest for blob in done.blobs], done.leftovers) == ([old.digest], 1)
    assert not draft.exists()
    again = collect(place.store)
    assert (again.blobs, again.leftovers) == ((), 0)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"from_the_future","id":"x","anything":{"deep":["%s"]}}\n',
        b'{"type":"message","id":"x","mess\x00\xff%s garbage\n',
        b"rubbish without an end %s",
        b'{"v":99,"type":"session","blob":"%s"}\n',
        b"\n\n%s\n",
        b"sha256:sha256:%s0123\n",
        b"x%sx%s",
    ],
)
def test_damaged_and_unknown_lines_name_blobs_too(place, line):
    """Laws 9 and 10: lines that are damaged, torn, unknown or newer."""
    ref, other = place.old(b"named"), place.old(b"unnamed")
    place.add(line.replace(b"%s", ref.digest.encode()))
    assert place.unnamed() == [other.digest]


@pytest.mark.parametrize("shift", [0, 1, 35, 70, 71, 72])
def test_a_name_across_the_slices_of_a_line_that_is_too_long(place, shift):
    """Law 9: a line over the limit is read in slices, and a name may span two of them."""
    ref = place.old(b"named")
    head = place.log.stat().st_size
    blocks = (LINE_MAX_BYTES + head - FIRST_BLOCK_BYTES) // BLOCK_BYTES + 1
    # The first slice ends at the end of the block in which the line went over the limit.
    filler = FIRST_BLOCK_BYTES + blocks * BLOCK_BYTES - head - shift
    place.add(b"x" * filler + ref.digest.encode() + b"y" * 3_000_000)
    slices = [line for line in place.store.load("s") if not line.whole]
    assert len(slices) > 1
    if 0 < shift < 71:
        assert not any(ref.digest.encode() in line.raw for line in slices)
    assert place.unnamed() == []


def test_blobs_of_inherited_history_are_not_collected(place):
    """TREE-4: they are named in the parent's log, also where the parent's branch continued."""
    ref = place.old(b"picture")
    place.session.append(Message(message=Prompt(content=(Image(mime_type="image/png", blob=ref),))))
    child = fork(place.session)
    child.say("more")
    assert place.unnamed() == []


def test_archived_sessions_name_their_blobs(place):
    """LOG-12."""
    ref = place.old(b"picture")
    place.session.append(Message(message=Prompt(content=(Image(mime_type="image/png", blob=ref),))))
    place.session.archive()
    assert place.unnamed() == []


def test_an_unreadable_log_ends_the_collection(place, monkeypatch):
    """Law 4: without reading everything, nothing is removed."""
    ref = place.old(b"old")
    Session.create(place.store, session_id="other")
    real = JsonlStore.load

    def load(store, session, *, after=-1):
        if session.endswith("_2"):
            raise StoreError("cannot read it: the disk is on fire")
        return real(store, session, after=after)

    monkeypatch.setattr(JsonlStore, "load", load)
    with pytest.raises(StoreError):
        collect(place.store)
    assert place.store.blobs.get(ref) == b"old"


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_an_id_that_is_the_name_of_another_session(tmp_path, kind):
    """Law 4: two sessions can be found by one text: nothing is removed because of the wrong one."""
    store = JsonlStore(str(tmp_path)) if kind == "files" else MemoryStore(now=lambda: 0.0)
    first = Session.create(store, session_id="s")
    Session.create(store, session_id=first.name)
    ref = store.blobs.put(b"picture")
    first.append(Message(message=Prompt(content=(Image(mime_type="image/png", blob=ref),))))
    # What a store object remembers of names is not what is tested here.
    store.close()
    with pytest.raises(StoreError, match="is ambiguous"):
        collect(store, older_than_s=0)
    assert store.blobs.get(ref) == b"picture"


def test_logs_are_not_read_without_old_blobs(place, monkeypatch):
    """Where no blob is old there is nothing to look for."""
    place.store.blobs.put(b"young")
    monkeypatch.setattr(JsonlStore, "load", lambda *_, **__: pytest.fail("a log was read"))
    assert collect(place.store).blobs == ()


def test_a_missing_store_is_not_created(tmp_path):
    """Law 9."""
    assert collect(JsonlStore(str(tmp_path / "nowhere"))).blobs == ()
    assert os.listdir(tmp_path) == []


def test_progress_never_decreases_and_ends_complete(place):
    """It counts bytes of logs."""
    place.old(b"old")
    for number in range(20):
        place.session.say(f"message {number}")
    Session.create(place.store, session_id="other").say("more")
    seen = []
    collect(place.store, progress=lambda done, total: seen.append((done, total)))
    total = sum(stat.size for stat in place.store.sessions())
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)


def test_memory_does_not_grow_with_the_logs(place):
    """LOG-16: ten megabytes of names take no more memory than their line."""
    ref = place.old(b"named at the end")
    line = b" ".join(digest_of(b"%d" % number).encode() for number in range(100)) + b"\n"
    place.add(line * 1_500)
    place.add(ref.digest.encode())
    tracemalloc.start()
    try:
        assert place.unnamed() == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 1024 * 1024 < place.log.stat().st_size


def test_the_memory_store_collects_like_the_file_store():
    """Law 12."""
    now = [0.0]
    store = MemoryStore(now=lambda: now[0])
    session = Session.create(store, session_id="s")
    named, lost = store.blobs.put(b"named"), store.blobs.put(b"lost")
    session.append(Message(message=Prompt(content=(Text(text=f"see {named.digest}"),))))
    assert collect(store).blobs == ()
    now[0] += DAY_S
    young = store.blobs.put(b"young")
    assert [blob.digest for blob in collect(store).blobs] == [lost.digest]
    assert {blob.digest for blob in store.blobs.stored()} == {named.digest, young.digest}


def test_a_blob_put_while_the_logs_are_read_stays(place):
    """LOG-12: the age is checked again when a blob is removed."""
    ref = place.old(b"old")
    found = collect(place.store, progress=lambda *_: place.store.blobs.put(b"old") and None)
    assert found.blobs == ()
    assert place.store.blobs.get(ref) == b"old"


def test_references_as_the_codec_writes_them_are_found(place):
    """LOG-12."""
    ref = place.old(b"content")
    assert ref.digest.encode() in msgspec.json.encode(ref)
