"""Compactions as workers under rules 1 wrote them: with the queue of one branch, and an uptime that is too long.

Such logs are read, woken and continued (decision 029), so tests of reading need them.
"""

from functools import partial

import msgspec

from wakelog.log.entry import Activity, CarriedState, Compaction
from wakelog.log.timestamps import elapsed_ms
from wakelog.projections.branch_state import branch_state
from wakelog.projections.queue import taken_message_ids
from wakelog.projections.session_state import build_carried_state


def write_under_rules(session, rules):
    """Make a session object compact as a program of these rules did: 1, or the present ones."""
    if rules == 1:
        session.append_compaction = partial(_append_compaction, session)
    else:
        session.__dict__.pop("append_compaction", None)


def _append_compaction(session, body, *, at=None, lease=None):
    entry_id = session._new_id()

    def compose():
        tree = session.read().tree
        stamped = session._stamped(body, entry_id, at, fork=at is not None)
        return msgspec.structs.replace(stamped, state=_carried_state(tree, at or tree.head))

    return session._append(compose, lease)


def _carried_state(tree, at):
    branch = branch_state(tree.branch(at))
    taken = tuple(queued.id for queued in branch.queue if queued.id in taken_message_ids(tree))
    uptime_ms, attached_at = _uptime(tree.own_entries())
    older = {"rules": 1, "queue": branch.queue, "said": taken, "uptime_ms": uptime_ms, "attached_at": attached_at}
    unknown = {"dormant": False, "recorded": False, "worked_at": None}
    return msgspec.structs.replace(build_carried_state(tree, at), **older, **unknown)


def _uptime(entries):
    """Return the sum, with the time after a worker was killed, and when the last worker attached."""
    total_ms, attached_at = 0, None
    for entry in entries:
        match entry.value:
            case Compaction(state=CarriedState(uptime_ms=before, attached_at=since)):
                total_ms, attached_at = before, since
            case Activity(event=event, timestamp=now):
                total_ms += elapsed_ms(attached_at, now) if attached_at is not None else 0
                attached_at = now if event == "attached" else None
    return total_ms, attached_at
