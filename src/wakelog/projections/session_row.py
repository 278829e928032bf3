"""What a list knows of a session: one row. Nothing else is here, so that a list loads nothing else."""

import msgspec


class SessionRow(msgspec.Struct, frozen=True, gc=False):
    """A session as a list shows it; `ls --json` prints its fields in this order.

    `state` is never `running`: who holds a lease is not in the log. `attached` says that somebody may.
    `uptime` is in seconds. `cursor` is the row's place in the order of lists: the next page begins behind it.
    """

    id: str
    name: str
    agent: str
    sender: str
    title: str | None
    updated: str
    entries: int
    state: str
    created: str
    messages: int
    size: int
    model: str | None
    cwd: str
    number: int | None
    archived: bool
    damage: int
    prompt: str
    origin: str | None
    attached: bool
    uptime: float
    cursor: str
