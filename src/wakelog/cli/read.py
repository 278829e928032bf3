"""Commands `context` and `usage`: projections of one session. Neither writes anything."""

from collections.abc import Iterator, Mapping

import click

from wakelog.cli import load
from wakelog.cli.addresses import find, find_node, read_for
from wakelog.cli.draw import Look, cells, clip, look
from wakelog.cli.failures import stop_if_damaged
from wakelog.cli.names import Names
from wakelog.cli.options import Asked, at_option, command, session_argument
from wakelog.cli.output import put_json, put_pages, put_text
from wakelog.cli.safe import visible, visible_lines
from wakelog.cli.times import plural
from wakelog.cli.weighing import beside
from wakelog.errors import UsageError
from wakelog.log.codec import canonical
from wakelog.log.content import ToolCall, Usage
from wakelog.projections.context import Context, ContextMessage, build_context, message_tokens
from wakelog.projections.transcript import show_parts
from wakelog.projections.usage import Spent, usage_by_branch
from wakelog.projections.usage import usage as add_up
from wakelog.reading import Log, read_log

_LINES = 3
"""Number of lines shown of a message."""

# ── context ──────────────────────────────────────────────────────────────────────────────────────


@command(
    "context",
    examples="""
    wakelog context @latest
    wakelog context crab_user_3 --json | jq '.messages[].role'
    wakelog context crab_user_3 --at 12 --strategy window:20
    wakelog context crab_user_3 --at 14 --exact   what the model was handed for reply 14, proved by its digest
    wakelog context crab_user_3 --diff 14 30      what was added, dropped and changed, and where a cache broke
    """,
    paged=True,
)
@session_argument
@at_option
@click.option("--strategy", default="full", metavar="HOW", help="full, window:N or budget:TOKENS. [default: full]")
@click.option("--exact", is_flag=True, help="What was handed over at a call, or for a reply. [default: the last one]")
@click.option("--diff", nargs=2, metavar="CALL CALL", help="What differs between two calls, or their replies.")
def context(
    asked: Asked, session: str, at: str | None, strategy: str, *, exact: bool, diff: tuple[str, str] | None
) -> None:
    """Show what the model would see if it were called now, or what it was handed at a call."""
    address = find(asked, session, at)
    if exact and diff is not None:
        raise UsageError("either one call or two", hint="--exact shows one, --diff compares two")
    if exact:
        load("wakelog.cli.calls").show_exact(asked, address)
        return
    if diff is not None:
        load("wakelog.cli.calls").show_difference(asked, address, *diff)
        return
    log = read_for(address, tail=True)
    branch = log.tree.branch(find_node(log, address.entry))
    built = build_context(branch, strategy)
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
        put_pages(asked, context_lines(look(asked.color), log, built, beside(built, branch)))
    stop_if_damaged(address.ref, log.damage)


def context_lines(seen: Look, log: Log, built: Context, others: Mapping[str, int]) -> Iterator[str]:
    """Yield the context: a heading, token counts of instructions and tools, the first lines of each message."""
    model = visible(built.model or "no model named")
    dot = seen.sign("·", "-")
    tokens = plural(built.tokens + sum(others.values()), "token")
    summary = f"{plural(len(built.messages), 'message')} {dot} about {tokens} {dot} {built.strategy}"
    room = seen.width - cells(log.name) - 2 if seen.width else 0
    about = f"{model} {dot} {summary}"
    yield f"{seen.paint('name', log.name)}  {clip(seen, about, room) if room else about}"
    yield seen.paint("dim", clip(seen, built.digest, seen.columns))
    if others:
        yield ""
        yield from (f"      {what}  {seen.paint('dim', plural(size, 'token'))}" for what, size in others.items())
    names = Names(log.tree)
    for entry_id, message in zip(built.entry_ids, built.messages, strict=True):
        yield ""
        yield _context_heading(seen, names, entry_id, message)
        for part in message.content:
            text = (
                f"[{part.name}] {canonical(part.input).decode()}" if isinstance(part, ToolCall) else show_parts((part,))
            )
            yield from (f"      {line}" for line in _first_lines(seen, text))


def _first_lines(seen: Look, text: str) -> Iterator[str]:
    """Yield the first lines and the number of the others; a single extra line is shown instead of counted."""
    lines = visible_lines(text.strip("\n"))
    shown = lines if len(lines) <= _LINES + 1 else lines[:_LINES]
    yield from (clip(seen, line, seen.columns - 6) if seen.width else line for line in shown)
    if len(shown) < len(lines):
        yield seen.paint("dim", f"{seen.sign('…', '...')} {len(lines) - len(shown):,} more lines")


def _context_heading(seen: Look, names: Names, entry_id: str, message: ContextMessage) -> str:
    styles = {"user": "user", "assistant": "model", "toolResult": "tool"}
    failed = " failed" if message.is_error else ""
    name = f" {clip(seen, visible(message.tool_name), 20)}" if message.tool_name else ""
    tokens = seen.paint("dim", plural(message_tokens(message), "token"))
    speaker = seen.paint(styles[message.role], message.role + name + failed)
    return f"{seen.paint('dim', f'{visible(names.of(entry_id)):>4}')}  {speaker}  {tokens}"


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
    if asked.json:
        parts = [
            {"leaf": branch.leaf, **_figures(branch.spent), "alone": _figures(branch.alone)}
            for branch in usage_by_branch(log.tree)
        ]
        put_json({**_figures(add_up(log.entries)), "branches": parts})
    else:
        put_text(spent_lines(log))
    stop_if_damaged(address.ref, log.damage)


def spent_lines(log: Log) -> Iterator[str]:
    """Yield the total usage, and that of each branch if there are several."""
    yield _spent_line(log.name, add_up(log.entries))
    branches, names = usage_by_branch(log.tree), Names(log.tree)
    for branch in branches if len(branches) > 1 else ():
        yield _spent_line(f"  branch {visible(names.of(branch.leaf))}", branch.spent)


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
