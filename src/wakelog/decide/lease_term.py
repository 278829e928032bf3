"""The term of a lease as its holder knows it: when to renew, when to try again, and when to stop. Pure.

All times are seconds on the holder's own clock, which only moves forward and counts time asleep. The store counts the
term from the moment it handles a request; the holder counts it from before the request was sent. So the end that the
holder knows is never later than the end that the store knows, whatever either wall clock shows.
"""

import msgspec

# A lease is renewed three times within its term.
_RENEWALS = 3
# The last part of the term is left for stopping: tools must be gone before another worker can take the lease.
STOPPING_SHARE = 0.25
_PAUSE_FIRST_S = 0.05
_PAUSE_MAX_S = 0.5


def retry_pause_s(tries: int) -> float:
    """How long to wait after so many failed tries of a call to a store: twice as long each time, up to a limit."""
    return min(_PAUSE_FIRST_S * (1 << min(tries - 1, 16)), _PAUSE_MAX_S)


class LeaseTerm(msgspec.Struct, frozen=True):
    """The time of one lease. `sent` is when the last request that succeeded was sent, `ttl_s` what it asked for."""

    ttl_s: float
    sent: float
    tries: int = 0
    """Failed renewals since then."""
    failed: float = 0.0
    """When the last of them failed."""

    @property
    def stop_at(self) -> float:
        """When the holder must begin to stop, unless the lease is renewed before."""
        return self.sent + self.ttl_s * (1 - STOPPING_SHARE)

    @property
    def due(self) -> float:
        """When to renew next; once renewals fail, when to try again, or to stop."""
        if not self.tries:
            return self.sent + self.ttl_s / _RENEWALS
        pause_s = min(retry_pause_s(self.tries), self.ttl_s / 20)
        return min(self.failed + pause_s, self.stop_at)

    def must_stop(self, now: float) -> bool:
        """Whether the time for trying is over. A holder that comes late without a failure tries once more first."""
        return self.tries > 0 and now >= self.stop_at

    def renewed(self, sent: float) -> "LeaseTerm":
        """The term after a renewal that was sent at that time and succeeded."""
        return LeaseTerm(self.ttl_s, sent)

    def missed(self, now: float) -> "LeaseTerm":
        """The term after a renewal that failed."""
        return msgspec.structs.replace(self, tries=self.tries + 1, failed=now)
