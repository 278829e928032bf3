"""JSONL: the log itself. An ordinary session leaves as the bytes it is stored as, damage included.

A session forked from another refers to it; away from its store it would have no beginning. So it is
written out whole: the parent's branch, then its own entries, sealed anew as one log that stands alone.
"""

from collections.abc import Iterable, Iterator

import msgspec

from wakelog.errors import WakelogError
from wakelog.log.entry import Origin, Session
from wakelog.log.lines import Line
from wakelog.log.salvage import Salvaged, salvage
from wakelog.log.tree import Branch, Tree
from wakelog.ports import Store
from wakelog.reading import Log, read_log

_ANCESTORS_MAX = 64
_PIECE_BYTES = 1024 * 1024


def exact(lines: Iterable[Line], size: int) -> Iterator[bytes]:
    """The first `size` bytes of a log as they are stored, in pieces of many lines."""
    piece, held = [], 0
    for line in lines:
        if line.offset >= size:
            break
        piece.append(line.bytes[: size - line.offset])
        held += len(piece[-1])
        if held > _PIECE_BYTES:
            yield b"".join(piece)
            piece, held = [], 0
    yield b"".join(piece)


def standalone(store: Store, log: Log, *, verify: bool = False) -> Salvaged:
    """A clean copy of a log that needs no other: what can be read, a fork with its parent's branch.

    With `verify` lines whose seals do not match are left out; of the parent they always are.
    """
    return salvage(store.load(log.name), _ancestry(store, log, ()), verify=verify)


def _origin(log: Log) -> Origin | None:
    first = log.session.value if log.session else None
    origin = first.parent if isinstance(first, Session) else None
    return origin if origin is not None and origin.kind == "fork" else None


def _ancestry(store: Store, log: Log, children: tuple[str, ...]) -> Branch | None:
    """The branch a fork goes on from, from its very beginning: what was folded away is history, but it is there.

    None for a session that is no fork, and for one whose parent cannot be read.
    """
    origin = _origin(log)
    if origin is None or log.id in children or len(children) > _ANCESTORS_MAX:
        return None
    try:
        parent = read_log(store, origin.session, verify=True)
        tree = Tree()
        above = _ancestry(store, parent, (*children, log.id))
        if above is not None:
            tree.inherit(above)
        branch = tree.add_all(parent.entries).branch(origin.entry)
        holes = parent.tree.branch(origin.entry).holes
        end = branch.tip.offset if branch.tip is not None else -1
        kept = tuple(hole for hole in holes if hole.session or hole.offset <= end)
        return msgspec.structs.replace(branch, holes=kept)
    except WakelogError:
        return None
