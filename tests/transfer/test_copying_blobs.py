"""LOG-12: blobs are copied before the log that names them, each once and checked; a lost one affects no other."""

import pytest

from tests.transfer.rigs import KINDS, Between, first, holding, log_of
from wakelog.errors import StoreError
from wakelog.log.codec import LINE_MAX_BYTES
from wakelog.log.content import Image, Prompt
from wakelog.log.entry import Message
from wakelog.log.ids import digest_of
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.transfer import copy
from wakelog.transfer.garbage import DAY_S, collect


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def source(now):
    return MemoryStore(now=lambda: now[0])


@pytest.fixture
def session(source):
    return Session.create(source, agent="crab", session_id="s")


def show(session, ref):
    """An entry that names a blob."""
    session.append(Message(message=Prompt(content=(Image(mime_type="image/png", blob=ref),))))


def digests(store):
    return {blob.digest for blob in store.blobs.stored()}


class Loud(Between):
    """A store that records puts and adopted logs, in order."""

    def __init__(self, store):
        super().__init__(store, adopt=lambda real, *given, **more: real(*given, **more))
        self.blobs = Between(store.blobs, put=self._put)

    def _put(self, real, content, media_type=""):
        self.seen.append(("put", (content,), {}))
        return real(content, media_type)


@pytest.mark.parametrize("kind", KINDS)
def test_the_blobs_of_a_log_are_copied(stores, kind, source, session):
    """LOG-12: those blobs, and no others; a second copy copies none."""
    named = [source.blobs.put(b"%d" % at * 1_000) for at in range(3)]
    source.blobs.put(b"named by no log")
    for ref in named:
        show(session, ref)
    target = stores.new(kind)
    (done,) = copy(source, target)
    assert (done.blobs, done.blob_bytes) == (3, 3_000)
    assert digests(target) == {ref.digest for ref in named}
    assert [target.blobs.get(ref) for ref in named] == [source.blobs.get(ref) for ref in named]
    (again,) = copy(source, target)
    assert (again.status, again.blobs) == ("unchanged", 0)


def test_blobs_are_copied_before_the_log(source, session):
    """LOG-12: no entry ever names a missing blob."""
    show(session, source.blobs.put(b"picture"))
    target = Loud(MemoryStore())
    list(copy(source, target))
    assert [what for what, _, _ in target.seen] == ["put", "adopt"]


def test_a_blob_of_two_sessions_is_copied_once(source, session):
    """LOG-12: equal bytes are stored, and sent, once."""
    ref = source.blobs.put(b"picture")
    show(session, ref)
    show(Session.create(source, session_id="other"), ref)
    target = Loud(MemoryStore())
    assert sum(done.blobs for done in copy(source, target)) == 1
    assert [what for what, _, _ in target.seen].count("put") == 1


@pytest.mark.parametrize("line", [b"\x00 garbage %s \xff\n", b'{"type":"new","id":"x","any":["%s"]}\n', b"torn %s"])
def test_damaged_and_unknown_lines_name_blobs_too(source, line):
    """Laws 9 and 10."""
    ref = source.blobs.put(b"picture")
    source.replace("s", "crab_user_1", first() + line % ref.digest.encode())
    target = MemoryStore()
    list(copy(source, target))
    assert digests(target) == {ref.digest}


@pytest.mark.parametrize("shift", [0, 1, 35, 70, 71, 100, 140, 158])
def test_names_across_the_slices_of_a_line_that_is_too_long(stores, shift):
    """Law 9: a blob, and the loss of one, are found wherever the slices are cut."""
    source, target = stores.new("jsonl"), MemoryStore()
    kept, gone = source.blobs.put(b"kept"), digest_of(b"gone")
    names = b'"%s","digest":"%s","bytes":4}' % (kept.digest.encode(), gone.encode())
    head = first()
    blocks = (LINE_MAX_BYTES + len(head)) // (1024 * 1024) + 1
    filler = blocks * 1024 * 1024 - len(head) - shift
    source.adopt("s", "crab_user_1", head + b"x" * filler + names + b"y" * 100)
    (done,) = copy(source, target)
    assert digests(target) == {kept.digest}
    assert [lost.what for lost in done.lost] == [gone]


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_lost_blob_is_reported_and_the_rest_copied(source, session, how):
    """LOG-12: at every copy."""
    lost, fine = source.blobs.put(b"lost"), source.blobs.put(b"fine")
    show(session, lost)
    show(session, fine)
    if how == "missing":
        source.blobs.remove(lost.digest, older_than_s=0)
    else:
        source.blobs._kept[lost.digest].content = b"l0st"
    target = MemoryStore()
    for status in ("copied", "unchanged"):
        (done,) = copy(source, target)
        assert (done.status, [gone.what for gone in done.lost]) == (status, [lost.digest])
        assert lost.digest in done.lost[0].reason
    assert digests(target) == {fine.digest}
    assert log_of(target) == log_of(source)


def test_a_blob_that_the_target_has_is_not_lost(source, session):
    """LOG-12."""
    ref = source.blobs.put(b"picture")
    show(session, ref)
    target = MemoryStore()
    list(copy(source, target))
    source.blobs.remove(ref.digest, older_than_s=0)
    session.say("and on")
    (done,) = copy(source, target)
    assert (done.status, done.lost) == ("copied", ())


def test_an_unnamed_blob_of_the_target_is_not_lost(now, source, session):
    """LOG-12: also if it is old, and no log of the target names it yet."""
    target = MemoryStore(now=lambda: now[0])
    ref = target.blobs.put(b"picture")
    show(session, ref)
    now[0] += 2 * DAY_S
    (done,) = copy(source, target)
    assert (done.status, done.lost, done.blobs) == ("copied", (), 0)


def test_a_digest_that_is_not_of_a_blob_is_not_missing():
    """LOG-12: content that was never stored is not lost."""
    raw = first() + b'{"type":"call","id":"c","contextDigest":"%s"}\n' % digest_of(b"x").encode()
    raw += b'{"type":"damage","id":"d","offset":1,"bytes":2,"digest":"%s","reason":"torn"}\n' % digest_of(b"y").encode()
    (done,) = copy(holding(raw), MemoryStore())
    assert (done.status, done.lost) == ("copied", ())


def test_an_unreadable_blob_is_lost_too(source, session):
    """LOG-12: whatever the reason."""
    ref = source.blobs.put(b"picture")
    show(session, ref)

    def get(real, asked):
        raise StoreError(f"cannot read the blob {asked.digest}: permission denied")

    broken = Between(source, blobs=Between(source.blobs, get=get))
    (done,) = copy(broken, MemoryStore())
    assert [lost.what for lost in done.lost] == [ref.digest]


def test_a_damaged_blob_of_the_target_is_replaced(source, session):
    """LOG-12: one of another size is put again."""
    ref = source.blobs.put(b"picture")
    show(session, ref)
    target = MemoryStore()
    list(copy(source, target))
    target.blobs._kept[ref.digest].content = b"pic"
    (done,) = copy(source, target)
    assert (done.status, done.blobs, target.blobs.get(ref)) == ("copied", 1, b"picture")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_blob_put_during_the_copy_is_found(source, session, dry_run):
    """LOG-12: blobs are listed once; a session that is read later may name one that was put since."""
    show(session, source.blobs.put(b"early"))
    later = Session.create(source, agent="crab", session_id="z")
    target = MemoryStore()
    rows = copy(source, target, dry_run=dry_run)
    assert next(rows).blobs == 1
    show(later, source.blobs.put(b"late"))
    (done,) = rows
    assert (done.blobs, done.lost) == (1, ())
    assert digests(target) == (set() if dry_run else digests(source))


def test_an_old_blob_of_the_target_is_not_collected_during_the_copy(now, source, session):
    """LOG-12: garbage collection runs at the target just before the log that names the blob arrives."""
    target = MemoryStore(now=lambda: now[0])
    ref = source.blobs.put(b"picture")
    target.blobs.put(b"picture")
    show(session, ref)
    now[0] += 2 * DAY_S

    def adopt(real, *given, **more):
        collect(target)
        return real(*given, **more)

    list(copy(source, Between(target, adopt=adopt)))
    assert target.blobs.get(ref) == b"picture"
    now[0] += 2 * DAY_S
    (done,) = copy(source, target)
    assert (done.status, done.blobs) == ("unchanged", 0)


def test_a_dry_run_counts_blobs_without_reading_them(source, session):
    """Law 9."""
    ref, gone = source.blobs.put(b"picture"), source.blobs.put(b"gone")
    show(session, ref)
    show(session, gone)
    source.blobs.remove(gone.digest, older_than_s=0)
    target = MemoryStore()
    (done,) = copy(source, target, dry_run=True)
    assert (done.status, done.blobs, done.blob_bytes) == ("pending", 1, 7)
    assert [lost.what for lost in done.lost] == [gone.digest]
    assert digests(target) == set()
