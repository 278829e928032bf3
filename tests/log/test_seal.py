"""Seals and their verification: every changed byte is found."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from wakelog.log.integrity import LogEnd, verify_seals
from wakelog.log.lines import split_lines
from wakelog.log.seal import SealChain, find_seal, find_seq, unseal

BODIES = st.lists(st.from_regex(rb'\{"type":"x","id":"[a-z]{1,8}"\}', fullmatch=True), min_size=1, max_size=8)


def sealed(bodies):
    chain = SealChain()
    return [chain.seal(body, seq) for seq, body in enumerate(bodies)]


def proof_of(lines):
    return verify_seals(split_lines([b"".join(line + b"\n" for line in lines)]))


def test_the_seal_is_what_the_document_says():
    """Law 11: h covers the last h and every byte since, up to this line's own."""
    first, second = sealed([b'{"type":"x","id":"a"}', b'{"type":"x","id":"b"}'])
    h = hashlib.sha256(b'{"v":1,"seq":0,"type":"x","id":"a"').hexdigest()
    assert first == b'{"v":1,"seq":0,"type":"x","id":"a","h":"' + h.encode() + b'"}'
    assert find_seal(second) == hashlib.sha256(h.encode() + b'{"v":1,"seq":1,"type":"x","id":"b"').hexdigest()


@given(BODIES)
def test_sealing_encodes_nothing_again(bodies):
    """Law 10: the body's bytes are in the line as they were."""
    for seq, (body, line) in enumerate(zip(bodies, sealed(bodies), strict=True)):
        assert (unseal(line), find_seq(line)) == (body, seq)
    assert proof_of(sealed(bodies)).broken == ()


@given(BODIES, st.data())
def test_any_changed_byte_is_found(bodies, data):
    """LOG-16: one byte changed anywhere, and verification fails or the line is not an entry."""
    lines = sealed(bodies)
    raw = bytearray(b"".join(line + b"\n" for line in lines))
    at = data.draw(st.integers(0, len(raw) - 2))
    raw[at] ^= data.draw(st.integers(1, 255))
    proof = verify_seals(split_lines([bytes(raw)]))
    assert proof.broken or proof.unsealed or proof.head != proof_of(lines).head


def test_unsealed_lines_are_covered_by_the_next_seal():
    """LOG-16: a foreign beginning, a torn fragment and a line added by hand are all covered."""
    end = LogEnd()
    raw = b'{"type":"session","id":"s"}\nby hand\n'
    for line in split_lines([raw]):
        end.add(line)
    raw += end.seal(b'{"type":"x","id":"a"}')
    assert verify_seals(split_lines([raw])).broken == ()
    assert verify_seals(split_lines([raw.replace(b"by hand", b"by hanD")])).broken == ((3, 36),)


def test_one_fault_is_one_report():
    """LOG-16: after a break, verification continues from the h it reads."""
    lines = sealed([b'{"type":"x","id":"%d"}' % number for number in range(6)])
    lines[2] = lines[2].replace(b'"id":"2"', b'"id":"9"')
    assert [line for line, _ in proof_of(lines).broken] == [3]


def test_a_last_line_without_a_seal():
    """LOG-16: after the first sealed line, unsealed lines at the end are reported as unsealed."""
    lines = sealed([b'{"type":"x","id":"a"}'])
    assert proof_of([*lines, b'{"type":"x","id":"b"}', b"x"]).unsealed == 2
    assert proof_of([b'{"type":"session","id":"s"}', b'{"type":"x","id":"b"}']).unsealed == 0


def test_a_cut_tail_needs_a_kept_head():
    """LOG-9: the chain alone does not show a cut tail; the last h, kept elsewhere, does."""
    lines = sealed([b'{"type":"x","id":"a"}', b'{"type":"x","id":"b"}'])
    cut = proof_of(lines[:1])
    assert cut.broken == ()
    assert cut.head != proof_of(lines).head
