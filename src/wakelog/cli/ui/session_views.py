"""Drawings of one session that commands and the chat share: the tree of branches, the context and the usage.

In the tree, a chain stays in its column; only a fork opens a new column, so that a session of ten thousand entries is a
list and not a staircase. Side branches come first; the continuing branch (the active one, if it passes here) follows
below them. The tree is walked with a stack, because a log may be deeper than the recursion limit. Token counts of
instructions and injected text are estimated from blob sizes, those of tools from what a request says of them.
"""

from collections.abc import Iterator, Mapping

import msgspec

from wakelog.app.addresses import node_labels
from wakelog.app.entry_names import EntryNames
from wakelog.cli.ui.quantities import age_text, now_ms, plural
from wakelog.cli.ui.safe_text import first_line, visible, visible_lines
from wakelog.cli.ui.terminal import TerminalStyle, clip, pad, text_width
from wakelog.cli.ui.transcripts import annotation_line, key_argument, speaker_of
from wakelog.errors import WakelogError
from wakelog.log.codec import canonical_json
from wakelog.log.content import BlobRef, Reply, ToolCall, ToolResult
from wakelog.log.entry import ContextEntry, Entry, Message, ModelCall
from wakelog.log.tree import Branch, Tree
from wakelog.ports.stores import Blobs
from wakelog.projections.context import Context, ContextMessage, message_tokens
from wakelog.projections.transcript import TranscriptRow, parts_text, transcript
from wakelog.projections.usage import FindCost, UsageTotal, usage_by_branch
from wakelog.projections.usage import usage as add_up
from wakelog.reading import Log
from wakelog.runtime.model_request import declared_tools


def estimate_other_tokens(blobs: Blobs, built: Context, branch: Branch) -> dict[str, int]:
    """Return the estimated tokens of instructions, tools and injected text (bytes / 4); absent ones are left out."""
    calls = (annotation.value for annotation in reversed(branch.annotations) if isinstance(annotation.value, ModelCall))
    call = next((call for call in calls if call.purpose == "reply"), None)
    sizes = {
        "instructions": built.system.bytes if built.system is not None else 0,
        "tools": _sent_tool_bytes(blobs, built.tools, built.settings_id) if built.tools is not None else 0,
        "injected at the last call": sum(blob.bytes for blob in call.injected) if call is not None else 0,
    }
    return {what: -(-size // 4) for what, size in sizes.items() if size}


def _sent_tool_bytes(blobs: Blobs, ref: BlobRef, entry_id: str) -> int:
    """Return the size of what a request says of the tools; the stored declarations have more, such as sub-agents.

    0 if they cannot be read: `verify` reports that, and an estimate must not fail.
    """
    try:
        declared = declared_tools(blobs, ref, entry_id)
    except WakelogError:
        return 0
    return len(canonical_json([{key: tool.get(key) for key in _SENT_OF_TOOL} for tool in declared]))


_SENT_OF_TOOL = ("name", "description", "schema")
_MESSAGE_LINES = 3
"""Number of lines shown of a message."""


def context_lines(look: TerminalStyle, log: Log, built: Context, others: Mapping[str, int]) -> Iterator[str]:
    """Yield the context: a heading, token counts of instructions and tools, the first lines of each message."""
    model = visible(built.model or "no model named")
    dot = look.symbol("·", "-")
    tokens = plural(built.tokens + sum(others.values()), "token")
    summary = f"{plural(len(built.messages), 'message')} {dot} about {tokens} {dot} {built.strategy}"
    room = look.width - text_width(log.name) - 2 if look.width else 0
    about = f"{model} {dot} {summary}"
    yield f"{look.paint('name', log.name)}  {clip(look, about, room) if room else about}"
    yield look.paint("dim", clip(look, built.digest, look.columns))
    if built.over_limit:
        yield look.paint("warn", over_limit_text(built.strategy, built.over_limit))
    if others:
        yield ""
        yield from (f"      {what}  {look.paint('dim', plural(size, 'token'))}" for what, size in others.items())
    names = EntryNames(log.tree)
    for entry_id, message in zip(built.entry_ids, built.messages, strict=True):
        yield ""
        yield _context_heading(look, names, entry_id, message)
        for part in message.content:
            text = (
                f"[{part.name}] {canonical_json(part.input).decode()}"
                if isinstance(part, ToolCall)
                else parts_text((part,))
            )
            yield from (f"      {line}" for line in _first_lines(look, text))


def over_limit_text(strategy: str, over_limit: int) -> str:
    """Return the sentence that says by how much a context exceeds the size of its strategy."""
    unit = "message" if strategy.startswith("window") else "token"
    return f"exceeds {visible(strategy)} by {plural(over_limit, unit)}: the newest message or tool run alone is larger"


def _first_lines(look: TerminalStyle, text: str) -> Iterator[str]:
    """Yield the first lines and the number of the others; a single extra line is shown instead of counted."""
    lines = visible_lines(text.strip("\n"))
    shown = lines if len(lines) <= _MESSAGE_LINES + 1 else lines[:_MESSAGE_LINES]
    yield from (clip(look, line, look.columns - 6) if look.width else line for line in shown)
    if len(shown) < len(lines):
        yield look.paint("dim", f"{look.symbol('…', '...')} {len(lines) - len(shown):,} more lines")


def _context_heading(look: TerminalStyle, names: EntryNames, entry_id: str, message: ContextMessage) -> str:
    styles = {"user": "user", "assistant": "model", "toolResult": "tool"}
    failed = " failed" if message.is_error else ""
    name = f" {clip(look, visible(message.tool_name), 20)}" if message.tool_name else ""
    tokens = look.paint("dim", plural(message_tokens(message), "token"))
    speaker = look.paint(styles[message.role], message.role + name + failed)
    return f"{look.paint('dim', f'{visible(names.of(entry_id)):>4}')}  {speaker}  {tokens}"


def usage_lines(log: Log, find_cost: FindCost) -> Iterator[str]:
    """Yield the total usage, and that of each branch if there are several."""
    yield _usage_line(log.name, add_up(log.entries, find_cost))
    branches, names = usage_by_branch(log.tree, find_cost), EntryNames(log.tree)
    for branch in branches if len(branches) > 1 else ():
        yield _usage_line(f"  branch {visible(names.of(branch.leaf))}", branch.total)


def all_usage_lines(totals: Mapping[str, UsageTotal], total: UsageTotal) -> Iterator[str]:
    """Yield the usage of each session that has any, and the total, in which a call of several sessions counts once."""
    for name, spent in totals.items():
        if spent.calls or spent.replies_without_usage:
            yield _usage_line(visible(name), spent)
    repeated = sum(spent.calls for spent in totals.values()) - total.calls
    yield _usage_line("total", total) + (f"; {plural(repeated, 'repeated call')} not counted" if repeated else "")


def _usage_line(what: str, spent: UsageTotal) -> str:
    used, silent = spent.usage, plural(spent.replies_without_usage, "reply", "replies")
    if not spent.calls:
        return f"{what}: " + (f"{silent} without usage figures" if spent.replies_without_usage else "no model calls")
    tokens = f"{used.input_tokens:,} in, {used.output_tokens:,} out, {used.cache_read_tokens:,} from cache"
    rest = f"; {silent} without usage figures" if spent.replies_without_usage else ""
    return f"{what}: {plural(spent.calls, 'call')}, {tokens}, {_cost_text(spent)}{rest}"


def _cost_text(spent: UsageTotal) -> str:
    """Return the known cost, and for how many calls no price is known."""
    if spent.calls_without_cost == spent.calls:
        return "price unknown"
    known = f"${spent.known_cost_micros / 1_000_000:.4f}"
    return (
        f"{known} and {plural(spent.calls_without_cost, 'call')} of unknown price"
        if spent.calls_without_cost
        else known
    )


_GRAPH_MAX = 40


_TEXT_MIN = 10
_SPEAKER_WIDTH = 10


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────


def draw_tree(look: TerminalStyle, tree: Tree, *, annotations: bool = False) -> Iterator[str]:
    """Yield the lines of the drawing of every branch."""
    return _Drawing(look, tree, annotations=annotations).lines()


class _Step(msgspec.Struct):
    """A node to draw, with the graph prefix of its own line and that of the lines below it."""

    node: str
    left: str
    below: str


class _Drawing:
    """Draws one tree."""

    def __init__(self, look: TerminalStyle, tree: Tree, *, annotations: bool) -> None:
        self._look = look
        self._tree = tree
        self._annotations = annotations
        self._now = now_ms()
        self._labels = node_labels(tree)
        self._names = EntryNames(tree)
        self._active = {node.id for node in tree.branch().nodes} if tree.head else set()
        self._gutter = max([1, *(text_width(visible(self._names.short(node))) for node in self._addressed())])

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
        branch, pipe = self._look.symbol("├─", "|-"), self._look.symbol("│ ", "| ")
        drawn = [_Step(side, f"{step.below}{branch}", f"{step.below}{pipe}") for side in sides]
        return [*drawn, _Step(on, step.below, step.below)]

    def _line(self, step: _Step) -> str:
        look, entry = self._look, self._tree.nodes[step.node]
        speaker, style, text = _node_summary(self._tree, entry)
        marks, marks_width = self._marks(entry)
        when = age_text(entry.value.timestamp, self._now)
        used = self._gutter + min(len(step.left), _GRAPH_MAX) + _SPEAKER_WIDTH + 4 + marks_width
        if look.width and look.width - used - len(when) < _TEXT_MIN:
            when = ""
        used += len(when) + 2 if when else 0
        shown = clip(look, text, max(0, look.width - used)) if look.width else text
        active = entry.id in self._active
        words = pad(clip(look, speaker, _SPEAKER_WIDTH), _SPEAKER_WIDTH)
        line = f"{self._stem(step, entry)} {look.paint(style if active else 'dim', words)} "
        line += (shown if active else look.paint("dim", shown)) + marks
        # On a terminal the times are in a separate column at the right.
        blank = " " * max(2, look.width - used - text_width(shown) + 2) if look.width else "  "
        return f"{line}{blank}{look.paint('dim', when)}" if when else line

    def _stem(self, step: _Step, entry: Entry) -> str:
        """Return the address of a node and its place in the graph."""
        look, active = self._look, entry.id in self._active
        dot = look.symbol("●", "*") if active else look.symbol("○", "o")
        address = pad(visible(self._names.short(entry)), self._gutter, right=True)
        graph = look.paint("dim", _graph(look, step.left)) + look.paint("mark" if active else "dim", dot)
        return f"{look.paint('dim', address)} {graph}"

    def _marks(self, entry: Entry) -> tuple[str, int]:
        """Return the label of a node and the head mark, with their width."""
        words = []
        if entry.id in self._labels:
            words.append(("label", f"[{clip(self._look, visible(self._labels[entry.id]), 30)}]"))
        if entry.id == self._tree.head:
            words.append(("mark", self._look.symbol("◀ head", "<- head")))
        painted = "".join(f" {self._look.paint(style, word)}" for style, word in words)
        return painted, sum(text_width(word) + 1 for _, word in words)

    def _annotation_lines(self, step: _Step) -> Iterator[str]:
        for annotation in self._tree.annotations(step.node) if self._annotations else ():
            graph = _graph(self._look, step.below) + self._look.symbol("┊", ":")
            address = pad(visible(self._names.short(annotation)), self._gutter, right=True)
            text = f"{address} {graph} {annotation_line(annotation.value)}"
            yield self._look.paint("dim", clip(self._look, text, self._look.columns))


def _graph(look: TerminalStyle, left: str) -> str:
    """Return the graph left of a node; for a very deep one only the end of it."""
    return left if len(left) <= _GRAPH_MAX else look.symbol("… ", ".. ") + left[2 - _GRAPH_MAX :]


def _node_summary(tree: Tree, entry: Entry) -> tuple[str, str, str]:
    """Return the speaker of a node, its style, and its text on one line."""
    row = _first_row(tree, entry)
    if row is None:
        return "assistant", "model", ""
    speaker, style = speaker_of(row)
    if row.kind == "session":
        return "session", "name", _session_title(row)
    if row.kind == "change":
        return speaker, style, f"{visible(row.name)}: {first_line(row.text) or key_argument(row.input)}"
    return speaker, style, node_text(entry)


def _first_row(tree: Tree, entry: Entry) -> TranscriptRow | None:
    """Return the first row of a node; settings are shown as a change from the settings before."""
    before = _context_before(tree, entry) if isinstance(entry.value, ContextEntry) else ()
    return next((row for row in transcript(Branch((*before, entry))) if row.entry_id == entry.id), None)


def _context_before(tree: Tree, entry: Entry) -> tuple[Entry, ...]:
    at = tree.parent(entry.id)
    while at is not None and not isinstance(tree.nodes[at].value, ContextEntry):
        at = tree.parent(at)
    return (tree.nodes[at],) if at is not None else ()


def _session_title(row: TranscriptRow) -> str:
    return "  ".join(filter(None, (visible(row.name), first_line(row.text))))


def node_text(entry: Entry) -> str:
    """Return the text of a node on one line."""
    value = entry.value
    if isinstance(value, Message):
        message = value.message
        if isinstance(message, ToolResult):
            return f"{visible(message.tool_name)} {message.effective_status}: {first_line(message.text)}"
        if isinstance(message, Reply) and message.tool_calls:
            calls = ", ".join(f"{visible(call.name)}({key_argument(call.input)})" for call in message.tool_calls)
            return " ".join(filter(None, (first_line(message.text), calls)))
        return first_line(message.text)
    return first_line(next(iter(transcript(Branch((entry,))))).text)
