"""Planted bugs in `providers/openai/`: requests, parsing of streams, and broken streams."""

from tests.mutants.mutant import Mutant

RESPONSES = "tests/providers/openai/test_responses.py"
CHAT = "tests/providers/openai/test_chat.py"
REQUESTS = "tests/providers/openai/test_requests.py"
FAULTS = "tests/providers/openai/test_api.py"
LIVING = "tests/providers/openai/test_living.py"

IN_OPENAI = (
    Mutant(
        "reasoning of another model is sent back",
        "VIEW-5",
        "providers/openai/conversation.py::is_own",
        "message.provider == provider and message.model == request.model",
        "message.provider == provider",
        (f"{REQUESTS}::test_requests_are_valid", f"{RESPONSES}::test_another_model_gets_no_ids_and_no_reasoning"),
    ),
    Mutant(
        "a tool call without a result is sent without one",
        "law 7",
        "providers/openai/conversation.py::_pair_reply",
        "(*results, *((each, unknown) for left in waiting.values() for each in left))",
        "tuple(results)",
        (f"{REQUESTS}::test_requests_are_valid", f"{REQUESTS}::test_every_call_goes_out_with_a_result"),
    ),
    Mutant(
        "ids of tool calls are repeated in a request",
        "law 7",
        "providers/openai/conversation.py::_unique_id",
        "free in taken",
        "False",
        (f"{REQUESTS}::test_ids_that_repeat_are_told_apart", f"{REQUESTS}::test_requests_are_valid"),
    ),
    Mutant(
        "injected text comes first",
        "law 8",
        "providers/openai/responses_request.py::request_body",
        "[*history_items(request, params), *_injected_item(request.injected)]",
        "[*_injected_item(request.injected), *history_items(request, params)]",
        (f"{LIVING}::test_a_long_session_keeps_its_prefix", f"{REQUESTS}::test_a_request_begins_with_the_one_before"),
    ),
    Mutant(
        "injected text comes first in Chat Completions",
        "law 8",
        "providers/openai/chat_request.py::_with_injected",
        '[*messages, {"role": "user", "content": tail}]',
        '[{"role": "user", "content": tail}, *messages]',
        (f"{LIVING}::test_a_long_session_keeps_its_prefix",),
    ),
    Mutant(
        "reasoning is sent without the item that follows it",
        "law 7",
        "providers/openai/responses_request.py::_unchanged_items",
        "parts and isinstance(parts[-1][0], Thinking)",
        "False",
        (f"{REQUESTS}::test_reasoning_at_the_end_leads_nowhere", f"{REQUESTS}::test_requests_are_valid"),
    ),
    Mutant(
        "ids are sent back without their reasoning",
        "law 7",
        "providers/openai/responses_request.py::can_be_sent_back",
        "(bound.id is None and needs_ids) or bound.after not in thoughts",
        "bound.id is None and needs_ids",
        (f"{RESPONSES}::test_a_thought_that_was_taken_out_unties_its_reply",),
    ),
    Mutant(
        "the parts of a summary are joined without a break",
        "VIEW-5",
        "providers/openai/responses_request.py::_split_texts",
        "size + len(SUMMARY_SEPARATOR)",
        "size",
        (f"{RESPONSES}::test_a_reply_agrees_with_the_sdk_and_goes_back_as_it_came",),
    ),
    Mutant(
        "the input of a tool call is encoded again",
        "VIEW-5",
        "providers/openai/conversation.py::format_input",
        "None if spaced else _COMPACT",
        "_COMPACT",
        (
            f"{RESPONSES}::test_a_reply_agrees_with_the_sdk_and_goes_back_as_it_came",
            f"{CHAT}::test_a_reply_agrees_with_the_sdk_and_goes_back_as_it_came",
        ),
    ),
    Mutant(
        "tool calls at one index are merged",
        "law 6",
        "providers/openai/chat.py::ChatParser._add",
        "call is None or call.is_other(piece)",
        "call is None",
        (f"{CHAT}::test_calls_are_told_apart",),
    ),
    Mutant(
        "an incomplete tool call is emitted",
        "law 6",
        "providers/openai/chat.py::ChatParser._call_delta",
        "except ValueError: return None",
        "except ValueError: given = {}",
        (f"{CHAT}::test_half_a_call",),
    ),
    Mutant(
        "a stream without an end event counts as complete",
        "RUN-12",
        "providers/openai/chat.py::ChatParser.end",
        "self._reason is None",
        "False",
        (f"{CHAT}::test_a_stream_that_is_cut", f"{LIVING}::test_a_fault_is_in_the_log_and_wake_goes_on"),
    ),
    Mutant(
        "an exhausted account is retried",
        "RUN-12",
        "providers/openai/api.py",
        '{"insufficient_quota": "quota", **...}',
        "{**...}",
        (f"{FAULTS}::test_the_word_for_a_refusal", f"{LIVING}::test_a_fault_that_waiting_does_not_cure"),
    ),
)
