"""Store suite, file ownership: files that other users own or may write to are reported, and no agent is run on them.

Owners cannot be changed without privileges, so the suite changes modes of the files in `rig.files`.
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
    """Add bits to the mode of a file or folder while the context is active."""
    before = stat.S_IMODE(os.stat(path).st_mode)
    os.chmod(path, before | bits)
    try:
        yield
    finally:
        os.chmod(path, before)


def _written(store: Store) -> tuple[Session, str]:
    """Return a session with everything that a store keeps beside a log, and the digest of its blob."""
    session = Session.create(store)
    session.say("hello")
    digest = store.blobs.put(b"content").digest
    session.release(session.acquire("one", ttl_s=5))
    store.journal(session.name, "r1", b"{}")
    return session, digest


class CustodySuite:
    """Owners and modes of the files of a store."""

    def test_what_a_store_makes_is_private(self, store: Store) -> None:
        """Law 13: files created by the store are private, also under a umask of 0."""
        before = os.umask(0)
        try:
            session, digest = _written(store)
        finally:
            os.umask(before)
        assert store.custody() == ()
        assert store.custody(session.name, blobs=[digest]) == ()
        assert store.custody(session.id) == ()

    def test_custody_of_no_session(self, store: Store) -> None:
        """An empty store reports nothing; an unknown session is `NotFound`."""
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
