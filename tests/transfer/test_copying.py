"""Copying a log: byte for byte, once, up to its length at the start, and never over other bytes."""

import itertools
import threading
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.patience import PATIENCE_S
from tests.transfer.rigs import KINDS, Between, first, holding, hostile_logs, log_of, numbered
from wakelog.errors import Conflict, Damaged, StoreError, UsageError
from wakelog.log.codec import LINE_MAX_BYTES
from wakelog.log.ids import digest_of
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.memory import MemoryStore
from wakelog.transfer import copy, copying

many = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def copied(source, target, sessions=None, **more):
    """The result for the one session."""
    (done,) = copy(source, target, sessions, **more)
    return done


def test_through_all_stores_and_back(stores):
    """Law 12: any log comes back from every store byte for byte."""
    way, numbers = [stores.new(kind) for kind in (*KINDS, "memory")], itertools.count()

    @many
    @given(hostile_logs())
    def goes_round(raw):
        raw, name = numbered(raw, next(numbers))
        here = holding(raw, name=name)
        for there in way:
            done = copied(here, there, [name])
            assert (done.status, done.to, done.copied) == ("copied", name, len(raw))
            assert log_of(there, name) == raw
            assert copied(here, there, [name]).status == "unchanged"
            here = there

    goes_round()


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_grows_by_any_bytes(stores, kind):
    """LOG-11, law 9: each copy takes the new bytes, also where the last one ended in the middle of a line."""
    target, numbers = stores.new(kind), itertools.count()

    @many
    @given(hostile_logs(), st.lists(st.integers(0, 3_000), max_size=3))
    def grows(raw, cuts):
        raw, name = numbered(raw, next(numbers))
        source, had = MemoryStore(), 0
        # The id is in the first line, and does not change while a log grows.
        least = raw.find(b"\n") + 1 or len(raw)
        for end in sorted({max(least, min(cut, len(raw))) for cut in cuts} | {len(raw)}):
            source.replace("s", name, raw[:end])
            done = copied(source, target)
            assert (done.error, done.copied, done.bytes) == (None, end - had, end)
            assert log_of(target, name) == raw[:end]
            had = end

    grows()


@pytest.mark.parametrize("kind", KINDS)
def test_a_copied_session_can_be_continued(stores, kind):
    """Law 12: the copy can be read and appended to like any session."""
    source = MemoryStore()
    session = Session.create(source, agent="crab", session_id="s")
    session.say("one")
    target = stores.new(kind)
    copied(source, target)
    there = Session(target, "s")
    assert there.say("two").seq == 2
    assert [entry.seq for entry in there.read().entries] == [0, 1, 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ended", [True, False])
def test_lines_over_the_limit(stores, kind, ended):
    """Law 9: a line that is too long to be held is copied in slices."""
    raw = first() + b"x" * (LINE_MAX_BYTES + 3_000_000) + b"\n" * ended + b"y\n" * ended
    source, target = stores.new("jsonl"), stores.new(kind)
    source.adopt("s", "crab_user_1", raw)
    assert copied(source, target).copied == len(raw)
    assert log_of(target) == raw
    assert copied(target, stores.new("jsonl")).copied == len(raw)


def test_an_empty_log(stores):
    """Law 12: a session without a byte is a session."""
    for kind in KINDS:
        target = stores.new(kind)
        assert copied(holding(b""), target).status == "copied"
        assert [stat.size for stat in target.sessions()] == [0]
        assert copied(holding(b""), target).status == "unchanged"


def test_runs_end_where_lines_end(monkeypatch):
    """Law 4: a process that dies between two runs leaves complete lines."""
    monkeypatch.setattr(copying, "_RUN_BYTES", 100)
    raw = first() + b"".join(b"%d%s\n" % (at, b"x" * at) for at in range(150)) + b"torn"
    target = Between(MemoryStore(), adopt=lambda real, *given, **more: real(*given, **more))
    copied(holding(raw), target)
    runs = [given[2] for _, given, _ in target.seen]
    assert len(runs) > 50
    assert all(run.endswith(b"\n") for run in runs[:-1])
    assert b"".join(runs) == raw


def test_a_second_copy_writes_nothing():
    """LOG-11: there is no call that writes, not even with empty content."""
    source, target = holding(first() + b"one\n"), MemoryStore()
    copied(source, target)
    refusing = {name: lambda *_: pytest.fail("written") for name in ("adopt", "create", "append", "entitle")}
    assert copied(source, Between(target, **refusing)).status == "unchanged"


def test_memory_does_not_grow_with_the_log(stores):
    """LOG-16: thirty megabytes are copied with the memory of a few."""
    source, target = stores.new("jsonl"), stores.new("jsonl")
    source.adopt("s", "crab_user_1", first() + b'{"type":"x","id":"y","pad":"%s"}\n' % (b"x" * 1_000) * 30_000)
    tracemalloc.start()
    try:
        assert copied(source, target).copied > 30_000_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 18 * 1024 * 1024


# ── concurrent writers ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("here", "there"),
    [
        (b"one\n", b"one\ntwo\n"),
        (b"one\nthree\n", b"one\ntwo\n"),
        (b"one\n", b"on"),
        (b"one", b"one\n"),
        (b"", b"\n"),
    ],
)
def test_a_target_with_other_entries_is_a_conflict(stores, kind, here, there):
    """Law 1: both logs stay as they are, and the other sessions are still copied."""
    source, target = holding(first() + here), stores.new(kind)
    source.replace("other", "crab_user_2", first("other"))
    target.adopt("s", "crab_user_1", first() + there)
    conflict, other = copy(source, target)
    if there == b"on":
        # The beginning of a line is the beginning of a log.
        assert conflict.status == "copied"
        there = here
    else:
        assert (conflict.status, conflict.copied, conflict.to) == ("conflict", 0, "crab_user_1")
        assert isinstance(conflict.error, Conflict)
        assert "crab_user_1" in conflict.error.message
    assert log_of(target) == first() + there
    assert log_of(source) == first() + here
    assert (other.status, log_of(target, "other")) == ("copied", first("other"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_taken_name_gets_the_next_number(stores, kind):
    """ST-2: the session keeps its id, and is found by it."""
    source, target = holding(first("mine") + b"one\n"), stores.new(kind)
    target.adopt("theirs", "crab_user_1", first("theirs"))
    assert copied(source, target).to == "crab_user_2"
    source.plant("crab_user_1", b"two\n")
    done = copied(source, target)
    assert (done.status, done.to, done.copied) == ("copied", "crab_user_2", 4)
    assert log_of(target, "mine") == log_of(source)
    assert log_of(target, "crab_user_1") == first("theirs")


def test_a_taken_name_without_an_id_is_a_conflict():
    """Law 1: without a readable first line only the name identifies the session, and another one has it."""
    source, target = holding(b"rubbish\n"), holding(first("theirs"))
    assert copied(source, target).status == "conflict"
    assert log_of(target) == first("theirs")


@pytest.mark.parametrize("end", [b"one\n", b"torn"])
def test_a_log_is_copied_up_to_its_length_at_the_start(end):
    """LOG-10: entries that are appended meanwhile are left for the next copy."""
    source, target = holding(first() + end), MemoryStore()

    def journals(real, session):
        # The last that is asked for while a session is first read.
        source.plant(session, b" no more\nmeanwhile\n")
        return real(session)

    done = copied(Between(source, journals=journals), target)
    assert (done.status, log_of(target)) == ("copied", first() + end)
    assert copied(source, target).copied == len(b" no more\nmeanwhile\n")
    assert log_of(target) == log_of(source)


def test_a_concurrent_copy_that_is_faster(monkeypatch):
    """LOG-10: the slower copy reads the target again, and continues after the other one."""
    monkeypatch.setattr(copying, "_RUN_BYTES", 10)
    source, inner = holding(first() + b"a line\n" * 30), MemoryStore()
    overtaken: list[int] = []

    def adopt(real, session, name, raw, *, size=0):
        if len(overtaken) in (0, 3):
            inner.adopt(session, name, log_of(source)[size : size + 70], size=size)
        overtaken.append(size)
        return real(session, name, raw, size=size)

    done = copied(source, Between(inner, adopt=adopt))
    assert (done.status, log_of(inner)) == ("copied", log_of(source))


def test_a_concurrent_copy_of_a_longer_log_is_no_conflict(stores):
    """LOG-10: the target is ahead because the source is ahead by now."""
    source, target = holding(first() + b"one\n"), stores.new("jsonl")
    copied(source, target)

    def load(real, *given, **more):
        lines = real(*given, **more)
        if len(calls.seen) == 2:
            source.plant("crab_user_1", b"two\n")
            copied(source, target)
        return lines

    calls = Between(source, load=load)
    assert copied(calls, target).status == "unchanged"
    assert len(calls.seen) == 3
    assert log_of(target) == first() + b"one\ntwo\n"


def test_a_foreign_line_in_the_target_is_a_conflict():
    """Law 1: a line that another program appends between two reads stays."""
    source, inner = holding(first() + b"one\n"), holding(first())

    def adopt(real, session, name, raw, *, size=0):
        inner.plant("crab_user_1", b"mine\n")
        return real(session, name, raw, size=size)

    assert copied(source, Between(inner, adopt=adopt)).status == "conflict"
    assert log_of(inner) == first() + b"mine\n"


@pytest.mark.parametrize("kind", KINDS)
def test_two_concurrent_copies_both_succeed(stores, kind, monkeypatch):
    """LOG-10: every byte exists once."""
    monkeypatch.setattr(copying, "_RUN_BYTES", 300)
    raw = first() + b"".join(b"line %d\n" % at for at in range(1_000))
    url = stores.url(kind)
    target = stores.open(url)
    others = [target if kind == "memory" else stores.open(url) for _ in range(3)]
    ready, ends = threading.Barrier(3), []

    def work(store):
        ready.wait(PATIENCE_S)
        ends.append(copied(holding(raw), store).status)

    workers = [threading.Thread(target=work, args=(store,)) for store in others]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_S)
    assert len(ends) == 3
    assert set(ends) <= {"copied", "unchanged"}
    assert log_of(target) == raw
    assert [stat.name for stat in target.sessions()] == ["crab_user_1"]


# ── trouble ──────────────────────────────────────────────────────────────────────────────────────


def test_written_bytes_are_read_back_and_compared():
    """Law 4: a store that acknowledges and keeps other bytes is reported, with both digests."""
    raw, other = first() + b"one\n", first() + b"onE\n"
    target = Between(MemoryStore(), adopt=lambda real, session, name, _, **more: real(session, name, other, **more))
    done = copied(holding(raw), target)
    assert done.status == "failed"
    assert isinstance(done.error, Damaged)
    assert digest_of(raw) in done.error.message
    assert digest_of(other) in done.error.message


def test_an_unreadable_log_is_reported_and_the_others_are_copied():
    """Law 9."""
    source, target = holding(first()), MemoryStore()
    source.replace("other", "crab_user_2", first("other"))

    def load(real, session, **more):
        if session == "crab_user_1":
            raise StoreError("cannot read it: the disk is on fire")
        return real(session, **more)

    failed, other = copy(Between(source, load=load), target)
    assert (failed.status, str(failed.error)) == ("failed", "cannot read it: the disk is on fire")
    assert other.status == "copied"
    assert [stat.name for stat in target.sessions()] == ["crab_user_2"]


def test_a_failing_target_ends_the_copy():
    """An error that every session would meet is raised once."""
    source = holding(first())
    source.replace("other", "crab_user_2", first("other"))

    def adopt(real, session, name, raw, *, size=0):
        if session == "other":
            raise StoreError("cannot write: no space left")
        return real(session, name, raw, size=size)

    done = copy(source, Between(MemoryStore(), adopt=adopt))
    assert next(done).status == "copied"
    with pytest.raises(StoreError, match="no space"):
        next(done)


def test_an_ambiguous_session_is_not_copied(stores):
    """Law 12: where the id of one session is the name of another, the wrong log is not copied in its place."""
    source = MemoryStore()
    source.replace("s", "crab_user_1", first())
    source.replace("crab_user_1", "crab_user_2", first("crab_user_1"))
    failed, fine = copy(source, stores.new("jsonl"))
    assert (failed.name, failed.status, "is ambiguous" in str(failed.error)) == ("crab_user_1", "failed", True)
    assert (fine.name, fine.status) == ("crab_user_2", "copied")


def test_copying_a_store_onto_itself_is_refused():
    """Law 1: before anything is written."""
    store = holding(first())
    with pytest.raises(UsageError, match="onto itself"):
        copy(store, store)


def test_a_dry_run_writes_nothing_and_reports_what_a_copy_does(tmp_path):
    """Law 9."""
    source = holding(first() + b"one\n")
    target = JsonlStore(str(tmp_path / "store"))
    seen = copied(source, target, dry_run=True)
    assert (seen.status, seen.to, seen.copied) == ("pending", None, len(first()) + 4)
    assert list(tmp_path.iterdir()) == []
    done = copied(source, target)
    assert (done.status, done.copied, done.bytes) == ("copied", seen.copied, seen.bytes)
    source.plant("s", b"two\n")
    assert copied(source, target, dry_run=True).copied == 4
    assert log_of(target) == first() + b"one\n"


def test_progress_never_decreases_and_ends_complete():
    """Also where an error occurred."""
    source, target = holding(first() + b"a line\n" * 50), MemoryStore()
    source.replace("b", "crab_user_2", first("b") + b"here\n")
    source.replace("c", "crab_user_3", first("c"))
    target.replace("b", "crab_user_2", first("b") + b"there\n")
    for _ in range(2):
        seen = []
        list(copy(source, target, progress=lambda *how: seen.append(how)))  # noqa: B023 - used at once
        total = 3 * sum(stat.size for stat in source.sessions())
        assert seen == sorted(seen)
        assert {whole for _, whole in seen} == {total}
        assert seen[-1] == (total, total)
