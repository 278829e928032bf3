"""ST-9: records out of damaged lines; every byte of a line is a record or is reported."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.samples import MemoryFile
from wakelog.exchange import records
from wakelog.exchange.records import BadRecord, Record, SourceLine, json_records


def _read(raw):
    return list(json_records(MemoryFile(raw).lines()))


def test_records_have_their_places():
    found = _read(b'{"a":1}\n\n{"b":2}\n')
    assert found == [Record(1, 0, {"a": 1}), Record(3, 9, {"b": 2})]


def test_two_records_on_one_line():
    """Two processes that append at once leave records without a newline between them."""
    assert _read(b'{"a":1}{"b":{"c":2}}\n') == [Record(1, 0, {"a": 1}), Record(1, 7, {"b": {"c": 2}})]


def test_a_record_behind_a_torn_one():
    """A killed process leaves a torn line; the next one appends to it."""
    torn, whole = '{"type":"user","text":"half of', '{"type":"user","text":"whole ü"}'
    bad, good = _read((torn + whole + "\n").encode())
    assert (bad.offset, bad.size, good.offset, good.value) == (0, len(torn), len(torn), json.loads(whole))
    assert bad.reason.startswith("not JSON: ")


def test_a_torn_last_line():
    assert _read(b'{"a":1}\n{"b":')[1:] == [BadRecord(2, 8, 5, 'not JSON: {"b":')]


@pytest.mark.parametrize("line", [b"[1]", b'"text"', b"7", b"\xff\xfe", b"\x00" * 50, b"{" * 5_000])
def test_what_is_no_record_is_reported(line):
    (bad,) = _read(line + b"\n")
    assert isinstance(bad, BadRecord)
    assert (bad.offset, bad.size) == (0, len(line))


def test_deep_nesting_is_refused():
    raw = b'{"a":' * 500 + b"1" + b"}" * 500
    (bad,) = _read(raw)
    assert isinstance(bad, BadRecord)


def test_a_line_that_is_too_long_is_not_decoded():
    (bad,) = json_records([SourceLine(1, 0, None, 1 << 30)])
    assert isinstance(bad, BadRecord)
    assert (bad.size, "longer than" in bad.reason) == (1 << 30, True)


def test_deep_nesting_on_a_damaged_line_is_refused():
    first, deep = _read(b"x" + b'{"a":' * 700 + b"1" + b"}" * 700)
    assert isinstance(first, BadRecord)
    assert isinstance(deep, BadRecord)


def test_objects_inside_a_torn_record_are_no_records():
    """Only the record that was appended behind the torn one is read; what was torn is reported once."""
    torn = b'{"a":{"b":1},"c":[{"d":{}},{"e":"te'
    bad, record = _read(torn + b'{"type":"x","m":{"n":1}}\n')
    assert isinstance(bad, BadRecord)
    assert isinstance(record, Record)
    assert (bad.offset, bad.size, record.offset) == (0, len(torn), len(torn))
    assert record.value == {"type": "x", "m": {"n": 1}}
    (alone,) = _read(torn)
    assert isinstance(alone, BadRecord)
    (rest,) = _read(b'"b":{"c":1},"d":2}\n')
    assert isinstance(rest, BadRecord)


def test_a_number_of_any_length_is_no_crash():
    bad, record = _read(b'{"a":' + b"9" * 5_000 + b'}\n{"b":1}\n')
    assert isinstance(bad, BadRecord)
    assert record == Record(2, 5_007, {"b": 1})


def test_the_last_object_of_a_line_that_is_being_written_is_no_record():
    """Without a newline the record around it is not complete; with one, another record was appended to a torn one."""
    torn = b'{"type":"message","content":[{"type":"text","text":"a"}'
    (bad,) = _read(torn)
    assert isinstance(bad, BadRecord)
    assert [type(found) for found in _read(torn + b"\n")] == [BadRecord, Record]
    assert [type(found) for found in _read(b'{"text":"half{"type":"whole"}')] == [BadRecord, Record]


def test_a_damaged_line_is_searched_a_few_times_only(monkeypatch):
    """Time grows with the size of a line, however many objects begin in it."""
    passed = 0

    class CountingDecoder(json.JSONDecoder):
        def raw_decode(self, s, idx=0):
            nonlocal passed
            try:
                value, end = super().raw_decode(s, idx)
            except json.JSONDecodeError as error:
                passed += error.pos - idx
                raise
            passed += end - idx
            return value, end

    monkeypatch.setattr(records, "JSONDecoder", CountingDecoder)
    raw = b'{"k":[' * 150 + b"1," * 5_000
    (bad,) = _read(raw)
    assert isinstance(bad, BadRecord)
    assert 0 < passed <= 12 * len(raw)


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers()), min_size=1, max_size=4))
def test_glued_records_are_all_read(values):
    """Whatever they hold, records without newlines between them come back one by one."""
    raw = "".join(json.dumps(value, ensure_ascii=False) for value in values).encode("utf-8", "surrogatepass")
    found = _read(raw.replace(b"\n", b" "))
    assert [record.value for record in found if isinstance(record, Record)] == values


@given(st.binary(max_size=60))
def test_every_byte_is_accounted_for(raw):
    """A line of any bytes gives records and bad stretches whose places are inside of it and do not overlap."""
    end = 0
    for found in _read(raw.replace(b"\n", b" ")):
        assert found.offset >= end
        end = found.offset + (found.size if isinstance(found, BadRecord) else 1)
        assert end <= len(raw)
