"""The system clock and random source as a `Clock`: timestamps and ids of entries come from here."""

import os
import time

from wakelog.log.ids import RANDOM_BYTES, new_id


class SystemClock:
    """Wall-clock time, and random bytes from the operating system."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def new_id(self) -> str:
        """Return a new id from the time and random bytes."""
        return new_id(self.now_ms(), os.urandom(RANDOM_BYTES))
