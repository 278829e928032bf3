"""Planted bugs in the reader and the writers of plain message lists."""

from tests.mutants.mutant import Mutant

READER = "tests/exchange/test_message_lists.py"
WRITERS = "tests/exchange/test_message_lists_writers.py"

IN_MESSAGE_LISTS = (
    Mutant(
        "the place of a mark for a cache changes the ids of a message list",
        "ST-9",
        "exchange/message_lists/shapes.py::without_cache_marks",
        "key != 'cache_control'",
        "True",
        (f"{READER}::test_marks_for_caches_and_plain_texts_do_not_change_an_entry",),
    ),
    Mutant(
        "the id of a message does not depend on those before it",
        "ST-9",
        "exchange/message_lists/entries.py::ListReader.read",
        "digest(self._digest, message)",
        "digest('', {'role': message.get('role')})",
        (f"{READER}::test_lists_that_begin_alike_are_branches_of_one_session",),
    ),
    Mutant(
        "lists with the same system message are one session",
        "ST-9",
        "exchange/message_lists/reader.py::_until_user",
        "record.value.get('role') == 'user'",
        "True",
        (f"{READER}::test_a_system_message_alone_does_not_make_two_sessions_one",),
    ),
    Mutant(
        "a result in a message list answers a call twice",
        "ST-9",
        "exchange/chains.py::OpenCalls.take",
        "calls.popleft()",
        "calls[0]",
        (f"{READER}::test_results_belong_to_the_last_open_call_with_their_id",),
    ),
    Mutant(
        "records with unknown fields are a message list",
        "ST-9",
        "exchange/message_lists/shapes.py::is_message",
        "value.keys() <= _FIELDS",
        "True",
        (f"{READER}::test_only_messages_are_recognised",),
    ),
    Mutant(
        "items of one response become several replies",
        "ST-9",
        "exchange/message_lists/entries.py::ListReader._continues",
        "kind in CALL_TYPES | MODEL_ITEM_TYPES",
        "False",
        (f"{READER}::test_every_api_tells_the_same",),
    ),
    Mutant(
        "open calls in a written message list are not counted",
        "ST-9",
        "exchange/message_lists/context.py::_count_open_calls",
        "(node.id, call.id) not in answered",
        "False",
        (f"{WRITERS}::test_an_open_call_gets_a_result_that_says_so",),
    ),
)
