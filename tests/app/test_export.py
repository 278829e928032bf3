"""Writing an export into a new file (ST-8)."""

import pytest

from wakelog.app.export import write_new_file
from wakelog.errors import StoreError, UsageError


def test_an_export_that_fails_leaves_no_file(tmp_path):
    """A log that cannot be read to its end leaves no partial file."""

    def content():
        yield b"the beginning"
        raise StoreError("the disk does not answer")

    path = tmp_path / "session.jsonl"
    with pytest.raises(StoreError, match="does not answer"):
        write_new_file(str(path), content())
    assert not path.exists()


def test_an_existing_file_is_not_overwritten(tmp_path):
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"mine")
    with pytest.raises(UsageError, match="already exists"):
        write_new_file(str(path), [b"other"])
    assert path.read_bytes() == b"mine"
