"""Known secrets of this process: one `KnownValues` for each session with its forks and sub-agents, for all threads.

Provider keys and the values of variables with the name of a secret are read again by each process, so they are known
after a restart. Values that were recognised in a session are kept in memory only, and are unknown to other processes.
"""

import os
import threading
from collections import OrderedDict
from weakref import WeakKeyDictionary

from wakelog.errors import NewerFormat, NotFound
from wakelog.log.entry import Origin, SessionHeader
from wakelog.ports.stores import Store
from wakelog.reading import read_session_header
from wakelog.redaction.known_values import GIVEN_MIN_CHARS, KNOWN_VALUE, KnownValues, is_distinctive, secret_variables
from wakelog.stores.retrying import without_retries

FAMILIES_MAX = 1_000
"""For how many sessions of a store, each with its forks and sub-agents, values are kept: those used last."""

_mutex = threading.Lock()
_families: WeakKeyDictionary[Store, OrderedDict[str, KnownValues]] = WeakKeyDictionary()
_provider_keys: dict[str, str] = {}
_of_process = KnownValues(threading.Lock())
# A child process inherits no lock that another thread of its parent holds.
os.register_at_fork(before=_mutex.acquire, after_in_parent=_mutex.release, after_in_child=_mutex.release)


def known_values(store: Store, session: str, parent: Origin | None) -> KnownValues:
    """Return the known values of a session and of its ancestors, forks and sub-agents in a store object.

    `session` is its id, `parent` what its header says. The environment is read again.
    """
    root, inner = _root(store, session, parent), without_retries(store)
    with _mutex:
        given = {**_provider_keys, **secret_variables(os.environ)}
        families = _families.setdefault(inner, OrderedDict())
        found = families.setdefault(root, KnownValues(threading.Lock()))
        families.move_to_end(root)
        if len(families) > FAMILIES_MAX:
            families.popitem(last=False)
        found.give(given)
    return found


def known_values_of_process() -> KnownValues:
    """Return the values that are known without a session: those of the environment and provider keys."""
    with _mutex:
        _of_process.give({**_provider_keys, **secret_variables(os.environ)})
    return _of_process


def note_provider_key(key: str) -> None:
    """Make a provider key in use known in all sessions."""
    if key in _provider_keys or not is_distinctive(key, least=GIVEN_MIN_CHARS):
        return
    with _mutex:
        _provider_keys[key] = KNOWN_VALUE
        given = {**_provider_keys, **secret_variables(os.environ)}
        for families in _families.values():
            for found in families.values():
                found.give(given)


def _root(store: Store, session: str, parent: Origin | None) -> str:
    """Return the id of the oldest ancestor of a session that the store has."""
    seen = {session}
    while parent is not None and parent.kind != "import" and parent.session not in seen:
        seen.add(session := parent.session)
        try:
            header = read_session_header(store, session)
        except (NotFound, NewerFormat):
            break
        parent = header.value.parent if header is not None and isinstance(header.value, SessionHeader) else None
    return session
