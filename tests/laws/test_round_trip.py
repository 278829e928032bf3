"""Law 10 and LOG-8: what is written is what is read, for every type there is, and the unknown survives."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.values import IDS, JSON, values_of
from wakelog.log.codec import decode, encode
from wakelog.log.entry import FACT_TYPES, LINK_TYPES, Fact, Link, Unknown
from wakelog.log.lines import Reader, split
from wakelog.log.seal import Chain, seq_of, unsealed

TYPES = sorted([*Link.__subclasses__(), *Fact.__subclasses__()], key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: str(cls.__struct_config__.tag))
def test_every_type_round_trips(cls):
    """LOG-2, LOG-11: encode then decode gives the same value; sealing changes nothing inside."""

    @settings(max_examples=40, deadline=None)
    @given(values_of(cls), st.integers(0, 10**12))
    def roundtrip(value, seq):
        line = encode(value)
        assert decode(line) == value
        sealed = Chain().seal(line, seq)
        assert unsealed(sealed) == line
        assert seq_of(sealed) == seq
        assert decode(sealed) == msgspec.structs.replace(value, v=1, seq=seq)

    roundtrip()


@given(st.dictionaries(st.text(max_size=5).filter(lambda key: key not in ("v", "seq")), JSON, max_size=4), IDS)
def test_unknown_types_keep_their_bytes(extra, entry_id):
    """LOG-8: a type nobody knows is an `Unknown`, and its bytes are the ones that were there."""
    line = msgspec.json.encode({**extra, "type": "from_the_future", "id": entry_id, "parentId": None})
    reader = Reader()
    (entry,) = reader.feed_all(split([line + b"\n"]))
    assert isinstance(entry.value, Unknown)
    assert (entry.raw, entry.type, entry.id) == (line, "from_the_future", entry_id)
    assert reader.damage == []


@given(st.dictionaries(st.from_regex(r"x[a-z]{1,5}", fullmatch=True), JSON, max_size=3))
def test_unknown_keys_keep_their_bytes(extra):
    """LOG-8: keys nobody knows do not disturb the value and stay in the bytes."""
    known = {"type": "label", "id": "l1", "parentId": "m1", "targetId": "m1", "label": "here"}
    line = msgspec.json.encode({**extra, **known, **{key + "z": value for key, value in extra.items()}})
    (entry,) = Reader().feed_all(split([line]))
    assert entry.value.label == "here"
    assert entry.raw == line


def test_unknown_parts_are_kept():
    """LOG-8: a message with a part nobody knows is still that message."""
    parts = b'{"type":"video","url":"x"},{"type":"text","text":"hi"}'
    line = b'{"type":"message","id":"m1","message":{"role":"user","content":[' + parts + b"]}}"
    value = decode(line)
    assert value.message.text == "hi"
    assert value.message.parts[0].part == {"type": "video", "url": "x"}


def test_links_and_facts_share_no_type():
    """DESIGN 3: a type is a link or a fact, never both."""
    assert not LINK_TYPES & FACT_TYPES
    assert len(LINK_TYPES) + len(FACT_TYPES) == len(TYPES) == 26
