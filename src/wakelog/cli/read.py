"""Commands that read one session: `show`, `context`, `usage`. None of them writes anything anywhere."""

from collections.abc import Iterator

import click
import msgspec

from wakelog.cli.addresses import Address, find, find_link, short
from wakelog.cli.draw import Look, cells, clip, look
from wakelog.cli.failures import stop_if_damaged
from wakelog.cli.options import Asked, at_option, command, session_argument
from wakelog.cli.output import put, put_json, put_lines, put_pages
from wakelog.cli.safe import first_line, visible
from wakelog.cli.times import ago, now_ms, plural
from wakelog.cli.transcripts import draw_rows, dressed
from wakelog.log.content import ToolCall, Usage
from wakelog.log.entry import Entry
from wakelog.log.tree import Branch
from wakelog.reading import Log, read_active, read_log
from wakelog.views.active import active as active_part
from wakelog.views.context import Context, ContextMessage, build_context, message_tokens
from wakelog.views.overview import overview
from wakelog.views.transcript import show_parts, transcript
from wakelog.views.usage import Spent, usage_by_branch
from wakelog.views.usage import usage as add_up

# ── show ─────────────────────────────────────────────────────────────────────────────────────────


@command(
    "show",
    examples="""
    wakelog show @latest
    wakelog show crab_user_3:12              the branch that ends at entry 12
    wakelog show crab_user_3 --active        what follows the last compaction
    wakelog show crab_user_3 --json | jq .type
    wakelog show ./some/log.jsonl
    """,
    paged=True,
)
@session_argument
@at_option
@click.option("--active", is_flag=True, help="Only what follows the last compaction, with its summary in front.")
@click.option("--full", is_flag=True, help="Unfold tool output.")
def show(asked: Asked, session: str, at: str | None, *, active: bool, full: bool) -> None:
    """Show what was said and done on a branch. With --json: the entries as stored, a line each."""
    address = find(asked, session, at)
    log = _read(address, tail=active)
    branch = log.tree.branch(find_link(log, address.entry))
    if active:
        branch = _active(log, branch)
    if asked.json:
        whole = not active and address.entry is None
        put_lines(entry.raw for entry in (log.entries if whole else _in_order(branch, active=active)))
    else:
        put_pages(asked, _transcript(asked, address, log, branch, full=full))
    stop_if_damaged(address.ref, log.damage)


def _read(address: Address, *, tail: bool) -> Log:
    """The log, or only its end where that is enough."""
    read = read_active if tail and address.entry is None else read_log
    return read(address.store, address.name)


def _active(log: Log, branch: Branch) -> Branch:
    """A branch cut down to what follows its last compaction, which stands in front."""
    part = active_part(branch)
    fold = (log.tree.links[part.compaction.id],) if part.compaction else ()
    links = (*fold, *part.links)
    shown = {link.id for link in links}
    facts = tuple(fact for fact in branch.facts if fact.value.parent_id in shown)
    return msgspec.structs.replace(branch, links=links, facts=facts, inherited=0, inherited_facts=())


def _in_order(branch: Branch, *, active: bool) -> list[Entry]:
    """The entries of a branch in the order of the log; an active part keeps its compaction in front."""
    links = branch.links if active else branch.links[branch.inherited :]
    front = links[:1] if active else ()
    rest = sorted((*links[len(front) :], *branch.facts), key=lambda entry: entry.seq)
    return [*front, *rest] if active else [*branch.links[: branch.inherited], *branch.inherited_facts, *rest]


def _transcript(asked: Asked, address: Address, log: Log, branch: Branch, *, full: bool) -> Iterator[str]:
    seen = look(asked.color)
    now = now_ms()
    addresses = {link.id: short(log.tree, link) for link in branch.links}
    dress = dressed(seen, now, addresses, full=full)
    yield from _card(seen, address, log, now)
    yield from draw_rows(dress, (row for row in transcript(branch) if row.kind != "session"))
    others = len(log.tree.leaves()) - 1
    if others > 0 and address.entry is None and not log.tree.partial:
        yield ""
        hint = f"{plural(others, 'other branch', 'other branches')}: wakelog tree {visible(address.ref)}"
        yield seen.paint("dim", hint)


def _card(seen: Look, address: Address, log: Log, now: int) -> Iterator[str]:
    """The head of a transcript: what session this is."""
    held = address.store.held(address.name) is not None
    card = overview(log.tree, held=held, damaged=bool(log.damage))
    title = first_line(card.title or "")
    yield seen.paint("name", log.name) + (f"  {clip(seen, title, seen.columns - len(log.name) - 2)}" if title else "")
    updated = log.entries[-1].value.timestamp if log.entries else ""
    facts = (
        visible(card.cwd),
        visible(card.model or ""),
        plural(card.messages, "message"),
        card.state,
        "archived" if card.archived else "",
        ago(updated, now),
    )
    dot = seen.sign(" · ", " - ")
    yield seen.paint(
        "dim", clip(seen, dot.join(filter(None, facts)), seen.columns) if seen.width else dot.join(filter(None, facts))
    )
    yield ""


# ── context ──────────────────────────────────────────────────────────────────────────────────────


@command(
    "context",
    examples="""
    wakelog context @latest
    wakelog context crab_user_3 --json | jq '.messages[].role'
    wakelog context crab_user_3 --at 12 --strategy window:20
    """,
    paged=True,
)
@session_argument
@at_option
@click.option("--strategy", default="full", metavar="HOW", help="full, window:N or budget:TOKENS. [default: full]")
def context(asked: Asked, session: str, at: str | None, strategy: str) -> None:
    """Show what the model would see if it were called now."""
    address = find(asked, session, at)
    log = _read(address, tail=True)
    built = build_context(log.tree.branch(find_link(log, address.entry)), strategy)
    if asked.json:
        put_json(
            {
                "model": built.model,
                "provider": built.provider,
                "strategy": built.strategy,
                "messages": built.messages,
                "entries": built.entry_ids,
                "tokens": built.tokens,
                "digest": built.digest,
            }
        )
    else:
        put_pages(asked, _context_lines(asked, log, built))
    stop_if_damaged(address.ref, log.damage)


def _context_lines(asked: Asked, log: Log, built: Context) -> Iterator[str]:
    seen = look(asked.color)
    model = visible(built.model or "no model named")
    dot = seen.sign("·", "-")
    summary = (
        f"{plural(len(built.messages), 'message')} {dot} about {plural(built.tokens, 'token')} {dot} {built.strategy}"
    )
    room = seen.width - cells(log.name) - 2 if seen.width else 0
    about = f"{model} {dot} {summary}"
    yield f"{seen.paint('name', log.name)}  {clip(seen, about, room) if room else about}"
    yield seen.paint("dim", clip(seen, built.digest, seen.columns))
    for entry_id, message in zip(built.entry_ids, built.messages, strict=True):
        yield ""
        yield _context_heading(seen, log, entry_id, message)
        for part in message.content:
            text = f"[{part.name}] {part.id}" if isinstance(part, ToolCall) else show_parts((part,))
            yield f"      {clip(seen, first_line(text), seen.columns - 6) if seen.width else first_line(text)}"


def _context_heading(seen: Look, log: Log, entry_id: str, message: ContextMessage) -> str:
    styles = {"user": "user", "assistant": "model", "toolResult": "tool"}
    address = short(log.tree, log.tree.links[entry_id])
    failed = " failed" if message.is_error else ""
    name = f" {clip(seen, visible(message.tool_name), 20)}" if message.tool_name else ""
    tokens = seen.paint("dim", plural(message_tokens(message), "token"))
    speaker = seen.paint(styles[message.role], message.role + name + failed)
    return f"{seen.paint('dim', f'{address:>4}')}  {speaker}  {tokens}"


# ── usage ────────────────────────────────────────────────────────────────────────────────────────


@command(
    "usage",
    examples="""
    wakelog usage @latest
    wakelog usage crab_user_3 --json | jq .cost
    """,
)
@session_argument
def usage(asked: Asked, session: str) -> None:
    """Add up what a session's model calls consumed. A call counts once, however many branches hold it."""
    address = find(asked, session)
    log = read_log(address.store, address.name)
    total = add_up(log.entries)
    branches = usage_by_branch(log.tree)
    if asked.json:
        parts = [
            {"leaf": branch.leaf, **_figures(branch.spent), "alone": _figures(branch.alone)} for branch in branches
        ]
        put_json({**_figures(total), "branches": parts})
    else:
        put(_spent_line(log.name, total))
        for branch in branches if len(branches) > 1 else ():
            put(_spent_line(f"  branch {short(log.tree, log.tree.links[branch.leaf])}", branch.spent))
    stop_if_damaged(address.ref, log.damage)


def _figures(spent: Spent) -> dict[str, int | None]:
    used: Usage = spent.usage
    return {
        "calls": spent.calls,
        "input": used.input_tokens,
        "output": used.output_tokens,
        "cacheRead": used.cache_read_tokens,
        "cacheWrite": used.cache_write_tokens,
        "cost": used.cost_micros,
    }


def _spent_line(what: str, spent: Spent) -> str:
    used = spent.usage
    cost = "price unknown" if used.cost_micros is None else f"${used.cost_micros / 1_000_000:.4f}"
    tokens = f"{used.input_tokens:,} in, {used.output_tokens:,} out, {used.cache_read_tokens:,} from cache"
    return f"{what}: {plural(spent.calls, 'call')}, {tokens}, {cost}"
