"""The row of a session in a list. In a module of its own, so that listing imports nothing else."""

import msgspec


class SessionRow(msgspec.Struct, frozen=True, gc=False):
    """A session in a list; `ls --json` prints its fields in this order.

    `state` is never `running`: lease holders are not in the log. `attached` says that a worker may hold the lease.
    `uptime` is in seconds. `cursor` is the position of the row in the list order: the next page begins after it.
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
