"""RUN-19, law 2: the policy is read from the log; bounds and delays are read from it alone."""

import msgspec
import pytest

from wakelog.decide.policy import HookSettings, Policy, Price, policy_in_force, stored_policy
from wakelog.decide.timing import ASKED_LONGEST_MS, RETRY_FIRST_MS, RETRY_LONGEST_MS, retry_delay_ms
from wakelog.errors import Damaged
from wakelog.log.codec import decode, encode
from wakelog.log.content import Usage
from wakelog.log.entry import ContextEntry


def test_the_defaults_hold_where_the_log_says_nothing():
    """Law 2: no `context` entry, or one without a policy."""
    assert policy_in_force(None) == policy_in_force(ContextEntry()) == Policy()


def test_a_policy_is_read_as_it_was_written():
    """RUN-19: through the bytes of a `context` entry, every field, also those that are at their default."""
    agreed = Policy(
        steps_max=7,
        approvals={"pay": "ask"},
        unknown="ask",
        cut="resume",
        strategy="window:4",
        hooks=(HookSettings(name="environment"), HookSettings(name="own", options={"command": ["date"]})),
        price=Price(input=3_000_000, output=15_000_000),
    )
    record = ContextEntry(id="c1", policy=stored_policy(agreed))
    read = decode(encode(record))
    assert isinstance(read, ContextEntry)
    assert policy_in_force(read) == agreed
    assert set(stored_policy(Policy())) == {field.encode_name for field in msgspec.structs.fields(Policy)}


def test_an_unreadable_policy_is_damage():
    """Law 9: no policy is guessed."""
    with pytest.raises(Damaged, match="policy in force"):
        policy_in_force(ContextEntry(policy={"unknown": "guess"}))


def test_approval_by_name_goes_before_approval():
    """RUN-13: the approval for one tool, else the one for all."""
    agreed = Policy(approval="deny", approvals={"look": "auto"})
    assert [agreed.approval_of(name) for name in ("look", "pay")] == ["auto", "deny"]


def test_delays_grow_and_are_spread_by_the_fault():
    """RUN-12: longer each time up to a limit, different for two sessions, the same for every reader."""
    first, second, last = (retry_delay_ms("f1", faults, None) for faults in (1, 2, 40))
    assert RETRY_FIRST_MS * 3 / 4 <= first <= RETRY_FIRST_MS
    assert first < second < last <= RETRY_LONGEST_MS
    assert retry_delay_ms("f1", 1, None) == first != retry_delay_ms("f2", 1, None)
    assert retry_delay_ms("f1", 0, None) == first


def test_the_delay_of_a_provider_is_bounded():
    """RUN-12: its own figure, never negative, and up to a limit."""
    assert [retry_delay_ms("f", 9, asked) for asked in (0, 5, -3, 10**12)] == [0, 5, 0, ASKED_LONGEST_MS]


def test_a_price_makes_a_cost():
    """VIEW-8: integer millionths of a dollar, rounded once; a known cost is not computed again."""
    price = Price(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000)
    used = Usage(input_tokens=1_000, output_tokens=200, cache_read_tokens=50_001, cache_write_tokens=7)
    assert price.add_cost(used).cost_micros == 3_000 + 3_000 + 15_000 + 27
    assert price.add_cost(Usage(input_tokens=1, cost_micros=9)).cost_micros == 9
    assert price.add_cost(Usage()).cost_micros == 0
