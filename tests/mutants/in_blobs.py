"""Planted bugs of blobs: storing, reading and garbage collection."""

from tests.mutants.mutant import Mutant

FILES = "tests/stores/jsonl/test_blob_files.py"
SUITE = f"{FILES}::TestBlobFiles"
MEMORY = "tests/stores/test_memory.py::TestMemoryBlobs"
FAULTS = "tests/faults/test_blobs.py"
COLLECTING = "tests/transfer/test_garbage.py"
LARGE = "tests/test_large_content.py"

IN_BLOBS = (
    Mutant(
        "putting a blob again does not renew its time",
        "LOG-12",
        "stores/jsonl/blob_files.py::_is_renewed",
        "os.utime(descriptor)",
        "",
        (
            f"{SUITE}::test_putting_again_makes_young",
            f"{FAULTS}::test_the_age_is_checked_again_under_the_lock",
            f"{FAULTS}::test_garbage_collection_beside_writers",
        ),
    ),
    Mutant(
        "a blob gets its name before it is on the disk",
        "law 4, LOG-12",
        "stores/jsonl/blob_files.py::_write",
        "os.fsync(descriptor)",
        "",
        (f"{FAULTS}::test_a_blob_is_synced_before_it_is_acknowledged", f"{FAULTS}::test_a_failed_sync_during_put"),
    ),
    Mutant(
        "the name of a blob is not synced",
        "law 4, LOG-12",
        "stores/jsonl/blob_files.py::BlobFiles._sync",
        "sync_folder(shelf)",
        "",
        (f"{FAULTS}::test_a_blob_is_synced_before_it_is_acknowledged",),
    ),
    Mutant(
        "a blob is written under its final name",
        "law 4, LOG-12",
        "stores/jsonl/blob_files.py::_write",
        'os.path.join(shelf, f"{_DRAFT}{os.urandom(8).hex()}")',
        "path",
        (f"{FAULTS}::test_a_blob_is_synced_before_it_is_acknowledged", f"{SUITE}::test_putting_again_repairs"),
    ),
    Mutant(
        "a blob is returned without a check of its digest",
        "LOG-12, law 9",
        "stores/jsonl/blob_files.py::BlobFiles.get",
        "digest_of(content) != ref.digest",
        "False",
        (f"{SUITE}::test_every_flipped_bit_is_noticed",),
    ),
    Mutant(
        "a damaged blob counts as stored",
        "law 4, LOG-12",
        "stores/jsonl/blob_files.py::_has_content",
        "if content[at:at + len(block)] != block: return False",
        "",
        (f"{SUITE}::test_putting_again_repairs",),
    ),
    Mutant(
        "putting a blob takes no lock",
        "LOG-12",
        "stores/jsonl/blob_files.py::BlobFiles.put",
        "with ..., self._locked(fcntl.LOCK_SH): ...",
        "with ...: ...",
        (f"{FAULTS}::test_garbage_collection_waits_while_a_writer_puts",),
    ),
    Mutant(
        "garbage collection does not check the age again under the lock",
        "LOG-12",
        "stores/jsonl/blob_files.py::BlobFiles.remove",
        "self._age_s(os.stat(path, follow_symlinks=False)) >= older_than_s",
        "os.path.exists(path)",
        (f"{SUITE}::test_only_what_is_old_is_removed", f"{FAULTS}::test_the_age_is_checked_again_under_the_lock"),
    ),
    Mutant(
        "a digest may be a path",
        "law 13",
        "log/ids.py::is_digest",
        "_DIGEST.fullmatch(text) is not None",
        'text.startswith("sha256:")',
        (f"{SUITE}::test_digests_outside_the_grammar",),
    ),
    Mutant(
        "the memory store keeps no time of blobs",
        "LOG-12, law 12",
        "stores/memory.py::MemoryBlobs.put",
        "self._kept[digest] = _StoredContent(bytes(content), self._now())",
        "self._kept.setdefault(digest, _StoredContent(bytes(content), self._now()))",
        (f"{MEMORY}::test_putting_again_makes_young", f"{MEMORY}::test_putting_again_repairs"),
    ),
    Mutant(
        "garbage collection ignores the age of blobs",
        "LOG-12",
        "transfer/garbage.py::unnamed_blobs",
        "{blob.digest: blob for blob in store.blobs.stored() if blob.age_s >= older_than_s}",
        "{blob.digest: blob for blob in store.blobs.stored()}",
        (f"{COLLECTING}::test_logs_are_not_read_without_old_blobs",),
    ),
    Mutant(
        "garbage collection reads readable entries only",
        "law 9, LOG-12",
        "transfer/garbage.py::_digests_of_log",
        "digests_in(raw)",
        'digests_in(raw) if raw.endswith(b"}") else set()',
        (f"{COLLECTING}::test_damaged_and_unknown_lines_name_blobs_too",),
    ),
    Mutant(
        "garbage collection misses names that span two slices",
        "law 9, LOG-12",
        "transfer/garbage.py::_digests_of_log",
        'before = b"" if line.ended else raw[1 - DIGEST_CHARS :]',
        "",
        (f"{COLLECTING}::test_a_name_across_the_slices_of_a_line_that_is_too_long",),
    ),
    Mutant(
        "a check of blobs compares sizes only",
        "LOG-16, law 9",
        "stores/jsonl/blob_files.py::BlobFiles.check",
        "_TAG + digest.hexdigest() != ref.digest",
        "False",
        (
            f"{SUITE}::test_every_flipped_bit_is_noticed",
            "tests/cli/commands/test_verify.py::test_a_lost_blob_is_found_and_explained",
        ),
    ),
    Mutant(
        "a blob that an unknown type names is not checked",
        "LOG-16, law 10",
        "log/references.py::blob_references",
        "unknown | known",
        "known",
        ("tests/app/test_integrity.py::test_every_missing_blob_is_reported_with_its_entries",),
    ),
    Mutant(
        "an image stays in its line",
        "LOG-12",
        "writer.py::SessionWriter._stamped",
        "with_media_in_blobs(body, self.store.blobs.put) if is_large else body",
        "body",
        (f"{LARGE}::test_media_are_blobs",),
    ),
    Mutant(
        "a prompt too long for a line is an error",
        "LOG-12",
        "writer.py::SessionWriter._stamped",
        "self._clipped_to_line(stamped) if is_large else stamped",
        "stamped",
        (f"{LARGE}::test_a_prompt_too_long_for_a_line_becomes_a_blob",),
    ),
    Mutant(
        "a replayed tool shows nothing",
        "law 11, LOG-12",
        "runtime/replay/recorded_runtime.py::ReplayRuntime.outcome",
        "ToolOutcome(..., media=media)",
        "ToolOutcome(...)",
        (f"{LARGE}::test_media_of_a_tool_are_parts_of_its_result",),
    ),
    Mutant(
        "media are sent to a model that accepts none",
        "RUN-8",
        "providers/http_provider.py::HttpProvider._http_request",
        'request_without_media(request) if params.media == "note" else request',
        "request",
        ("tests/providers/test_requests.py::test_a_model_that_takes_no_media",),
    ),
)
