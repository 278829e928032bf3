"""The suite every keeper of blobs must pass. Its own test file is a class with one fixture, `rig`.

    class TestMyBlobs(BlobSuite):
        @pytest.fixture
        def rig(self): ...

Each test names the law or requirement it defends. What a suite of calls cannot see (power loss, killed
processes, failing disks) is shown by tests of each kind's own.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakelog.errors import Damaged, NotFound
from wakelog.log.content import BlobRef
from wakelog.log.digest import digest_of
from wakelog.ports import Blobs

DAY_S = 24 * 60 * 60.0
NO_DIGESTS = (
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
    """Blobs under test and what the suite may do to their surroundings."""

    blobs: Blobs

    def again(self) -> Blobs:
        """Another object on the same blobs, as another process would have."""
        ...

    def age(self, digest: str, seconds: float) -> None:
        """Makes a blob as old as if it had been put that much earlier."""
        ...

    def replace(self, digest: str, content: bytes) -> None:
        """Puts other bytes in the place of a blob's, as a failing disk would."""
        ...


def digests(blobs: Blobs) -> list[str]:
    """What is stored, each as often as it is."""
    return sorted(blob.digest for blob in blobs.stored())


def age_of(blobs: Blobs, digest: str) -> float:
    """How long ago a blob was put, as a listing says."""
    return next(blob.age_s for blob in blobs.stored() if blob.digest == digest)


class BlobSuite:
    """Subclass it and give it a `rig` fixture."""

    # ── bytes in, bytes out ──────────────────────────────────────────────────────────────────────

    def test_what_is_put_is_got(self, rig: BlobRig) -> None:
        """LOG-12: the reference holds digest, size and kind, and whoever has it gets the bytes."""
        ref = rig.blobs.put(b"some bytes", "text/plain")
        rig.blobs.check(ref)
        assert ref == BlobRef(digest=digest_of(b"some bytes"), bytes=10, media_type="text/plain")
        assert rig.blobs.get(ref) == rig.again().get(ref) == b"some bytes"
        assert rig.blobs.get(BlobRef(digest=ref.digest, bytes=10)) == b"some bytes"

    def test_any_bytes(self, rig: BlobRig) -> None:
        """Law 12, LOG-12: nothing about the content matters, not even whether there is any."""

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.binary(max_size=200))
        def roundtrip(content: bytes) -> None:
            assert rig.blobs.get(rig.blobs.put(content)) == content

        roundtrip()
        for content in (b"", b"\n", b"\x00" * 70_000, bytes(range(256)) * 8_192):
            assert rig.again().get(rig.blobs.put(content)) == content

    def test_equal_bytes_are_kept_once(self, rig: BlobRig) -> None:
        """LOG-12: equal bytes are one blob, whoever puts them and whatever they call them."""
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
        """LOG-12: writers that put equal and different bytes at the same time all get what they put."""
        writers = [rig.blobs, *(rig.again() for _ in range(3))]

        def put(number: int) -> tuple[bytes, BlobRef]:
            content = b"content %d" % (number % 10)
            return content, writers[number % 4].put(content)

        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(put, range(80)))
        assert len(digests(rig.blobs)) == 10
        assert all(rig.blobs.get(ref) == content for content, ref in done)

    # ── what is not there, and what is not right ─────────────────────────────────────────────────

    def test_nothing_there(self, rig: BlobRig) -> None:
        """Bad input: a blob that is not there is `NotFound`, and asking makes nothing."""
        for look in (rig.blobs.get, rig.blobs.check):
            with pytest.raises(NotFound):
                look(BlobRef(digest=digest_of(b"x"), bytes=1))
        assert digests(rig.blobs) == []
        assert not rig.blobs.remove(digest_of(b"x"), older_than_s=0)
        assert rig.blobs.tidy(older_than_s=0) == 0

    @pytest.mark.parametrize("digest", NO_DIGESTS)
    def test_digests_outside_the_grammar(self, rig: BlobRig, digest: str) -> None:
        """Law 13: a reference comes out of a log, and may say anything; what could be a path finds nothing."""
        rig.blobs.put(b"x")
        for look in (rig.blobs.get, rig.blobs.check):
            with pytest.raises(NotFound):
                look(BlobRef(digest=digest, bytes=1))
        assert not rig.blobs.remove(digest, older_than_s=0)
        assert len(digests(rig.blobs)) == 1

    def test_every_flipped_bit_is_noticed(self, rig: BlobRig) -> None:
        """Law 9, LOG-12: what is read is checked; other bytes of the same size are never handed out."""
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
        """Law 9, LOG-12: neither a cut blob nor a grown one is handed out."""
        ref = rig.blobs.put(b"whole content")
        rig.replace(ref.digest, content)
        for look in (rig.blobs.get, rig.blobs.check):
            with pytest.raises(Damaged):
                look(ref)

    @pytest.mark.parametrize("size", [-1, 0, 12, 14, 10**15])
    def test_a_reference_that_is_wrong_about_the_size(self, rig: BlobRig, size: int) -> None:
        """Law 13: who trusts the size in a log to decide what to load is not given more, or less."""
        ref = rig.blobs.put(b"whole content")
        for look in (rig.blobs.get, rig.blobs.check):
            with pytest.raises(Damaged):
                look(BlobRef(digest=ref.digest, bytes=size))

    @pytest.mark.parametrize("damaged", [b"", b"WHOLE content", b"whole content and more"])
    def test_putting_again_repairs(self, rig: BlobRig, damaged: bytes) -> None:
        """Law 4: a blob that was acknowledged is there, also where a damaged one stood under its name."""
        ref = rig.blobs.put(b"whole content")
        rig.replace(ref.digest, damaged)
        assert rig.again().put(b"whole content") == ref
        assert rig.blobs.get(ref) == b"whole content"
        assert digests(rig.blobs) == [ref.digest]

    # ── removing ─────────────────────────────────────────────────────────────────────────────────

    def test_only_what_is_old_is_removed(self, rig: BlobRig) -> None:
        """LOG-12: an age is a limit that is kept, to both sides."""
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
        """LOG-12: whoever puts what is there already has as much time to name it as if it were new."""
        ref = rig.blobs.put(b"content")
        rig.age(ref.digest, 3 * DAY_S)
        rig.again().put(b"content")
        assert age_of(rig.blobs, ref.digest) < DAY_S
        assert not rig.blobs.remove(ref.digest, older_than_s=DAY_S)
        assert rig.blobs.get(ref) == b"content"

    def test_reading_does_not_make_young(self, rig: BlobRig) -> None:
        """Law 9: looking at a blob changes nothing."""
        ref = rig.blobs.put(b"content")
        rig.age(ref.digest, 3 * DAY_S)
        assert rig.blobs.get(ref) == b"content"
        rig.blobs.check(ref)
        assert age_of(rig.blobs, ref.digest) >= 3 * DAY_S
        assert rig.blobs.remove(ref.digest, older_than_s=3 * DAY_S)

    def test_what_was_removed_can_be_put_again(self, rig: BlobRig) -> None:
        """LOG-12: a removed blob is as if it had never been."""
        ref = rig.blobs.put(b"content")
        assert rig.blobs.remove(ref.digest, older_than_s=0)
        assert rig.again().put(b"content") == ref
        assert rig.blobs.get(ref) == b"content"
