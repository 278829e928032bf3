"""The system's time and chance, behind the `Clock` port: the only place that asks for either."""

import os
import time


class SystemClock:
    """Wall-clock time for people, and the kernel's random bytes."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def chance(self, size: int) -> bytes:
        """Random bytes."""
        return os.urandom(size)
