"""Command `tree`: draw every branch of a session, with the active one marked.

A chain stays in its column; only a fork opens a new column, so that a session of ten thousand entries is a list and not
a staircase. Side branches come first; the continuing branch (the active one, if it passes here) follows below them. The
tree is walked with a stack, because a log may be deeper than the recursion limit.
"""

from collections.abc import Iterator

import click
import msgspec

from wakelog.cli import load
from wakelog.cli.addresses import Address, find, labels
from wakelog.cli.annotation_text import annotation_line
from wakelog.cli.draw import Look, cells, clip, look, pad
from wakelog.cli.failures import stop_if_damaged
from wakelog.cli.names import Names
from wakelog.cli.options import Asked, command, session_argument
from wakelog.cli.output import put_json, put_pages
from wakelog.cli.safe import first_line, visible
from wakelog.cli.times import ago, now_ms
from wakelog.cli.transcripts import telling, who
from wakelog.log.content import Reply, ToolResult
from wakelog.log.entry import ContextEntry, Entry, Message
from wakelog.log.tree import Branch, Tree
from wakelog.projections.transcript import Row, transcript
from wakelog.reading import Log, read_log

_GRAPH_MAX = 40
_TEXT_MAX = 80
_TEXT_MIN = 10
_SPEAKER = 10


@command(
    "tree",
    examples="""
    wakelog tree @latest
    wakelog tree crab_user_3 --annotations
    wakelog tree crab_user_3 --runs          its sub-agents and theirs
    wakelog tree crab_user_3 --json | jq .head
    """,
    paged=True,
)
@session_argument
@click.option(
    "--annotations", "--facts", is_flag=True, help="Also show annotations of entries: labels, tool starts, deliveries."
)
@click.option("--runs", is_flag=True, help="Show the sub-agents it sent out instead, and their states.")
def tree(asked: Asked, session: str, *, annotations: bool, runs: bool) -> None:
    """Draw every branch of a session. The active branch is marked, and so is the head."""
    address = find(asked, session)
    if runs:
        _show_runs(asked, address)
        return
    log = read_log(address.store, address.name)
    if asked.json:
        put_json({"head": log.tree.head, "entries": [_plain(log, entry) for entry in _all_entries(log)]})
    else:
        put_pages(asked, draw_tree(look(asked.color), log.tree, annotations=annotations))
    stop_if_damaged(address.ref, log.damage)


def _show_runs(asked: Asked, address: Address) -> None:
    room = load("wakelog.cli.runs")
    found = room.runs_of(address)
    put_json(room.plain(found)) if asked.json else put_pages(asked, room.draw(look(asked.color), found))
    if code := room.note_harm(found, as_json=asked.json):
        raise click.exceptions.Exit(code)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def _all_entries(log: Log) -> list[Entry]:
    """Return the inherited nodes in branch order, then the session's own entries in log order."""
    inherited = [node for node in log.tree.nodes.values() if log.tree.is_inherited(node.id)]
    return [*inherited, *log.tree.own()]


def _plain(log: Log, entry: Entry) -> dict[str, object]:
    node = entry.is_node
    parent = log.tree.parent(entry.id) if node else log.tree.find(entry.id)
    said: dict[str, object] = {
        "id": entry.id,
        "parentId": parent,
        "type": entry.type,
        "seq": entry.seq,
        "timestamp": entry.value.timestamp,
        "link": node,
    }
    if isinstance(entry.value, Message):
        said["role"] = str(entry.value.message.__struct_config__.tag)
        said["text"] = _words(entry)[:_TEXT_MAX]
    if log.tree.is_inherited(entry.id):
        said["inherited"] = True
    return said


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────


def draw_tree(look: Look, tree: Tree, *, annotations: bool = False) -> Iterator[str]:
    """Yield the lines of the drawing of every branch."""
    return _Drawing(look, tree, annotations=annotations).lines()


class _Step(msgspec.Struct):
    """A node to draw, with the graph prefix of its own line and that of the lines below it."""

    node: str
    left: str
    below: str


class _Drawing:
    """Draws one tree."""

    def __init__(self, look: Look, tree: Tree, *, annotations: bool) -> None:
        self._look = look
        self._tree = tree
        self._annotations = annotations
        self._now = now_ms()
        self._labels = labels(tree)
        self._names = Names(tree)
        self._active = {node.id for node in tree.branch().nodes} if tree.head else set()
        self._gutter = max([1, *(cells(visible(self._names.short(node))) for node in self._addressed())])

    def lines(self) -> Iterator[str]:
        """Yield every node from the root down, with its annotations if they are wanted."""
        stack = [_Step(self._tree.root, "", "")] if self._tree.root else []
        while stack:
            step = stack.pop()
            yield self._line(step)
            yield from self._annotation_lines(step)
            stack += reversed(self._children(step))

    def _addressed(self) -> Iterator[Entry]:
        """Yield every entry that gets its own line."""
        for node in self._tree.nodes.values():
            yield node
            yield from self._tree.annotations(node.id) if self._annotations else ()

    def _children(self, step: _Step) -> list[_Step]:
        """Return the side branches, each in a new column, then the branch that continues in this column."""
        children = sorted(self._tree.children(step.node), key=self._active.__contains__)
        if not children:
            return []
        *sides, on = children
        branch, pipe = self._look.sign("├─", "|-"), self._look.sign("│ ", "| ")
        drawn = [_Step(side, f"{step.below}{branch}", f"{step.below}{pipe}") for side in sides]
        return [*drawn, _Step(on, step.below, step.below)]

    def _line(self, step: _Step) -> str:
        look, entry = self._look, self._tree.nodes[step.node]
        speaker, style, text = _told(self._tree, entry)
        marks, marks_width = self._marks(entry)
        when = ago(entry.value.timestamp, self._now)
        used = self._gutter + min(len(step.left), _GRAPH_MAX) + _SPEAKER + 4 + marks_width
        if look.width and look.width - used - len(when) < _TEXT_MIN:
            when = ""
        used += len(when) + 2 if when else 0
        shown = clip(look, text, max(0, look.width - used)) if look.width else text
        active = entry.id in self._active
        words = pad(clip(look, speaker, _SPEAKER), _SPEAKER)
        line = f"{self._stem(step, entry)} {look.paint(style if active else 'dim', words)} "
        line += (shown if active else look.paint("dim", shown)) + marks
        # On a terminal the times are in a separate column at the right.
        blank = " " * max(2, look.width - used - cells(shown) + 2) if look.width else "  "
        return f"{line}{blank}{look.paint('dim', when)}" if when else line

    def _stem(self, step: _Step, entry: Entry) -> str:
        """Return the address of a node and its place in the graph."""
        look, active = self._look, entry.id in self._active
        dot = look.sign("●", "*") if active else look.sign("○", "o")
        address = pad(visible(self._names.short(entry)), self._gutter, right=True)
        graph = look.paint("dim", _graph(look, step.left)) + look.paint("mark" if active else "dim", dot)
        return f"{look.paint('dim', address)} {graph}"

    def _marks(self, entry: Entry) -> tuple[str, int]:
        """Return the label of a node and the head mark, with their width."""
        words = []
        if entry.id in self._labels:
            words.append(("label", f"[{clip(self._look, visible(self._labels[entry.id]), 30)}]"))
        if entry.id == self._tree.head:
            words.append(("mark", self._look.sign("◀ head", "<- head")))
        painted = "".join(f" {self._look.paint(style, word)}" for style, word in words)
        return painted, sum(cells(word) + 1 for _, word in words)

    def _annotation_lines(self, step: _Step) -> Iterator[str]:
        for annotation in self._tree.annotations(step.node) if self._annotations else ():
            graph = _graph(self._look, step.below) + self._look.sign("┊", ":")
            address = pad(visible(self._names.short(annotation)), self._gutter, right=True)
            text = f"{address} {graph} {annotation_line(annotation.value)}"
            yield self._look.paint("dim", clip(self._look, text, self._look.columns))


def _graph(look: Look, left: str) -> str:
    """Return the graph left of a node; for a very deep one only the end of it."""
    return left if len(left) <= _GRAPH_MAX else look.sign("… ", ".. ") + left[2 - _GRAPH_MAX :]


def _told(tree: Tree, entry: Entry) -> tuple[str, str, str]:
    """Return the speaker of a node, its style, and its text on one line."""
    row = _row(tree, entry)
    if row is None:
        return "assistant", "model", ""
    speaker, style = who(row)
    if row.kind == "session":
        return "session", "name", _named(row)
    if row.kind == "change":
        return speaker, style, f"{visible(row.name)}: {first_line(row.text) or telling(row.input)}"
    return speaker, style, _words(entry)


def _row(tree: Tree, entry: Entry) -> Row | None:
    """Return the first row of a node; settings are shown as a change from the settings before."""
    before = _context_before(tree, entry) if isinstance(entry.value, ContextEntry) else ()
    return next((row for row in transcript(Branch((*before, entry))) if row.entry_id == entry.id), None)


def _context_before(tree: Tree, entry: Entry) -> tuple[Entry, ...]:
    at = tree.parent(entry.id)
    while at is not None and not isinstance(tree.nodes[at].value, ContextEntry):
        at = tree.parent(at)
    return (tree.nodes[at],) if at is not None else ()


def _named(row: Row) -> str:
    return "  ".join(filter(None, (visible(row.name), first_line(row.text))))


def _words(entry: Entry) -> str:
    """Return the text of a node on one line."""
    value = entry.value
    if isinstance(value, Message):
        said = value.message
        if isinstance(said, ToolResult):
            return f"{visible(said.tool_name)} {said.settled}: {first_line(said.text)}"
        if isinstance(said, Reply) and said.calls:
            calls = ", ".join(f"{visible(call.name)}({telling(call.input)})" for call in said.calls)
            return " ".join(filter(None, (first_line(said.text), calls)))
        return first_line(said.text)
    return first_line(next(iter(transcript(Branch((entry,))))).text)
