"""Folders for the stores of the fault tests: on the disk, or in memory where ten thousand files are written."""

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture
def quick_folder(tmp_path) -> Iterator[str]:
    """A folder for sweeps: in memory, where such a file system exists."""
    if not os.access("/dev/shm", os.W_OK) or shutil.disk_usage("/dev/shm").free < 32 * 1024 * 1024:
        yield str(tmp_path / "store")
        return
    folder = tempfile.mkdtemp(dir="/dev/shm", prefix="wakelog-")
    yield os.path.join(folder, "store")
    shutil.rmtree(folder)
