"""Commands `context` and `usage`: what the model sees of a session, and what its model calls consumed."""

import click

from wakelog.app.addresses import find_node, find_session, read_log_of
from wakelog.app.prices import PriceTable
from wakelog.app.stores import StoreLocation
from wakelog.cli import load
from wakelog.cli.ui.errors import exit_if_damaged
from wakelog.cli.ui.options import SharedOptions, at_option, command, optional_session_argument, session_argument
from wakelog.cli.ui.output import put_json, put_pages, put_text
from wakelog.cli.ui.session_views import all_usage_lines, context_lines, estimate_other_tokens, usage_lines
from wakelog.cli.ui.terminal import style_of
from wakelog.errors import UsageError
from wakelog.log.content import Usage
from wakelog.projections.context import build_context
from wakelog.projections.usage import UsageCounter, UsageTotal, usage_by_branch
from wakelog.projections.usage import usage as add_up
from wakelog.reading import read_log, with_session_name
from wakelog.scanning import scan_log, scanned_entries

# ── context ──────────────────────────────────────────────────────────────────────────────────────


@command(
    "context",
    examples="""
    wakelog context @latest
    wakelog context crab_user_3 --json | jq '.messages[].role'
    wakelog context crab_user_3 --at 12 --strategy window:20
    wakelog context crab_user_3 --at 14 --exact   the request that produced reply 14, checked against its digest
    wakelog context crab_user_3 --diff 14 30      what was added, dropped and changed, and where the cache broke
    """,
    paged=True,
)
@session_argument
@at_option
@click.option("--strategy", default="full", metavar="HOW", help="full, window:N or budget:TOKENS. [default: full]")
@click.option("--exact", is_flag=True, help="The exact request of a model call or of a reply. [default: the last one]")
@click.option(
    "--diff", nargs=2, metavar="CALL CALL", help="Compare the requests of two model calls, or of their replies."
)
def context(
    shared: SharedOptions, session: str, at: str | None, strategy: str, *, exact: bool, diff: tuple[str, str] | None
) -> None:
    """Show the context that the model would get now, or the request of a past model call."""
    address = find_session(shared.store_url, session, at)
    if exact and diff is not None:
        raise UsageError(
            "--exact cannot be combined with --diff", hint="--exact shows one model call, --diff compares two"
        )
    if exact:
        load("wakelog.cli.ui.model_calls").show_exact(shared, address)
        return
    if diff is not None:
        load("wakelog.cli.ui.model_calls").show_difference(shared, address, *diff)
        return
    log = read_log_of(address, tail=True)
    branch = log.tree.branch(find_node(log, address.entry))
    built = build_context(branch, strategy)
    if shared.json:
        put_json(
            {
                "model": built.model,
                "provider": built.provider,
                "strategy": built.strategy,
                "messages": built.messages,
                "entries": built.entry_ids,
                "tokens": built.tokens,
                "overLimit": built.over_limit,
                "digest": built.digest,
            }
        )
    else:
        others = estimate_other_tokens(address.store.blobs, built, branch)
        put_pages(shared, context_lines(style_of(shared.color), log, built, others))
    exit_if_damaged(address.ref, log.damage)


# ── usage ────────────────────────────────────────────────────────────────────────────────────────


@command(
    "usage",
    examples="""
    wakelog usage @latest
    wakelog usage crab_user_3 --json | jq .cost
    wakelog usage --all                      every session of the store, and the total
    """,
)
@optional_session_argument
@click.option("--all", "everything", is_flag=True, help="Add up all sessions of the store.")
def usage(shared: SharedOptions, session: str | None, *, everything: bool) -> None:
    """Add up tokens and cost of the model calls. A call counts once, however many branches contain it.

    With --all, a call counts once in the total, however many sessions contain it, as copies made by other agents do.
    """
    if everything == (session is not None):
        raise UsageError("name a session, or use --all")
    if session is None:
        _put_usage_of_all(shared)
        return
    address = find_session(shared.store_url, session)
    log, prices = read_log(address.store, address.name), PriceTable.from_config()
    if shared.json:
        parts = [
            {"leaf": branch.leaf, **_usage_values(branch.total), "alone": _usage_values(branch.exclusive)}
            for branch in usage_by_branch(log.tree, prices.find_cost)
        ]
        total = _usage_values(add_up(log.entries, prices.find_cost))
        put_json({**total, "prices": prices.description, "branches": parts})
    else:
        put_text([*usage_lines(log, prices.find_cost), *_price_lines(shared, prices)])
    exit_if_damaged(address.ref, log.damage)


def _put_usage_of_all(shared: SharedOptions) -> None:
    place, prices = StoreLocation(shared.store_url), PriceTable.from_config()
    counter, totals, damage = UsageCounter(prices.find_cost), {}, []
    for stat in place.store.sessions():
        scan = scan_log(place.store, stat.name)
        totals[stat.name] = counter.add(
            entry for number, entry in scanned_entries(place.store, scan) if number >= scan.outline.inherited
        )
        damage += with_session_name(scan.damage, stat.name)
    if shared.json:
        sessions = [{"name": name, **_usage_values(total)} for name, total in totals.items()]
        put_json({**_usage_values(counter.total), "prices": prices.description, "sessions": sessions})
    else:
        put_text([*all_usage_lines(totals, counter.total), *_price_lines(shared, prices)])
    exit_if_damaged(place.display_url, damage)


def _price_lines(shared: SharedOptions, prices: PriceTable) -> list[str]:
    """Return the line that says which prices were applied to calls whose cost is not in the log."""
    return [style_of(shared.color).paint("dim", prices.description)] if prices.was_asked else []


def _usage_values(spent: UsageTotal) -> dict[str, int | None]:
    used: Usage = spent.usage
    return {
        "calls": spent.calls,
        "input": used.input_tokens,
        "output": used.output_tokens,
        "cacheRead": used.cache_read_tokens,
        "cacheWrite": used.cache_write_tokens,
        "cost": used.cost_micros,
        "knownCost": spent.known_cost_micros,
        "callsWithoutCost": spent.calls_without_cost,
        "repliesWithoutUsage": spent.replies_without_usage,
    }
