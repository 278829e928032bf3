"""Mutants in what the doors to the network share: the socket, whom keys go to, and what is believed of a server."""

from tests.mutants.mutant import Mutant

CONVERSING = "tests/providers/test_http_provider.py"
ENDPOINTS = "tests/providers/test_endpoints.py"
FAULTS = "tests/providers/test_faults.py"
INPUTS = "tests/providers/test_inputs.py"
SSE = "tests/providers/test_sse.py"
WAKING = "tests/providers/test_http_provider_wake.py"

IN_DOORS = (
    Mutant(
        "a redirect takes the key to another server",
        "law 14",
        "providers/http_client.py::_send",
        "following is None or following.url.origin != request.url.origin",
        "following is None",
        (f"{CONVERSING}::test_a_redirect_to_another_server_is_not_followed",),
    ),
    Mutant(
        "an error response is requested again without an entry in the log",
        "RUN-12",
        "providers/http_client.py::_send",
        "response = await client.send(request, stream=True)",
        "response = await client.send(request, stream=True)\n"
        "if response.status_code >= 400: response = await client.send(request, stream=True)",
        (f"{WAKING}::test_then_wake_goes_on",),
    ),
    Mutant(
        "an answer that makes no sense ends the worker",
        "RUN-12",
        "providers/http_provider.py::_read_deltas",
        "(ValueError, httpx2.DecodingError)",
        "httpx2.DecodingError",
        (f"{WAKING}::test_then_wake_goes_on",),
    ),
    Mutant(
        "TLS that breaks ends the worker",
        "RUN-8",
        "providers/http_client.py",
        "(httpx2.HTTPError, ssl.SSLError, anyio.EndOfStream)",
        "(httpx2.HTTPError,)",
        (f"{CONVERSING}::test_no_failure_of_a_connection_is_raised",),
    ),
    Mutant(
        "a page to log in is a reply that was cut",
        "RUN-8",
        "providers/http_provider.py::_read_deltas",
        'has_event or why == "timeout"',
        'True or why == "timeout"',
        (f"{CONVERSING}::test_a_page_where_a_reply_should_be",),
    ),
    Mutant(
        "a reply that was whole is asked for again",
        "RUN-8",
        "providers/http_provider.py::stream_reply",
        "end or _fault_of_exception(error)",
        "_fault_of_exception(error)",
        (f"{CONVERSING}::test_a_connection_that_cannot_be_closed",),
    ),
    Mutant(
        "a fault tells the key",
        "LOG-13",
        "providers/http_provider.py::_without_key",
        'quoted.replace(key, "…")',
        "quoted",
        (f"{CONVERSING}::test_a_key_in_an_error_of_a_stream",),
    ),
    Mutant(
        "a server here is asked through a proxy",
        "law 14",
        "providers/http_client.py::open_client",
        "not is_loopback(url)",
        "True",
        (f"{CONVERSING}::test_this_machine_is_asked_without_a_proxy",),
    ),
    Mutant(
        "a server without a key gets no header",
        "RUN-19",
        "providers/endpoints.py::resolve_server",
        "is_prepared and not key",
        "not key",
        (f"{ENDPOINTS}::test_a_server_here_needs_no_key",),
    ),
    Mutant(
        "a key goes where a log says",
        "law 14",
        "providers/endpoints.py::resolve_server",
        "key or is_prepared or any(others)",
        "False",
        (f"{ENDPOINTS}::test_no_provider_sends_its_key_there",),
    ),
    Mutant(
        "the environment wins over the log",
        "RUN-19",
        "providers/endpoints.py::resolve_server",
        "endpoint or environ.get(vendor.url_variable) or vendor.address",
        "environ.get(vendor.url_variable) or endpoint or vendor.address",
        ("tests/providers/openai/test_client.py::test_the_server_that_is_meant",),
    ),
    Mutant(
        "a client is opened before the key is checked",
        "RUN-8",
        "providers/http_provider.py::HttpProvider._http_request",
        "wire_format, params = ...",
        "wire_format, params = ...\nopen_client(wire_format.vendor.address, 1)",
        ("tests/providers/test_providers.py::test_what_is_wrong_is_said_before_a_client_is_opened",),
    ),
    Mutant(
        "a reply is glued to the beginning of another",
        "RUN-8",
        "providers/http_provider.py::HttpProvider.stream",
        "if request.prefill: return play_fault(_CANNOT_RESUME)",
        "",
        ("tests/providers/openai/test_client.py::test_a_reply_cannot_be_gone_on_with",),
    ),
    Mutant(
        "the time that a server asks for is not kept",
        "RUN-12",
        "providers/faults.py::fault",
        "retry_delay_ms(fields) or delay_ms",
        "delay_ms",
        (f"{FAULTS}::test_when_to_ask_again",),
    ),
    Mutant(
        "a server that says not to is asked again",
        "RUN-12",
        "providers/faults.py::fault",
        'kind in RETRYABLE and fields.get("x-should-retry") != "false"',
        "kind in RETRYABLE",
        (f"{FAULTS}::test_the_word_decides",),
    ),
    Mutant(
        "half a key is told",
        "LOG-13",
        "providers/faults.py::one_line",
        "plain[:_LINE_MAX_CHARS].rpartition(' ')[0]",
        "plain[:_LINE_MAX_CHARS]",
        (f"{FAULTS}::test_half_a_key_is_not_told",),
    ),
    Mutant(
        "a call is made that no log can hold",
        "law 6",
        "providers/event_stream.py::parse_tool_input",
        "not _is_nested_within(value, _LEVELS_MAX)",
        "False",
        (f"{INPUTS}::test_what_spells_nothing",),
    ),
    Mutant(
        "events end at U+2028 too",
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
