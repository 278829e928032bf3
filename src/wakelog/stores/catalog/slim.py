"""Strip entries of their text, keeping only the fields that trees and overviews read.

A log of a gigabyte can so be summarised without holding its text in memory. No field removed here may influence a
field of a `SessionRow`; a test compares the rows with projections of the whole log.
"""

import msgspec

from wakelog.log.content import Reply, ToolCall, Usage
from wakelog.log.entry import (
    Body,
    CarriedState,
    Compaction,
    ContextEntry,
    Custom,
    Entry,
    Message,
    Partial,
    Queued,
    Session,
    Setting,
)


def slim(entry: Entry) -> Entry:
    """Return an entry without raw bytes and text, with every field that trees and overviews read."""
    return Entry(b"", _slim_value(entry.value), entry.seq, entry.offset, entry.line)


def _slim_value(value: Body) -> Body:
    match value:
        case Message(message=Reply() as reply):
            calls = tuple(ToolCall(id=call.id, name=call.name) for call in reply.calls)
            return msgspec.structs.replace(value, message=msgspec.structs.replace(reply, content=calls, usage=None))
        case Message(message=said):
            return msgspec.structs.replace(value, message=msgspec.structs.replace(said, content=()))
        case Compaction(state=state):
            light = slim_state(state) if state is not None else None
            return msgspec.structs.replace(value, summary="", usage=None, state=light)
        case Session():
            return msgspec.structs.replace(value, settings={})
        case Custom():
            return msgspec.structs.replace(value, data=None, content=())
        case Queued():
            return msgspec.structs.replace(value, message=None)
        case Partial():
            return msgspec.structs.replace(value, content=())
        case Setting():
            return msgspec.structs.replace(value, value=None)
        case ContextEntry():
            return msgspec.structs.replace(value, sources=(), environment={}, params={}, policy={})
    return value


def slim_state(state: CarriedState) -> CarriedState:
    """Return the carried state of a compaction without the fields that no index row shows."""
    queue = tuple(msgspec.structs.replace(queued, message=None) for queued in state.queue)
    return msgspec.structs.replace(state, settings={}, context=None, usage=Usage(), queue=queue)
