"""Faults in the words that all providers share: when to ask again, and one line that tells no secret."""

import pytest

from wakelog.providers.faults import (
    KIND_TEXTS,
    RETRYABLE,
    fault,
    fault_of_content_type,
    kind_of_status,
    retry_delay_ms,
    with_server_name,
)

AT, LATER = "Mon, 16 Nov 2026 05:00:00 GMT", "Mon, 16 Nov 2026 05:00:09 GMT"


@pytest.mark.parametrize(
    ("headers", "delay_ms"),
    [
        ({"retry-after": "3"}, 3_000),
        ({"retry-after": " 0.5 "}, 500),
        ({"retry-after-ms": "250", "retry-after": "3"}, 250),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3_000),
        ({"retry-after": LATER, "date": AT}, 9_000),
        ({"retry-after": AT, "date": LATER}, None),
        ({"retry-after": LATER}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after-ms": "0", "retry-after": "3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e300"}, None),
        ({"retry-after": "Mon, 99 Nov 2026 05:00:09 GMT", "date": AT}, None),
        ({}, None),
    ],
)
def test_when_to_ask_again(headers, delay_ms):
    """RUN-8: every form; a date is measured by the server's clock; no time at all leaves the wait to us."""
    assert retry_delay_ms(headers) == delay_ms
    assert fault("rate_limited", headers=headers).delay_ms == delay_ms


@pytest.mark.parametrize("kind", KIND_TEXTS)
def test_the_word_decides(kind):
    """RUN-8: a server that says not to ask again is believed, one that says to is not: the same would be refused."""
    assert fault(kind).retryable == (kind in RETRYABLE)
    assert fault(kind, headers={"x-should-retry": "true"}).retryable == (kind in RETRYABLE)
    told = fault(kind, headers={"x-should-retry": "false", "retry-after": "3"}, delay_ms=7)
    assert (told.retryable, told.delay_ms) == (False, None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(304, "server"), (400, "bad_request"), (408, "timeout"), (409, "server"), (418, "bad_request"), (520, "server")],
)
def test_what_a_status_alone_says(status, kind):
    assert kind_of_status(status) == kind


def test_half_a_key_is_not_told():
    """LOG-13: where a line is cut, it is cut between words, so that whoever takes keys out finds them whole."""
    for pad in range(280, 301):
        told = fault("server", f"{'x' * pad} plainsecretkey and more").message
        assert "plainsecretkey" in told or "plain" not in told


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        ("Incorrect API key provided.", "Incorrect API key provided"),
        ("invalid x-api-key", "invalid x-api-key"),
        ("Not from here. Ask for plain-secret-key-1", "Not from here"),
        ("You sent: abcdefgh", "You sent"),
        ("You sent sk-abcdefgh", ""),
        ("You sent ab****gh", ""),
        ("You sent abcdefgh12", ""),
        ("You sent aBcDeFgH", ""),
        ("You sent " + "a" * 40, ""),
        ("sk-abcdefgh", ""),
        (": sk-abcdefgh", ""),
        ("", ""),
    ],
)
def test_what_a_server_says_of_a_key(said, quoted):
    """LOG-13: plain words alone, up to where a key could stand, however much of it is masked."""
    assert fault("auth", said, status=401).message == f"{KIND_TEXTS['auth']} (401)" + (f": {quoted}" if quoted else "")


@pytest.mark.parametrize("kind", KIND_TEXTS)
def test_whose_fault_it_is(kind):
    """A server is named where somebody has to look for it; all else of the line stays, and so does the retry word."""
    before = fault(kind, "it said so", status=400)
    assert before.message.partition(": ")[2] == "it said so", "what others said is what stands behind the colon"
    after = with_server_name(before, host="{x}:1", refusal="says no")
    assert ("{x}:1" in after.message) == (kind in ("connection", "timeout", "auth"))
    assert after.message.endswith(" (400): it said so")
    assert (after.kind, after.retryable, after.delay_ms) == (before.kind, before.retryable, before.delay_ms)


@pytest.mark.parametrize("kind", [None, "", "text/event-stream", "text/event-stream; charset=utf-8", "\x1b[31m"])
def test_what_may_be_a_stream(kind):
    assert fault_of_content_type(kind) is None
