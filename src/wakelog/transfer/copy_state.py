"""State of a session while it is copied. Values only."""

import msgspec

from wakelog.errors import StoreError
from wakelog.log.lines import Damage
from wakelog.log.needs import Needs


class Lost(msgspec.Struct, frozen=True):
    """Something that a log names and the source does not have: a blob by its digest, or a session by its id."""

    what: str
    reason: str


class Seen(msgspec.Struct):
    """A session as it was first read: its `size`, and how many bytes were `there` in the target under the name `to`.

    `damage` lists its unreadable lines, which are copied unchanged.
    """

    id: str
    name: str
    size: int
    digest: str
    needs: Needs
    journals: int
    needed_by: str | None
    there: int
    to: str | None
    damage: tuple[Damage, ...] = ()
    lost: list[Lost] = []


class Unreadable(Exception):
    """The source failed to read one session; the others may still be readable."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(error.message)
        self.error = error
