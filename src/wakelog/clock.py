"""The system's time and chance, behind the `Clock` port: the only place that asks for either."""

import os
import time

from wakelog.log.ids import RANDOM_BYTES, new_id


class SystemClock:
    """Wall-clock time for people, and the kernel's random bytes."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def new_id(self) -> str:
        """A fresh id from the time and random bytes."""
        return new_id(self.now_ms(), os.urandom(RANDOM_BYTES))
