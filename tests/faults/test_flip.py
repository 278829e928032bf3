"""Bits flipped, lines dropped, repeated, swapped and joined (laws 9 and 12, LOG-9, LOG-11): always noticed.

Reading never raises anything but a `WakelogError`, whatever a flip makes of the bytes, and nothing that was
changed passes unnoticed: the chain, the reader or the tree says so. Only a cut tail needs a digest kept elsewhere.
"""

import random

import pytest

from tests.faults.figures import Figure
from tests.faults.samples import NAME, bytes_of, is_noticed, lines_of, proof_of, put, read, rich_log, small_log
from wakelog.errors import WakelogError
from wakelog.log.integrity import verify_seals
from wakelog.log.lines import EntryReader, Line
from wakelog.log.tree import Tree
from wakelog.projections.context import build_context
from wakelog.projections.overview import overview
from wakelog.projections.transcript import transcript
from wakelog.reading import read_active, read_log
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

SLICES = range(4)


def looked_at(content: bytes) -> bool:
    """Read a log in every way there is without a file; return whether any of them reported something."""
    lines = lines_of(content)
    reader = EntryReader()
    tree = Tree().add_all(reader.feed_all(lines))
    tree.mark_unreadable(reader.damage)
    if tree.head is not None:
        branch = tree.branch()
        assert build_context(branch).messages is not None
        assert transcript(branch) is not None
    return is_noticed(verify_seals(lines), [*reader.damage, *tree.damage])


def line_at(content: bytearray, at: int) -> tuple[int, int]:
    """The start of the line at a position and the end of the next line, in case its LF was changed."""
    end = content.find(b"\n", content.find(b"\n", at) + 1) + 1
    return content.rfind(b"\n", 0, at) + 1, end or len(content)


def figure(what: str, planned: int, applied: int, quiet: int = 0, control: str = "") -> Figure:
    """The figures of a number of changes."""
    return Figure(what, "files", planned, applied, (applied, "changed logs"), (quiet, "unnoticed"), control)


@pytest.mark.parametrize("part", SLICES)
def test_every_flipped_bit_is_noticed(quick_folder, part, record):
    """Law 9: every bit of 40 entries; a seal that is broken in a prefix is broken in the whole log."""
    small_log(quick_folder, entries=40)
    content = bytes_of(quick_folder)
    quiet, applied = [], 0
    planned = range(part * len(content) // len(SLICES), (part + 1) * len(content) // len(SLICES))
    hurt = bytearray(content)
    for at in planned:
        _, end = line_at(hurt, at)
        for bit in range(8):
            hurt[at] ^= 1 << bit
            applied += hurt[at] != content[at]
            if not verify_seals(lines_of(bytes(hurt[:end]))).broken and not looked_at(bytes(hurt)):
                quiet.append((at, bit))
            hurt[at] ^= 1 << bit
    record(figure("bit flipped in a log", len(planned) * 8, applied, len(quiet)))
    assert quiet == []
    assert bytes(hurt) == content
    assert len(planned) > 2_000


def test_control_without_the_hash_chain_most_flips_pass(quick_folder, record):
    """The test above can fail: the reader alone, without the seals, accepts changed text."""
    small_log(quick_folder, entries=8)
    content = bytes_of(quick_folder)
    quiet = applied = 0
    for at in range(len(content)):
        hurt = bytearray(content)
        hurt[at] ^= 1
        applied += hurt[at] != content[at]
        reader = EntryReader()
        tree = Tree().add_all(reader.feed_all(lines_of(bytes(hurt))))
        quiet += not reader.damage and not tree.damage
    record(figure("bit flipped in a log", len(content), applied, quiet, control="seals are not checked"))


def test_a_line_with_any_bit_flipped_is_read_or_reported(quick_folder):
    """LOG-11: every bit of every kind of line gives an entry, several, or damage; never an exception."""
    rich_log(quick_folder)
    content = bytearray(bytes_of(quick_folder))
    for at in range(len(content)):
        start, end = line_at(content, at)
        for bit in range(8):
            content[at] ^= 1 << bit
            reader = EntryReader()
            assert reader.feed_all(lines_of(bytes(content[start:end]))) or reader.damage
            content[at] ^= 1 << bit


def test_a_flipped_bit_never_makes_reading_raise(quick_folder):
    """LOG-11: a bit in every 11th byte, through the store, whole and tail, and through the projections."""
    rich_log(quick_folder)
    content = bytes_of(quick_folder)
    with open(put(quick_folder, content), "r+b", buffering=0) as file:
        for at in range(0, len(content), 11):
            file.seek(at)
            file.write(bytes([content[at] ^ (1 << at % 8)]))
            check_reads(quick_folder)
            file.seek(at)
            file.write(content[at : at + 1])
    assert not is_noticed(proof_of(quick_folder), read(quick_folder).damage)


def check_reads(folder: str) -> None:
    store = JsonlStore(folder)
    for way in (read_log, read_active):
        try:
            log = way(store, NAME)
        except WakelogError:
            continue
        if log.tree.head is not None:
            assert overview(log.tree, damaged=bool(log.damage)).entries >= 0
            assert build_context(log.tree.branch(), "window:3").digest


def is_broken(lines: list[bytes]) -> bool:
    """Whether the hash chain alone shows that these are not the written lines."""
    return is_noticed(verify_seals(lines_of(b"".join(lines))), [])


def test_dropped_repeated_and_swapped_lines_are_noticed(quick_folder, record):
    """Law 9: every line dropped or repeated, every pair of neighbours and 400 random pairs swapped."""
    small_log(quick_folder, entries=40)
    lines = bytes_of(quick_folder).splitlines(keepends=True)
    last = len(lines) - 1
    changed = {f"line {at} dropped": lines[:at] + lines[at + 1 :] for at in range(last)}
    changed |= {f"line {at} repeated": lines[: at + 1] + lines[at:] for at in range(len(lines))}
    changed |= {f"line {at} repeated at the end": [*lines, lines[at]] for at in range(len(lines))}
    chance = random.Random(7)
    pairs = [(at, at + 1) for at in range(last)] + [tuple(chance.sample(range(last + 1), 2)) for _ in range(400)]
    for one, other in pairs:
        swapped = list(lines)
        swapped[one], swapped[other] = swapped[other], swapped[one]
        changed[f"lines {one} and {other} swapped"] = swapped
    quiet = [what for what, left in changed.items() if not is_broken(left)]
    applied = sum(left != lines for left in changed.values())
    record(figure("lines dropped, repeated or swapped", len(changed), applied, len(quiet)))
    assert quiet == []


def test_control_lines_that_are_only_parsed(quick_folder, record):
    """The test above can fail: without seals and parents, each of two swapped lines is valid."""
    small_log(quick_folder, entries=40)
    lines = bytes_of(quick_folder).splitlines(keepends=True)
    quiet = applied = 0
    for at in range(1, len(lines)):
        swapped = [*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]]
        applied += swapped != lines
        reader = EntryReader()
        reader.feed_all(lines_of(b"".join(swapped)))
        quiet += not reader.damage
    rig, planned = "lines dropped, repeated or swapped", len(lines) - 1
    record(figure(rig, planned, applied, quiet, control="seals and parents are not checked"))


def test_a_damaged_last_line_keeps_its_seq(quick_folder):
    """Law 3: it was acknowledged; whatever happened to its bytes since, no other entry gets its seq."""
    small_log(quick_folder, entries=12)
    content = bytes_of(quick_folder)
    start = content.rindex(b"\n", 0, -1) + 1
    for at in range(content.index(b'"type"', start), len(content) - 1, 5):
        put(quick_folder, content[:at] + b"\x00" + content[at + 1 :])
        said = Session(JsonlStore(quick_folder), NAME).say("and on")
        assert said.seq == 12, at
        assert [hurt.kind for hurt in read(quick_folder).damage] == ["unreadable"]


def test_missing_last_lines_are_found_by_a_digest_kept_elsewhere(quick_folder):
    """Law 9: a log without its last lines is valid in itself; the separately kept head digest shows the loss."""
    small_log(quick_folder, entries=40)
    lines = bytes_of(quick_folder).splitlines(keepends=True)
    kept = proof_of(quick_folder).head
    for left in range(1, len(lines)):
        put(quick_folder, b"".join(lines[:left]))
        proof = proof_of(quick_folder)
        assert (proof.broken, proof.unsealed) == ((), 0)
        assert proof.head != kept
    put(quick_folder, b"".join(lines))
    assert proof_of(quick_folder).head == kept


@pytest.mark.parametrize("count", [2, 3, 7])
def test_joined_records_are_all_read_and_reported(quick_folder, count):
    """LOG-9: of complete records on one line, wherever in the log, none is lost."""
    rich_log(quick_folder)
    lines = bytes_of(quick_folder).splitlines()
    ids = [entry.id for entry in read(quick_folder).entries]
    for at in range(len(lines) - count + 1):
        glued = [*lines[:at], b"".join(lines[at : at + count]), *lines[at + count :]]
        put(quick_folder, b"\n".join(glued) + b"\n")
        log = read(quick_folder)
        assert [entry.id for entry in log.entries] == ids
        assert [(hurt.kind, hurt.line) for hurt in log.damage] == [("glued", at + 1)]
        assert [entry.raw for entry in log.entries] == lines
        assert is_noticed(proof_of(quick_folder), [])


def test_a_record_joined_to_a_fragment_is_read(quick_folder):
    """LOG-9: a line cut anywhere with the next record joined to it costs the cut line only."""
    rich_log(quick_folder)
    lines = bytes_of(quick_folder).splitlines()
    for at in (3, len(lines) // 2, len(lines) - 8):
        for cut in range(1, len(lines[at])):
            content = b"\n".join([*lines[:at], lines[at][:cut] + lines[at + 1], *lines[at + 2 :]]) + b"\n"
            reader = EntryReader()
            entries = reader.feed_all(lines_of(content))
            assert [entry.raw for entry in entries] == lines[:at] + lines[at + 1 :], (at, cut)
            assert [(hurt.kind, hurt.line, hurt.size) for hurt in reader.damage] == [("unreadable", at + 1, cut)]


def test_an_object_inside_a_cut_line_is_not_an_entry(quick_folder):
    """LOG-9: a cut after a tool call leaves a complete object at the end, which is not read as an entry."""
    rich_log(quick_folder)
    lines = bytes_of(quick_folder).splitlines()
    tried = 0
    for line in lines:
        for cut in (at + 1 for at in range(len(line) - 1) if line[at : at + 1] == b"}"):
            for ended in (True, False):
                reader = EntryReader()
                assert reader.feed(Line(line[:cut], 0, 1, ended)) == [], line[:cut]
                assert [hurt.kind for hurt in reader.damage] == ["unreadable" if ended else "torn"]
                tried += 1
    assert tried > 100
