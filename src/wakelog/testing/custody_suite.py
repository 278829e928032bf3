"""Part of the store suite: files that other users own or may write to are reported, and no agent is run on them.

Owners cannot be changed without privileges, so the suite changes modes; `rig.files` says of which files.
"""

import contextlib
import os
import stat
from collections.abc import Iterator

import pytest

from wakelog.errors import NotFound, Untrusted
from wakelog.ports import Store
from wakelog.runtime.checks import check_custody
from wakelog.session import Session
from wakelog.testing.store_rig import Rig, stored


@contextlib.contextmanager
def changed_mode(path: str, bits: int) -> Iterator[None]:
    """A file or folder with these bits added to its mode."""
    before = stat.S_IMODE(os.stat(path).st_mode)
    os.chmod(path, before | bits)
    try:
        yield
    finally:
        os.chmod(path, before)


def _written(store: Store) -> tuple[Session, str]:
    """A session with everything that a store keeps beside a log, and the digest of its blob."""
    session = Session.create(store)
    session.say("hello")
    digest = store.blobs.put(b"content").digest
    session.release(session.acquire("one", ttl_s=5))
    store.journal(session.name, "r1", b"{}")
    return session, digest


class CustodySuite:
    """Owners and modes of what a store keeps."""

    def test_what_a_store_makes_is_private(self, store: Store) -> None:
        """Law 13: nothing is exposed of what the store itself made, also under a umask that takes no rights away."""
        before = os.umask(0)
        try:
            session, digest = _written(store)
        finally:
            os.umask(before)
        assert store.custody() == ()
        assert store.custody(session.name, blobs=[digest]) == ()
        assert store.custody(session.id) == ()

    def test_custody_of_no_session(self, store: Store) -> None:
        """A store that is not there yet has nothing to report; a session that is not there is `NotFound`."""
        assert store.custody() == ()
        with pytest.raises(NotFound):
            store.custody("nothing")

    def test_every_file_that_others_may_write_is_reported(self, rig: Rig, store: Store) -> None:
        """Law 13: g+w and o+w are reported for each file and folder, and the session is not run."""
        session, digest = _written(store)
        before = stored(store, session.id)
        for path in rig.files(session.name):
            for bits in (stat.S_IWGRP, stat.S_IWOTH):
                with changed_mode(path, bits):
                    assert [found.path for found in store.custody(session.name, blobs=[digest])] == [path]
                    with pytest.raises(Untrusted) as refused:
                        check_custody(session)
                    assert path in refused.value.message
                    assert "trusted_owners" in refused.value.hint
        check_custody(session)
        assert stored(store, session.id) == before
