"""RUN-10: journals as files are read in blocks, whatever their content."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakelog.stores.jsonl import journal_files
from wakelog.stores.jsonl.folder import Folder
from wakelog.stores.jsonl.journal_files import JournalFiles

ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def planted(tmp_path):
    """Put bytes into the journal `r` of the session `s`, and return the journals."""
    folder = Folder(str(tmp_path / "store"))
    path = os.path.join(folder.make(".journals", "s"), "r")

    def plant(raw):
        with open(path, "wb") as file:
            file.write(raw)
        return JournalFiles(folder)

    return plant


def _told(journals):
    """The pieces that a follower gets, call after call."""
    had: dict[str, int] = {}
    told: list[tuple[int, bytes]] = []
    while news := journals.read_new("s", had):
        told += [(piece.offset, piece.raw) for piece in news]
        had = {"r": news[-1].offset + 1}
    return told


@ANY
@given(raw=st.binary() | st.lists(st.binary(max_size=30)).map(b"\n".join), news=st.sampled_from([1, 10, 10_000]))
def test_any_bytes_are_split_into_pieces(planted, monkeypatch, raw, news):
    """A piece is a line with its LF; bytes after the last LF were not displayed."""
    monkeypatch.setattr(journal_files, "_NEWS_BYTES", news)
    pieces = raw.split(b"\n")[:-1]
    journals = planted(raw)
    assert list(journals.read("s")["r"]) == pieces
    assert _told(journals) == list(enumerate(pieces))


@ANY
@given(sizes=st.lists(st.integers(0, 40)), limit=st.integers(2, 20), block=st.integers(1, 20))
def test_a_piece_that_is_too_long_is_empty(planted, monkeypatch, sizes, limit, block):
    """It is counted, so that the offsets of the others stay; its bytes are never held completely."""
    monkeypatch.setattr(journal_files, "JOURNAL_PIECE_MAX_BYTES", limit)
    monkeypatch.setattr(journal_files, "_BLOCK_BYTES", block)
    raw = b"".join(b"x" * size + b"\n" for size in sizes)
    expected = [b"x" * size if size < limit else b"" for size in sizes]
    journals = planted(raw + b"torn" * 20)
    assert list(journals.read("s")["r"]) == expected
    assert _told(journals) == list(enumerate(expected))


def test_a_journal_that_is_dropped_while_it_is_read_has_no_pieces(planted, tmp_path):
    journals = planted(b"1\n")
    read = journals.read("s")
    journals.drop("s", "r")
    assert list(read["r"]) == []
