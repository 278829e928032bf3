"""Mutants of blobs: how they are kept, read and collected."""

from tests.mutants.mutant import Mutant

FILES = "tests/stores/jsonl/test_blob_files.py"
SUITE = f"{FILES}::TestBlobFiles"
MEMORY = "tests/stores/test_memory_blobs.py::TestMemoryBlobs"
FAULTS = "tests/faults/test_blobs.py"
COLLECTING = "tests/test_collecting.py"
LARGE = "tests/test_large_content.py"

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
        "        if not whole or digest_of(content) != ref.digest:\n",
        "        if not whole:\n",
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
        "an image stays in its line",
        "LOG-12",
        "session.py",
        "        return with_media_in_blobs(body, self.store.blobs.put) if self.rules >= 2 else body\n",
        "        return body\n",
        (f"{LARGE}::test_media_are_blobs",),
    ),
    Mutant(
        "an old worker's image is put into a blob",
        "law 11",
        "session.py",
        "        return with_media_in_blobs(body, self.store.blobs.put) if self.rules >= 2 else body\n",
        "        return with_media_in_blobs(body, self.store.blobs.put)\n",
        (f"{LARGE}::test_rules_1_kept_media_in_the_line",),
    ),
    Mutant(
        "a prompt too long for a line is an error",
        "LOG-12",
        "session.py",
        "        if self.rules < 2:\n            return body\n        return with_long_texts",
        "        if True:\n            return body\n        return with_long_texts",
        (f"{LARGE}::test_a_prompt_too_long_for_a_line",),
    ),
    Mutant(
        "a replayed tool shows nothing",
        "law 11, LOG-12",
        "replaying/answers.py",
        'is_error=result.settled == "error", media=media)',
        'is_error=result.settled == "error")',
        (f"{LARGE}::test_what_a_tool_shows",),
    ),
    Mutant(
        "a model that takes no media is sent some",
        "RUN-8",
        "providers/door.py",
        'all_in_words(request) if params.media == "note" else request',
        "request",
        ("tests/providers/test_media.py::test_a_model_that_takes_no_media",),
    ),
)
