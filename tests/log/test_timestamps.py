"""Timestamps computed without the clock modules equal those of the clock modules."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.log.timestamps import elapsed_ms, iso_timestamp, parse_ms

MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001 - the zone is added below


@given(MOMENTS)
def test_agrees_with_the_calendar(naive):
    """LOG-3: both directions, over all of the Gregorian calendar."""
    moment = naive.replace(microsecond=naive.microsecond // 1000 * 1000, tzinfo=UTC)
    millis = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S.").rjust(20, "0") + f"{moment.microsecond // 1000:03}Z"
    assert iso_timestamp(millis) == text
    assert parse_ms(text) == millis


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01 00:00:00.5", 500),
        ("1970-01-01T01:00:00.123456+01:00", 123),
        ("1969-12-31T23:00:00-0100", 0),
    ],
)
def test_timestamps_of_other_programs(text, millis):
    assert parse_ms(text) == millis


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-32T00:00:00Z", "12:00", "9" * 400])
def test_an_unreadable_timestamp_is_none(text):
    """Law 3: timestamps are for people; one that cannot be read is no error."""
    assert parse_ms(text) is None
    assert elapsed_ms(text, "2026-01-01T00:00:00Z") == 0


def test_clocks_that_go_back():
    assert elapsed_ms("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z") == 0
    assert elapsed_ms("2026-01-01T00:00:00Z", "2026-01-01T00:00:01.250Z") == 1250
