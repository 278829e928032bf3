"""Conformance suite for blob stores. Subclass it in a test class with one fixture, `rig`.

    class TestMyBlobs(BlobSuite):
        @pytest.fixture
        def rig(self): ...

Each test names the law or requirement it covers. Power loss, killed processes and failing disks are covered by
separate tests of each implementation.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakelog.errors import Damaged, NotFound
from wakelog.log.content import BlobRef
from wakelog.log.ids import digest_of
from wakelog.ports.stores import Blobs

DAY_S = 24 * 60 * 60.0
INVALID_DIGESTS = (
    "",
    "sha256:",
    "sha256:../../x",
    "/etc/passwd",
    "a\x00b",
    "0" * 64,
    "md5:" + "0" * 64,
    "sha256:" + "A" * 64,
    "sha256:" + "0" * 65,
    "sha256:" + "0" * 64 + "\n",
    "sha256:" + "٠" * 64,
)


class BlobRig(Protocol):
    """Blobs under test, and what the suite may do to their environment."""

    blobs: Blobs

    def again(self) -> Blobs:
        """Return another object on the same blobs, as in another process."""
        ...

    def age(self, digest: str, seconds: float) -> None:
        """Make a blob as old as if it had been put `seconds` earlier."""
        ...

    def replace(self, digest: str, content: bytes) -> None:
        """Overwrite the stored bytes of a blob, as a failing disk would."""
        ...


def digests(blobs: Blobs) -> list[str]:
    """Return the stored digests, sorted, with duplicates."""
    return sorted(blob.digest for blob in blobs.stored())


def age_of(blobs: Blobs, digest: str) -> float:
    """Return the age of a blob in seconds, according to the listing."""
    return next(blob.age_s for blob in blobs.stored() if blob.digest == digest)


class BlobSuite:
    """Subclass it and provide a `rig` fixture."""

    # ── bytes in, bytes out ──────────────────────────────────────────────────────────────────────

    def test_what_is_put_is_got(self, rig: BlobRig) -> None:
        """LOG-12: the reference holds digest, size and media type, and is enough to get the bytes."""
        ref = rig.blobs.put(b"some bytes", "text/plain")
        rig.blobs.check(ref)
        assert ref == BlobRef(digest=digest_of(b"some bytes"), bytes=10, media_type="text/plain")
        assert rig.blobs.get(ref) == rig.again().get(ref) == b"some bytes"
        assert rig.blobs.get(BlobRef(digest=ref.digest, bytes=10)) == b"some bytes"

    def test_any_bytes(self, rig: BlobRig) -> None:
        """Law 12, LOG-12: any content is stored and returned, empty content too."""

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.binary(max_size=200))
        def roundtrip(content: bytes) -> None:
            assert rig.blobs.get(rig.blobs.put(content)) == content

        roundtrip()
        for content in (b"", b"\n", b"\x00" * 70_000, bytes(range(256)) * 8_192):
            assert rig.again().get(rig.blobs.put(content)) == content

    def test_equal_bytes_are_kept_once(self, rig: BlobRig) -> None:
        """LOG-12: equal bytes are one blob, whichever object puts them and whatever their media type."""
        refs = [blobs.put(b"the same", kind) for blobs in (rig.blobs, rig.again()) for kind in ("text/plain", "")]
        assert digests(rig.blobs) == [refs[0].digest]
        rig.blobs.put(b"another")
        assert len(digests(rig.blobs)) == 2

    def test_a_listing_tells_size_and_age(self, rig: BlobRig) -> None:
        """LOG-12: every blob is listed with its size and the time since it was put."""
        ref = rig.blobs.put(b"x" * 1_000)
        (found,) = rig.blobs.stored()
        assert (found.digest, found.bytes) == (ref.digest, 1_000)
        assert 0 <= found.age_s < DAY_S / 2
        rig.age(ref.digest, DAY_S)
        assert DAY_S <= age_of(rig.blobs, ref.digest) < 1.5 * DAY_S

    def test_many_at_once(self, rig: BlobRig) -> None:
        """LOG-12: concurrent writers of equal and different bytes all get back what they put."""
        writers = [rig.blobs, *(rig.again() for _ in range(3))]

        def put(number: int) -> tuple[bytes, BlobRef]:
            content = b"content %d" % (number % 10)
            return content, writers[number % 4].put(content)

        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(put, range(80)))
        assert len(digests(rig.blobs)) == 10
        assert all(rig.blobs.get(ref) == content for content, ref in done)

    # ── missing and damaged blobs ────────────────────────────────────────────────────────────────

    def test_nothing_there(self, rig: BlobRig) -> None:
        """LOG-19: a missing blob is `NotFound`, which names it and what to do; looking it up creates nothing."""
        for look in (rig.blobs.get, rig.blobs.check):
            with pytest.raises(NotFound, match=digest_of(b"x")) as caught:
                look(BlobRef(digest=digest_of(b"x"), bytes=1))
            assert "export -f bundle" in caught.value.hint
        assert digests(rig.blobs) == []
        assert not rig.blobs.remove(digest_of(b"x"), older_than_s=0)
        assert rig.blobs.tidy(older_than_s=0) == 0

    @pytest.mark.parametrize("digest", INVALID_DIGESTS)
    def test_digests_outside_the_grammar(self, rig: BlobRig, digest: str) -> None:
        """Law 13: a reference comes from a log and is hostile; a digest that could be a path finds nothing."""
        rig.blobs.put(b"x")
        for look in (rig.blobs.get, rig.blobs.check):
            with pytest.raises(NotFound):
                look(BlobRef(digest=digest, bytes=1))
        assert not rig.blobs.remove(digest, older_than_s=0)
        assert len(digests(rig.blobs)) == 1

    def test_every_flipped_bit_is_noticed(self, rig: BlobRig) -> None:
        """Law 9, LOG-12: content is checked when it is read; changed bytes of the same size are never returned."""
        content = b"sixteen bytes !!"
        ref = rig.blobs.put(content)
        for at, bit in itertools.product(range(len(content)), range(8)):
            flipped = bytearray(content)
            flipped[at] ^= 1 << bit
            rig.replace(ref.digest, bytes(flipped))
            for look in (rig.blobs.get, rig.blobs.check):
                with pytest.raises(Damaged) as caught:
                    look(ref)
        assert ref.digest in caught.value.message
        assert caught.value.hint
        assert digests(rig.blobs) == [ref.digest]

    @pytest.mark.parametrize("content", [b"", b"whole", b"whole and more"])
    def test_other_sizes_are_noticed(self, rig: BlobRig, content: bytes) -> None:
        """Law 9, LOG-12: neither a truncated nor an extended blob is returned."""
        ref = rig.blobs.put(b"whole content")
        rig.replace(ref.digest, content)
        for look in (rig.blobs.get, rig.blobs.check):
            with pytest.raises(Damaged):
                look(ref)

    @pytest.mark.parametrize("size", [-1, 0, 12, 14, 10**15])
    def test_a_reference_that_is_wrong_about_the_size(self, rig: BlobRig, size: int) -> None:
        """Law 13: a reference with a wrong size is refused, so that a caller can rely on the size in a log."""
        ref = rig.blobs.put(b"whole content")
        for look in (rig.blobs.get, rig.blobs.check):
            with pytest.raises(Damaged):
                look(BlobRef(digest=ref.digest, bytes=size))

    @pytest.mark.parametrize("damaged", [b"", b"WHOLE content", b"whole content and more"])
    def test_putting_again_repairs(self, rig: BlobRig, damaged: bytes) -> None:
        """Law 4: an acknowledged blob is stored correctly, also if a damaged one had its digest."""
        ref = rig.blobs.put(b"whole content")
        rig.replace(ref.digest, damaged)
        assert rig.again().put(b"whole content") == ref
        assert rig.blobs.get(ref) == b"whole content"
        assert digests(rig.blobs) == [ref.digest]

    # ── removing ─────────────────────────────────────────────────────────────────────────────────

    def test_only_what_is_old_is_removed(self, rig: BlobRig) -> None:
        """LOG-12: a blob is removed only if it is older than the given age."""
        young, old = rig.blobs.put(b"young"), rig.blobs.put(b"old")
        rig.age(old.digest, DAY_S + 60)
        assert not rig.blobs.remove(young.digest, older_than_s=DAY_S)
        assert not rig.blobs.remove(old.digest, older_than_s=2 * DAY_S)
        assert rig.again().remove(old.digest, older_than_s=DAY_S)
        assert not rig.blobs.remove(old.digest, older_than_s=DAY_S)
        assert digests(rig.blobs) == [young.digest]
        with pytest.raises(NotFound):
            rig.blobs.get(old)
        assert rig.blobs.remove(young.digest, older_than_s=0)

    def test_putting_again_makes_young(self, rig: BlobRig) -> None:
        """LOG-12: putting an existing blob again resets its age, so that there is time to reference it."""
        ref = rig.blobs.put(b"content")
        rig.age(ref.digest, 3 * DAY_S)
        rig.again().put(b"content")
        assert age_of(rig.blobs, ref.digest) < DAY_S
        assert not rig.blobs.remove(ref.digest, older_than_s=DAY_S)
        assert rig.blobs.get(ref) == b"content"

    def test_reading_does_not_make_young(self, rig: BlobRig) -> None:
        """Law 9: reading a blob does not change its age."""
        ref = rig.blobs.put(b"content")
        rig.age(ref.digest, 3 * DAY_S)
        assert rig.blobs.get(ref) == b"content"
        rig.blobs.check(ref)
        assert age_of(rig.blobs, ref.digest) >= 3 * DAY_S
        assert rig.blobs.remove(ref.digest, older_than_s=3 * DAY_S)

    def test_what_was_removed_can_be_put_again(self, rig: BlobRig) -> None:
        """LOG-12: a removed blob can be put again like a new one."""
        ref = rig.blobs.put(b"content")
        assert rig.blobs.remove(ref.digest, older_than_s=0)
        assert rig.again().put(b"content") == ref
        assert rig.blobs.get(ref) == b"content"
