"""What a writer of another format gets and returns: a session of wakelog, and files with an account of what they lack.

Writers are pure: they get values and return bytes. Rule 1: nothing is left out silently. What the format cannot hold is
counted with a reason (`Loss`). Rule 2: the same session at the same head gives the same bytes, ids included. A session
that has gone on since gets another id, so it never replaces one that was written before.
"""

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from wakelog.log.entry import AnyNode, Compaction, ContextEntry, Custom, Message, ModelChange, Setting

WrittenNode: TypeAlias = AnyNode
MOVED_RESULT = "place of a tool result"
"""The kind of a loss: all results are there, some in another place."""


class SessionToWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A session with the content of its entries: media are inline, in base64; texts are what the model was given."""

    session: str
    """Its id."""
    agent: str
    started_ms: int
    cwd: str = ""
    title: str | None = None
    provider: str | None = None
    model: str | None = None
    nodes: tuple[WrittenNode, ...] = ()
    """All nodes but the header, in the order of the log: parents before children. The first have the header's id, which
    is that of the session, as their parent."""
    head: str = ""
    """The id of the node that the session ends with."""
    labels: Mapping[str, str] = {}
    """Labels by the id of their node."""
    version: str = ""
    """The version of wakelog, for formats that record which program wrote a file."""

    @property
    def branch(self) -> tuple[WrittenNode, ...]:
        """The nodes from the first to the head: what the model's context is built from."""
        by_id = {node.id: node for node in self.nodes}
        found: list[WrittenNode] = []
        at: str | None = self.head
        while at is not None and (node := by_id.get(at)) is not None:
            found.append(node)
            at = node.parent_id
        return tuple(reversed(found))


class Loss(msgspec.Struct, frozen=True):
    """Content that the written session lacks or has in another form: its kind, how often, and why."""

    kind: str
    count: int
    reason: str


class WrittenFile(msgspec.Struct, frozen=True):
    """A file of the target. `path` is relative to the folder where the tool keeps its data."""

    path: str
    content: bytes


class WrittenSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session in the format of another agent."""

    tool: str
    id: str
    """The id that the tool knows it by; empty if the format has none."""
    files: tuple[WrittenFile, ...]
    """The transcript first."""
    losses: tuple[Loss, ...] = ()
    resume: tuple[str, ...] = ()
    """The command that continues the session in the tool, as arguments. `{file}` is the path of the first file."""
    load: tuple[str, ...] = ()
    """The tool's own command that takes the first file in, for tools that keep sessions in a database."""
    model: str = ""
    """The model that the session names for its next turn, as the tool spells it; empty if the tool chooses it."""
    model_option: str = ""
    """The option of `resume` for another model; empty if the tool has none."""
    list_models: tuple[str, ...] = ()
    """The command that prints the models that the tool can call, one a line."""
    without_folder: str = ""
    """What the tool does with a session whose folder does not exist; empty if the folder does not matter."""

    @property
    def load_command(self) -> str:
        """The command `load` as it is shown to people."""
        return " ".join(self.load).replace("{file}", "FILE")


class Losses:
    """Counts what a writer leaves out or changes."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, kind: str, reason: str, count: int = 1) -> None:
        """Count something of a kind that is not written as it is, with the reason."""
        self._counts[kind, reason] = self._counts.get((kind, reason), 0) + count

    def __iter__(self) -> Iterator[Loss]:
        return (Loss(kind, count, reason) for (kind, reason), count in self._counts.items())


def kind_of(node: WrittenNode) -> str:
    """Return what a node is called in an account of losses."""
    match node:
        case Message():
            return type(node.message).__name__.lower()
        case Compaction():
            return "compaction"
        case Custom():
            return f"custom {node.custom_type}"
        case ModelChange():
            return "change of the model"
        case Setting():
            return f"setting {node.key}"
        case ContextEntry():
            return "context"
    return type(node).__name__.lower()


def written_uuid(*parts: str) -> str:
    """Return a UUID that derives from the parts, with version and variant of a random one."""
    digest = hashlib.sha256("\0".join(("wakelog", *parts)).encode("utf-8", "surrogatepass")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))
