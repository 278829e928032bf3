"""Planted bugs in the readers of pi and OpenClaw."""

from tests.mutants.mutant import Mutant

PI = "tests/exchange/test_pi.py"
TREE = "tests/exchange/test_pi_tree.py"
MESSAGES = "tests/exchange/test_pi_messages.py"
FIELDS = "tests/exchange/test_pi_fields.py"
OPENCLAW = "tests/exchange/test_openclaw.py"
DATABASE = "tests/exchange/test_openclaw_database.py"

IN_PI = (
    Mutant(
        "an imported branch leaves the head behind",
        "ST-9",
        "exchange/pi/entries.py::EntryReader.read",
        "place != before and not is_side and not isinstance(bodies[0], Head)",
        "False",
        (f"{TREE}::test_branches_are_where_pi_has_them_and_the_last_record_is_the_head",),
    ),
    Mutant(
        "a call is answered twice on one branch",
        "ST-9",
        "exchange/pi/entries.py::EntryReader._call",
        "call not in answered",
        "True",
        (f"{FIELDS}::test_a_second_result_of_a_call_is_verbatim_on_the_same_branch_only",),
    ),
    Mutant(
        "an imported result without a call is dropped into a reply",
        "ST-9",
        "exchange/pi/entries.py::EntryReader._result",
        "return None",
        "call = _Call('lost', call_id)",
        (f"{PI}::test_a_result_without_a_call_is_kept_as_it_is",),
    ),
    Mutant(
        "an imported record without an id makes a branch",
        "ST-9",
        "exchange/pi/entries.py::EntryReader._move_on",
        "self._places[self._leaf] = place",
        "pass",
        (f"{TREE}::test_a_record_without_an_id_makes_no_branch",),
    ),
    Mutant(
        "ids of records without an id depend on the session",
        "ST-9",
        "exchange/pi/entries.py::EntryReader._key",
        "f'{content.hex()}:{self._contents[content]}'",
        "f'{self._session}:{self._records}'",
        (f"{TREE}::test_records_copied_into_a_fork_keep_their_ids",),
    ),
    Mutant(
        "equal records without an id get one id",
        "ST-9",
        "exchange/pi/entries.py::EntryReader._key",
        "f'{content.hex()}:{self._contents[content]}'",
        "content.hex()",
        (f"{TREE}::test_version_1_is_a_chain_and_counts_records_with_the_header",),
    ),
    Mutant(
        "an imported compaction keeps a message that a label is about",
        "ST-9",
        "exchange/pi/entries.py::EntryReader._first_kept",
        "path[path.index(node) - 1] if node in path[1:] else None if node == place else node",
        "node",
        (f"{TREE}::test_the_first_kept_record_is_a_label",),
    ),
    Mutant(
        "an aborted reply looks finished",
        "ST-9",
        "exchange/pi/entries.py::EntryReader._reply",
        "reply.stop_reason == 'aborted'",
        "False",
        (f"{PI}::test_aborted_and_failed_replies",),
    ),
    Mutant(
        "fields of a record are lost in silence",
        "ST-9",
        "exchange/pi/entries.py::EntryReader._fields",
        "left_over(message)",
        "{}",
        (f"{PI}::test_a_result_names_its_reply_and_keeps_its_details",),
    ),
    Mutant(
        "imported cost is in dollars",
        "ST-9",
        "exchange/pi/messages.py::_cost_micros",
        "math.floor(total * _MICROS + 0.5)",
        "math.floor(total)",
        (
            f"{MESSAGES}::test_cost_is_in_millionths_of_a_dollar",
            f"{PI}::test_a_reply_has_thinking_calls_usage_and_cost",
        ),
    ),
    Mutant(
        "an imported item forgets the reasoning before it",
        "ST-9",
        "exchange/pi/messages.py::_responses_parts",
        "{'after': item['id']}",
        "{}",
        (f"{MESSAGES}::test_the_items_of_openai_go_back_unchanged",),
    ),
    Mutant(
        "a wakelog log is taken for a pi session",
        "ST-9",
        "exchange/pi/reader.py::is_pi",
        "is_known and not any(field in rest for field in _OWN_FIELDS)",
        "True",
        (f"{PI}::test_it_is_recognised_by_its_header",),
    ),
    Mutant(
        "a message of another session is a prompt",
        "ST-9",
        "exchange/pi/entries.py::EntryReader._prompt",
        "kind is not None and kind != 'external_user'",
        "False",
        (f"{OPENCLAW}::test_what_another_session_sends_is_not_a_prompt",),
    ),
    Mutant(
        "rows of a database that are empty are not reported",
        "ST-9",
        "exchange/openclaw.py::_event_text",
        "isinstance(raw, bytes) and raw.strip()",
        "isinstance(raw, bytes)",
        (f"{DATABASE}::test_rows_that_are_no_records_are_reported",),
    ),
    Mutant(
        "a sub-agent is unknown to its parent",
        "ST-9",
        "exchange/openclaw.py::_child_session",
        "transcript is None or header is None",
        "True",
        (f"{OPENCLAW}::test_a_parent_names_the_session_of_its_sub_agent",),
    ),
)
