"""Planted bugs in the reader and the writer of Gemini CLI."""

from tests.mutants.mutant import Mutant

READER = "tests/exchange/test_gemini.py"
GROWTH = "tests/exchange/test_gemini_properties.py"
WRITER = "tests/exchange/test_gemini_writer.py"

IN_GEMINI = (
    Mutant(
        "a result that Gemini CLI stores twice is imported twice",
        "ST-9",
        "exchange/gemini/messages.py::MessageReader._responses",
        "self._calls[call_id].result is None",
        "True",
        (f"{READER}::test_a_result_is_taken_once_though_it_is_stored_twice",),
    ),
    Mutant(
        "a call that Gemini CLI has not ended gets a result",
        "ST-9",
        "exchange/gemini/content.py::result_of",
        "status in OPEN_STATUSES or (not result and status not in _STATUSES)",
        "not result and status not in _STATUSES",
        (
            f"{READER}::test_a_call_that_has_not_ended_is_open",
            f"{WRITER}::test_an_open_call_says_that_its_outcome_is_unknown",
        ),
    ),
    Mutant(
        "a reply that grew after an import of Gemini CLI takes another id",
        "ST-9",
        "exchange/gemini/messages.py::MessageReader._largest_stored",
        "next(...)",
        "None",
        (f"{GROWTH}::test_a_document_that_grows_has_each_reply_and_its_usage_once",),
    ),
    Mutant(
        "messages before a compression are in the context",
        "ST-9",
        "exchange/gemini/placement.py::aligned",
        "prefix == 0 and (known or is_summarised) and recorded[0].startswith('u:')",
        "False",
        (f"{READER}::test_a_compression_is_a_compaction",),
    ),
    Mutant(
        "a lost call of Gemini CLI is not told",
        "ST-9",
        "exchange/gemini/messages.py::MessageReader._reply",
        "message.get('content') == '' and not count",
        "False",
        (f"{READER}::test_an_empty_reply_says_that_a_call_is_lost",),
    ),
    Mutant(
        "a file that a resume of Gemini CLI leaves becomes the head",
        "ST-9",
        "exchange/gemini/reader.py::_items",
        "is_known is not None and is_stored and not is_known(item.body.id)",
        "False",
        (f"{READER}::test_files_that_resumes_leave_have_nothing_new",),
    ),
    Mutant(
        "an open call is written for Gemini CLI without a result",
        "ST-9",
        "exchange/gemini/writer.py::_Writer._tool_calls",
        "record |= {'result': [response], 'status': 'executing', 'timestamp': node.timestamp}",
        "pass",
        (f"{WRITER}::test_an_open_call_says_that_its_outcome_is_unknown",),
    ),
    Mutant(
        "a compaction written for Gemini CLI keeps everything",
        "ST-9",
        "exchange/gemini/writer.py::_Writer._write_compaction",
        "first is not None and at >= first",
        "True",
        (f"{WRITER}::test_a_kept_reply_needs_no_answer_to_the_summary",),
    ),
)
