"""Planted bugs in code that the HTTP providers share: connections, keys, and checks of answers."""

from tests.mutants.mutant import Mutant

CONVERSING = "tests/providers/test_http_provider.py"
ENDPOINTS = "tests/providers/test_endpoints.py"
FAULTS = "tests/providers/test_faults.py"
INPUTS = "tests/providers/test_inputs.py"
SSE = "tests/providers/test_sse.py"
WAKING = "tests/providers/test_http_provider_wake.py"

IN_DOORS = (
    Mutant(
        "the SDK retries requests by itself",
        "RUN-12",
        "providers/http_provider.py::open_client",
        "sdk.client(..., max_retries=0)",
        "sdk.client(..., max_retries=1)",
        (f"{WAKING}::test_then_wake_goes_on",),
    ),
    Mutant(
        "an invalid answer ends the worker",
        "RUN-12",
        "providers/http_provider.py::_read_deltas",
        "(ValueError, httpx2.DecodingError)",
        "httpx2.DecodingError",
        (f"{WAKING}::test_then_wake_goes_on",),
    ),
    Mutant(
        "a TLS error ends the worker",
        "RUN-8",
        "providers/http_provider.py",
        "(httpx2.HTTPError, ssl.SSLError, anyio.EndOfStream)",
        "(httpx2.HTTPError,)",
        (f"{CONVERSING}::test_no_failure_of_a_connection_is_raised",),
    ),
    Mutant(
        "a login page counts as a cut-off reply",
        "RUN-8",
        "providers/http_provider.py::_read_deltas",
        'has_event or why == "timeout"',
        'True or why == "timeout"',
        (f"{CONVERSING}::test_a_page_where_a_reply_should_be",),
    ),
    Mutant(
        "a complete reply is requested again",
        "RUN-8",
        "providers/http_provider.py::stream_reply",
        "end or _fault_of_exception(error, sdk)",
        "_fault_of_exception(error, sdk)",
        (f"{CONVERSING}::test_a_connection_that_cannot_be_closed",),
    ),
    Mutant(
        "the message of a fault contains the key",
        "LOG-13",
        "providers/http_provider.py::_without_key",
        'quoted.replace(key, "…")',
        "quoted",
        (f"{CONVERSING}::test_a_key_in_an_error_of_a_stream",),
    ),
    Mutant(
        "a local server is reached through a proxy",
        "law 14",
        "providers/http_provider.py::_http_client",
        "is_loopback(server.url)",
        "False",
        (f"{CONVERSING}::test_this_machine_is_asked_without_a_proxy",),
    ),
    Mutant(
        "the SDK uses a key of its own environment variable",
        "law 14",
        "providers/http_provider.py::open_client",
        "server.key or _NO_KEY",
        "server.key or None",
        (f"{ENDPOINTS}::test_a_server_here_needs_no_key",),
    ),
    Mutant(
        "a key is sent to an endpoint that only the log names",
        "law 14",
        "providers/endpoints.py::resolve_server",
        "key or any(others)",
        "False",
        (f"{ENDPOINTS}::test_no_provider_sends_its_key_there",),
    ),
    Mutant(
        "the environment overrides the log",
        "RUN-19",
        "providers/endpoints.py::resolve_server",
        "endpoint or environ.get(vendor.url_variable) or vendor.address",
        "environ.get(vendor.url_variable) or endpoint or vendor.address",
        ("tests/providers/openai/test_client.py::test_the_server_that_is_meant",),
    ),
    Mutant(
        "a missing key is reported only after the SDK was imported",
        "RUN-8",
        "providers/http_provider.py::HttpProvider._prepared",
        "wire_format, params = ...",
        "wire_format, params = ...\nwire_format.load_sdk()",
        ("tests/providers/test_providers.py::test_what_is_wrong_is_said_before_an_sdk_is_loaded",),
    ),
    Mutant(
        "a request to resume is answered by a new reply",
        "RUN-8",
        "providers/http_provider.py::HttpProvider.stream",
        "if request.prefill: return play_fault(_CANNOT_RESUME)",
        "",
        ("tests/providers/openai/test_client.py::test_a_reply_cannot_be_gone_on_with",),
    ),
    Mutant(
        "the retry time of a server is ignored",
        "RUN-12",
        "providers/faults.py::fault",
        "retry_delay_ms(fields) or delay_ms",
        "delay_ms",
        (f"{FAULTS}::test_when_to_ask_again",),
    ),
    Mutant(
        "a request is retried though the server says not to",
        "RUN-12",
        "providers/faults.py::fault",
        'kind in RETRYABLE and fields.get("x-should-retry") != "false"',
        "kind in RETRYABLE",
        (f"{FAULTS}::test_the_word_decides",),
    ),
    Mutant(
        "a part of the key is in an error message",
        "LOG-13",
        "providers/faults.py::one_line",
        "plain[:_LINE_MAX_CHARS].rpartition(' ')[0]",
        "plain[:_LINE_MAX_CHARS]",
        (f"{FAULTS}::test_half_a_key_is_not_told",),
    ),
    Mutant(
        "a tool call that no entry can hold is emitted",
        "law 6",
        "providers/event_stream.py::parse_tool_input",
        "not _is_nested_within(value, _LEVELS_MAX)",
        "False",
        (f"{INPUTS}::test_invalid_inputs",),
    ),
    Mutant(
        "events are split at U+2028 too",
        "law 10",
        "providers/event_stream.py",
        r'rb"\r\n|\n|\r(?=.)"',
        r'rb"\r\n|\n|\xe2\x80\xa8|\r(?=.)"',
        (f"{SSE}::test_as_the_sdk_decodes",),
    ),
    Mutant(
        "half a surrogate pair is kept",
        "law 10",
        "providers/event_stream.py::_replace_surrogates",
        'value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")',
        "value",
        (f"{SSE}::test_half_a_surrogate_pair_can_be_stored",),
    ),
)
