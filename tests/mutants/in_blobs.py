"""Mutants of blobs: how they are kept, read and collected."""

from tests.mutants.mutant import Mutant

FILES = "tests/stores/jsonl/test_blob_files.py"
SUITE = f"{FILES}::TestBlobFiles"
MEMORY = "tests/stores/test_memory_blobs.py::TestMemoryBlobs"
FAULTS = "tests/faults/test_blobs.py"
COLLECTING = "tests/test_collecting.py"

IN_BLOBS = (
    Mutant(
        "a blob that is put again stays old",
        "LOG-12",
        "stores/jsonl/blob_files.py",
        "        os.utime(descriptor)\n",
        "",
        (
            f"{SUITE}::test_putting_again_makes_young",
            f"{FAULTS}::test_a_remover_looks_at_the_age_again",
            f"{FAULTS}::test_a_collector_beside_writers",
        ),
    ),
    Mutant(
        "a blob gets its name before it is on the disk",
        "law 4, LOG-12",
        "stores/jsonl/blob_files.py",
        "            os.fsync(descriptor)\n",
        "",
        (f"{FAULTS}::test_a_blob_is_synced_before_it_is_told", f"{FAULTS}::test_a_failed_sync_during_put"),
    ),
    Mutant(
        "the name of a blob is not synced",
        "law 4, LOG-12",
        "stores/jsonl/blob_files.py",
        "        sync_folder(shelf)\n",
        "",
        (f"{FAULTS}::test_a_blob_is_synced_before_it_is_told",),
    ),
    Mutant(
        "a blob is written in its place",
        "law 4, LOG-12",
        "stores/jsonl/blob_files.py",
        '    draft = os.path.join(shelf, f"{_DRAFT}{os.urandom(8).hex()}")\n',
        "    draft = path\n",
        (f"{FAULTS}::test_a_blob_is_synced_before_it_is_told", f"{SUITE}::test_putting_again_repairs"),
    ),
    Mutant(
        "a blob is believed without its digest",
        "LOG-12, law 9",
        "stores/jsonl/blob_files.py",
        "        if digest_of(content) != ref.digest:\n",
        "        if False:\n",
        (f"{SUITE}::test_every_flipped_bit_is_noticed",),
    ),
    Mutant(
        "a damaged blob counts as put",
        "law 4, LOG-12",
        "stores/jsonl/blob_files.py",
        "        if content[at : at + len(block)] != block:\n            return False\n",
        "",
        (f"{SUITE}::test_putting_again_repairs",),
    ),
    Mutant(
        "whoever puts takes no lock",
        "LOG-12",
        "stores/jsonl/blob_files.py",
        ", self._locked(fcntl.LOCK_SH):",
        ":",
        (f"{FAULTS}::test_nobody_removes_while_a_writer_puts",),
    ),
    Mutant(
        "whoever removes does not look at the age again",
        "LOG-12",
        "stores/jsonl/blob_files.py",
        "            if self._age_s(os.stat(path, follow_symlinks=False)) >= older_than_s:\n",
        "            if os.path.exists(path):\n",
        (f"{SUITE}::test_only_what_is_old_is_removed", f"{FAULTS}::test_a_remover_looks_at_the_age_again"),
    ),
    Mutant(
        "a digest may be a path",
        "law 13",
        "log/digest.py",
        "    return _DIGEST.fullmatch(text) is not None\n",
        '    return text.startswith("sha256:")\n',
        (f"{SUITE}::test_digests_outside_the_grammar",),
    ),
    Mutant(
        "memory keeps no time",
        "LOG-12, law 12",
        "stores/memory_blobs.py",
        "            self._kept[digest] = _Kept(bytes(content), self._now())\n",
        "            self._kept.setdefault(digest, _Kept(bytes(content), self._now()))\n",
        (f"{MEMORY}::test_putting_again_makes_young", f"{MEMORY}::test_putting_again_repairs"),
    ),
    Mutant(
        "a collector ignores the age",
        "LOG-12",
        "collecting.py",
        " if blob.age_s >= older_than_s}",
        "}",
        (f"{COLLECTING}::test_logs_are_not_read_for_nothing",),
    ),
    Mutant(
        "a collector reads only what it understands",
        "law 9, LOG-12",
        "collecting.py",
        "        yield len(line.raw) + line.ended, digests_in(raw)\n",
        '        yield len(line.raw) + line.ended, digests_in(raw) if raw.endswith(b"}") else set()\n',
        (f"{COLLECTING}::test_every_byte_of_a_log_counts",),
    ),
    Mutant(
        "a collector loses names between slices",
        "law 9, LOG-12",
        "collecting.py",
        '        before = b"" if line.ended else raw[1 - DIGEST_CHARS :]\n',
        "",
        (f"{COLLECTING}::test_a_name_across_the_slices_of_a_line_that_is_too_long",),
    ),
    Mutant(
        "a check believes the size",
        "LOG-16, law 9",
        "stores/jsonl/blob_files.py",
        "        if _TAG + digest.hexdigest() != ref.digest:\n",
        "        if False:\n",
        (
            f"{SUITE}::test_every_flipped_bit_is_noticed",
            "tests/cli/test_check.py::test_a_lost_blob_is_found_and_explained",
        ),
    ),
    Mutant(
        "a blob that an unknown type names is not checked",
        "LOG-16, law 10",
        "log/references.py",
        "    for (digest, size), what in (unknown | known).items():\n",
        "    for (digest, size), what in known.items():\n",
        ("tests/test_auditing.py::test_what_every_entry_loses",),
    ),
)
