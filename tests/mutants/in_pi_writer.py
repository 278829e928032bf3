"""Planted bugs in the writer of pi."""

from tests.mutants.mutant import Mutant

WRITER = "tests/exchange/test_pi_writer.py"

IN_PI_WRITER = (
    Mutant(
        "a session written for pi goes on at another record than its head",
        "ST-9",
        "exchange/pi/writer.py::_TreeWriter.records",
        "self._end_at(head)",
        "pass",
        (f"{WRITER}::test_the_last_record_is_the_head",),
    ),
    Mutant(
        "a title in a file of pi is on another branch than the head",
        "ST-9",
        "exchange/pi/writer.py::_TreeWriter.records",
        "self._append(fields, head, ..., ...)",
        "self._append(fields, None, ..., ...)",
        (f"{WRITER}::test_the_last_record_is_the_head",),
    ),
    Mutant(
        "a late result is written for pi without its call",
        "ST-9",
        "exchange/pi/writer.py::_TreeWriter._message",
        "self._close(node)",
        "pass",
        (f"{WRITER}::test_a_result_that_does_not_follow_its_call_is_a_message",),
        occurrence=1,
    ),
    Mutant(
        "a compaction written for pi keeps nothing",
        "ST-9",
        "exchange/pi/writer.py::_TreeWriter._compaction",
        "record['firstKeptEntryId'] = kept['id']",
        "pass",
        (f"{WRITER}::test_a_compaction_keeps_what_it_kept",),
    ),
    Mutant(
        "fields of a record of pi are not written back",
        "ST-9",
        "exchange/pi/writer.py::_give_back",
        "target[key] = value",
        "pass",
        (f"{WRITER}::test_records_keep_all_their_fields",),
    ),
    Mutant(
        "encrypted reasoning is not written for pi",
        "ST-9",
        "exchange/pi/written_messages.py::_reasoning_item",
        "item if part.signature is None else {**item, 'encrypted_content': part.signature}",
        "item",
        (f"{WRITER}::test_reasoning_goes_back_to_the_api_that_sent_it",),
    ),
    Mutant(
        "unknown usage is written for pi in silence",
        "ST-9",
        "exchange/pi/written_messages.py::reply_message",
        "losses.add('usage', ...)",
        "pass",
        (f"{WRITER}::test_a_reply_has_the_fields_that_pi_needs",),
    ),
    Mutant(
        "a line of pi ends at a separator inside a text",
        "ST-9",
        "exchange/pi/writer.py::_line",
        "text.replace(...).replace(...).encode() + b'\\n'",
        "text.encode() + b'\\n'",
        (f"{WRITER}::test_ids_file_name_and_bytes",),
    ),
)
