"""Write a session of a store in the format of another agent: read it with its blobs, and call the writer."""

import contextlib
import importlib
from collections.abc import Callable, Iterator

import msgspec

from wakelog.errors import UsageError
from wakelog.exchange.provider_calls import keeps_none, with_tool_calls
from wakelog.exchange.writing import SessionToWrite, WrittenNode, WrittenSession
from wakelog.large_content import read_blob, with_inline_media
from wakelog.log.content import Text
from wakelog.log.entry import Custom, Label, Node, SessionHeader
from wakelog.log.lines import Damage
from wakelog.log.timestamps import parse_ms
from wakelog.log.tree import Tree
from wakelog.ports.stores import Blobs, Store
from wakelog.projections.branch_state import branch_state
from wakelog.projections.session_state import session_state
from wakelog.reading import read_log
from wakelog.version import VERSION

WRITERS = {
    "claude-code": "wakelog.exchange.claude_code.writer",
    "codex": "wakelog.exchange.codex.writer",
    "pi": "wakelog.exchange.pi.writer",
    "opencode": "wakelog.exchange.opencode.writer",
    "gemini": "wakelog.exchange.gemini.writer",
    "goose": "wakelog.exchange.goose.writer",
    "aider": "wakelog.exchange.aider.writer",
    "openai": "wakelog.exchange.message_lists.writer_openai",
    "anthropic": "wakelog.exchange.message_lists.writer_anthropic",
}
"""The module that writes each format."""
# These writers decide for each reply whether its provider takes the calls back that it ran itself.
_KEEP_PROVIDER_CALLS = frozenset({"anthropic", "claude-code", "codex"})


def write_session(session: SessionToWrite, target: str) -> WrittenSession:
    """Return a session in the format of a target; `UsageError` for an unknown one."""
    if target not in WRITERS:
        raise UsageError(f"no format is called {target!r}", hint=f"there are {', '.join(WRITERS)}")
    write: Callable[[SessionToWrite], WrittenSession] = importlib.import_module(WRITERS[target]).write_session
    return write(session if target in _KEEP_PROVIDER_CALLS else with_tool_calls(session, keeps_none))


def session_to_write(store: Store, session: str) -> SessionToWrite:
    """Read a session, its inherited history included, with its media."""
    return read_to_write(store, session)[0]


def read_to_write(store: Store, session: str) -> tuple[SessionToWrite, tuple[Damage, ...]]:
    """Read a session as `session_to_write` does; return it and the damage that was found."""
    log = read_log(store, session)
    header = log.tree.header
    branch = branch_state(log.tree.branch())
    read = SessionToWrite(
        session=header.id,
        agent=header.agent,
        started_ms=parse_ms(header.timestamp) or 0,
        cwd=header.cwd,
        title=session_state(log.tree).title,
        provider=branch.provider or header.provider,
        model=branch.model or header.model,
        nodes=tuple(_nodes(log.tree, header.id, store.blobs)),
        head=log.tree.head or "",
        labels=_labels(log.tree),
        version=VERSION,
    )
    return read, log.damage


def _nodes(tree: Tree, root: str, blobs: Blobs) -> Iterator[WrittenNode]:
    """Yield the nodes but the headers. A node under a header, or one whose parent is lost, gets `root` as parent."""
    headers = {entry.id for entry in tree.nodes.values() if isinstance(entry.value, SessionHeader)}
    parents: dict[str, str] = {}
    for entry in tree.nodes.values():
        parent = tree.parent(entry.id) or root
        parent = parents.get(parent, root) if parent in headers else parent
        if entry.id in headers:
            # A fork's own header stands between the inherited nodes and its own.
            parents[entry.id] = parent
        elif isinstance(entry.value, Node):
            node = _with_data(with_inline_media(entry.value, blobs), blobs)
            yield msgspec.structs.replace(node, parent_id=parent)


def _with_data(node: WrittenNode, blobs: Blobs) -> WrittenNode:
    """Return a `custom` entry with its data, which an import has moved into its content if they are large."""
    match node:
        case Custom(data=None, in_context=False, content=(Text(text=text, blob=blob),)):
            raw = text.encode() if blob is None else read_blob(blobs, blob, node.id)
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                return msgspec.structs.replace(node, data=msgspec.json.decode(raw), content=())
    return node


def _labels(tree: Tree) -> dict[str, str]:
    named: dict[str, str] = {}
    for node in tree.nodes:
        for annotation in tree.annotations(node):
            if isinstance(annotation.value, Label):
                named[annotation.value.target_id] = annotation.value.label
    return {target: label for target, label in named.items() if label}
