"""What is known of a session while it is copied. Values only."""

import msgspec

from wakelog.errors import StoreError
from wakelog.log.lines import Damage
from wakelog.log.needs import Needs


class Lost(msgspec.Struct, frozen=True):
    """What a log names and the source does not have: a blob by its digest, or a session by its id."""

    what: str
    reason: str


class Seen(msgspec.Struct):
    """A session as it was first read: how far it went, and how far it had come at the target, under which name.

    `damage` is what of its lines cannot be read; they go over as they are.
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
    """The source failed at one session: the others may still be read."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(error.message)
        self.error = error
