"""Law 10 and LOG-8: every type is read as it was written, and unknown data survives."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.values import IDS, JSON, ODD_JSON, values_of
from tests.transfer.copies import copy_of, exported
from wakelog.forking import fork
from wakelog.log.codec import Undecodable, canonical_json, decode, edit_line, encode, to_plain
from wakelog.log.entry import ANNOTATION_TYPES, NODE_TYPES, Annotation, Node, UnknownBody
from wakelog.log.lines import EntryReader, split_lines
from wakelog.log.seal import SealChain, find_seq, unseal
from wakelog.reading import read_log
from wakelog.session import Session as OpenSession
from wakelog.stores.memory import MemoryStore
from wakelog.transfer import copy

TYPES = sorted([*Node.__subclasses__(), *Annotation.__subclasses__()], key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: str(cls.__struct_config__.tag))
def test_every_type_round_trips(cls):
    """LOG-2, LOG-11: encode then decode gives the same value; sealing changes nothing inside."""

    @settings(max_examples=40, deadline=None)
    @given(values_of(cls), st.integers(0, 10**12))
    def roundtrip(value, seq):
        line = encode(value)
        assert decode(line) == value
        sealed = SealChain().seal(line, seq)
        assert unseal(sealed) == line
        assert find_seq(sealed) == seq
        assert decode(sealed) == msgspec.structs.replace(value, v=1, seq=seq)

    roundtrip()


@given(st.dictionaries(st.text(max_size=5).filter(lambda key: key not in ("v", "seq")), JSON, max_size=4), IDS)
def test_unknown_types_keep_their_bytes(extra, entry_id):
    """LOG-8: an unknown type is an `Unknown` with its original bytes."""
    line = msgspec.json.encode({**extra, "type": "from_the_future", "id": entry_id, "parentId": None})
    reader = EntryReader()
    (entry,) = reader.feed_all(split_lines([line + b"\n"]))
    assert isinstance(entry.value, UnknownBody)
    assert (entry.raw, entry.type, entry.id) == (line, "from_the_future", entry_id)
    assert reader.damage == []


@given(st.dictionaries(st.from_regex(r"x[a-z]{1,5}", fullmatch=True), JSON, max_size=3))
def test_unknown_keys_keep_their_bytes(extra):
    """LOG-8: unknown keys do not change the value and stay in the bytes."""
    known = {"type": "label", "id": "l1", "parentId": "m1", "targetId": "m1", "label": "here"}
    line = msgspec.json.encode({**extra, **known, **{key + "z": value for key, value in extra.items()}})
    (entry,) = EntryReader().feed_all(split_lines([line]))
    assert entry.value.label == "here"
    assert entry.raw == line


def test_unknown_parts_are_kept():
    """LOG-8: a message with an unknown part is still that message."""
    parts = b'{"type":"video","url":"x"},{"type":"text","text":"hi"}'
    line = b'{"type":"message","id":"m1","message":{"role":"user","content":[' + parts + b"]}}"
    value = decode(line)
    assert value.message.text == "hi"
    assert value.message.parts[0].part == {"type": "video", "url": "x"}


# Where JSON that this version does not understand may stand, and what the line is read as.
UNKNOWN_PLACES = {
    "unknown type": b'{"type":"from_the_future","id":"odd","parentId":"s","x":%b}',
    "unknown part": b'{"type":"message","id":"odd","parentId":"s","message":{"role":"user","content":'
    b'[{"type":"video","x":%b},{"type":"text","text":"hi"}]}}',
    "unknown key": b'{"type":"label","id":"odd","parentId":"s","x":%b,"targetId":"s","label":"here"}',
    "known type": b'{"type":"setting","id":"odd","parentId":"s","key":"k","value":%b}',
    "malformed type": b'{"type":"label","id":"odd","parentId":"s","targetId":["no"],"label":%b}',
    "malformed message": b'{"type":"message","id":"odd","parentId":"s","message":{"role":"wizard","content":%b}}',
}


@pytest.mark.parametrize("place", UNKNOWN_PLACES)
@given(odd=ODD_JSON)
def test_unusual_json_survives_in_every_place(place, odd):
    """Law 10, LOG-8: numbers that no double holds and lone surrogates do not make a line unreadable."""
    line = UNKNOWN_PLACES[place] % odd
    entry, damage = read_line(line)
    assert (entry.raw, entry.id) == (line, "odd")
    if place.startswith("malformed"):
        # What is wrong with it is said, and is not that it is no JSON.
        assert [(hurt.kind, "not JSON" in hurt.reason) for hurt in damage] == [("unreadable", False)]
        assert isinstance(entry.value, UnknownBody)
    else:
        assert damage == []
        assert isinstance(entry.value, UnknownBody) == (place == "unknown type")
        assert msgspec.json.decode(msgspec.json.encode(to_plain(entry.value)))
        assert msgspec.json.decode(canonical_json(entry.value))


def read_line(line):
    reader = EntryReader()
    (entry,) = reader.feed_all(split_lines([line + b"\n"]))
    return entry, reader.damage


@pytest.mark.parametrize("place", UNKNOWN_PLACES)
@given(odd=ODD_JSON)
def test_unusual_json_is_exported_byte_for_byte(place, odd):
    """Law 10: by copy, as jsonl, in a JSON document and in a fork's export."""
    line, store, target = UNKNOWN_PLACES[place] % odd, MemoryStore(), MemoryStore()
    first = b'{"type":"session","id":"s","version":1}\n'
    store.replace("s", "crab_user_1", first + line + b"\n")
    log = read_log(store, "s")
    assert b"".join(line.bytes for line in store.load("s")) == first + line + b"\n"
    assert line in exported(store)
    (copied,) = copy(store, target, ["s"])
    assert (copied.status, b"".join(line.bytes for line in target.load("s"))) == ("copied", first + line + b"\n")
    if not place.startswith("malformed") and log.tree.head == "odd":
        forked = read_log(store, fork(OpenSession(store, "s")).name)
        hung = line.replace(b'"parentId":"s"', b'"parentId":"%b"' % forked.id.encode())
        assert hung in [unseal(kept) for kept in copy_of(store, forked.name).lines]


@given(odd=ODD_JSON)
def test_a_changed_line_keeps_every_other_value_byte_for_byte(odd):
    """Law 10: an export that must change a key writes the others unchanged, in their order."""
    line = b'{ "v":1, "x" :%b,"parentId":"a","\\ud800":%b,"type":"x","id":"z"}' % (odd, odd)
    changed = edit_line(line, {"parentId": "b", "new": [1]}, without=("v",))
    assert changed == b'{"x":%b,"parentId":"b","\\ud800":%b,"type":"x","id":"z","new":[1]}' % (odd, odd)


def test_a_repeated_key_is_changed_at_every_place():
    """The last of two equal keys counts, so neither may keep the old value."""
    assert edit_line(b'{"a":1,"b":2,"\\u0061":3}', {"a": 9}) == b'{"a":9,"b":2,"\\u0061":9}'
    assert edit_line(b"{}", {"a": "x"}) == b'{"a":"x"}'
    assert edit_line(b'{"a":{"b":[1,{"a":2}]},"c":"}"}', {}, without=("c",)) == b'{"a":{"b":[1,{"a":2}]}}'


@pytest.mark.parametrize(
    "line", [b'{"type":"x","id":"z","a":1e}', rb'{"type":"x","id":"z","a":"\u12"}', b'{"id":1e400']
)
def test_invalid_json_stays_unreadable(line):
    """Law 9: only valid JSON is made readable."""
    with pytest.raises(Undecodable, match="not JSON"):
        decode(line)


def test_nodes_and_annotations_share_no_type():
    """LOG-3: a type is a node or an annotation, never both."""
    assert not NODE_TYPES & ANNOTATION_TYPES
    assert len(NODE_TYPES) + len(ANNOTATION_TYPES) == len(TYPES) == 26
