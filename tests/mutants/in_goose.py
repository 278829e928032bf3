"""Planted bugs in the reader and the writer of Goose."""

from tests.mutants.mutant import Mutant

GOOSE = "tests/exchange/test_goose.py"
SOURCES = "tests/exchange/test_goose_sources.py"
WRITER = "tests/exchange/test_goose_writer.py"

IN_GOOSE = (
    Mutant(
        "a compaction of Goose is a note",
        "LOG-6",
        "exchange/goose/entries.py::EntryReader._is_summary",
        "self._has_visible",
        "True",
        (f"{GOOSE}::test_a_compaction_is_read_from_the_visibility",),
    ),
    Mutant(
        "messages that Goose hid stay in the context",
        "LOG-6",
        "exchange/goose/entries.py::EntryReader._mark_visible",
        "self._has_hidden",
        "False",
        (f"{GOOSE}::test_hidden_messages_without_a_summary_are_not_in_the_context",),
    ),
    Mutant(
        "a message of Goose is identified by an id that Goose changes",
        "LOG-8",
        "exchange/goose/records.py::identity",
        "message.record.get('created')",
        "message.record.get('id')",
        (
            f"{GOOSE}::test_ids_do_not_depend_on_what_goose_changes_later",
            f"{SOURCES}::test_a_legacy_file_has_the_ids_of_the_database_that_took_it_over",
        ),
    ),
    Mutant(
        "a result that Goose sorted before its call is lost",
        "ST-9",
        "exchange/goose/sources.py::_EarlyResults.is_held",
        "not missing",
        "True",
        (f"{GOOSE}::test_a_result_may_come_before_its_call",),
    ),
    Mutant(
        "the model is given what Goose shows the person only",
        "ST-9",
        "exchange/goose/content.py::is_shown",
        "not isinstance(audience, list) or 'assistant' in audience",
        "True",
        (f"{GOOSE}::test_what_only_the_person_is_shown_is_not_in_the_context",),
    ),
    Mutant(
        "a sub-agent of Goose does not know its parent",
        "ST-9",
        "exchange/goose/sources.py::DatabaseReader._session",
        "parent or caller",
        "parent",
        (f"{SOURCES}::test_a_sub_agent_is_found_by_the_result_of_its_call",),
    ),
    Mutant(
        "a compaction written for Goose hides nothing",
        "LOG-6",
        "exchange/goose/writer.py::_Messages._message",
        "(at if shown_at is None else shown_at) >= self._start",
        "True",
        (f"{WRITER}::test_a_compaction_hides_what_it_replaces",),
    ),
    Mutant(
        "servers that an imported session names are handed to Goose",
        "ST-9",
        "exchange/goose/writer.py::_document",
        "{}",
        "info.get('extension_data', {})",
        (f"{WRITER}::test_tokens_of_goose_are_kept_and_its_extensions_are_not",),
    ),
)
