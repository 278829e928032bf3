"""The term of a lease as computed by its holder: when to renew, when to retry, and when to stop. Pure.

All times are seconds on the holder's monotonic clock, which counts time asleep. The store counts the term from the
moment it handles a request; the holder counts from before the request is sent. So the holder's end of the term is never
later than the store's, whatever either wall clock shows.
"""

import msgspec

# A lease is renewed three times within its term.
_RENEWALS = 3
# The last part of the term is for stopping: tools must have ended before another worker can take the lease.
STOPPING_SHARE = 0.25
_PAUSE_FIRST_S = 0.05
_PAUSE_MAX_S = 0.5


def retry_pause_s(tries: int) -> float:
    """Return the delay after this many failed tries of a store call: 0.05 s, doubled each time, at most 0.5 s."""
    return min(_PAUSE_FIRST_S * (1 << min(tries - 1, 16)), _PAUSE_MAX_S)


class LeaseTerm(msgspec.Struct, frozen=True):
    """The term of one lease. `sent` is when the last successful request was sent, `ttl_s` the term it requested."""

    ttl_s: float
    sent: float
    tries: int = 0
    """Failed renewals since `sent`."""
    failed: float = 0.0
    """When the last renewal failed."""

    @property
    def stop_at(self) -> float:
        """When the holder must start to stop, unless the lease is renewed before."""
        return self.sent + self.ttl_s * (1 - STOPPING_SHARE)

    @property
    def due(self) -> float:
        """When to renew next; after a failed renewal, when to retry, or to stop if that is earlier."""
        if not self.tries:
            return self.sent + self.ttl_s / _RENEWALS
        pause_s = min(retry_pause_s(self.tries), self.ttl_s / 20)
        return min(self.failed + pause_s, self.stop_at)

    def must_stop(self, now: float) -> bool:
        """Whether to stop: a renewal has failed and `stop_at` has passed. Without a failure one more try is made."""
        return self.tries > 0 and now >= self.stop_at

    def renewed(self, sent: float) -> "LeaseTerm":
        """Return the term after a successful renewal that was sent at this time."""
        return LeaseTerm(self.ttl_s, sent)

    def missed(self, now: float) -> "LeaseTerm":
        """Return the term after a failed renewal."""
        return msgspec.structs.replace(self, tries=self.tries + 1, failed=now)
