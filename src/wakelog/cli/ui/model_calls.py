"""Model calls outside a run: show the request of a past call, compare two, or have the model write a summary.

`context --exact` shows one request and `context --diff` compares two; `compact` without a summary calls the model.
Requests are not stored. They are rebuilt from the log and its blobs; the digest that was logged before the request
shows whether the result is identical to the byte. Loaded on demand, because it imports the runtime.
"""

import asyncio
from collections.abc import Iterator

import click

from wakelog.app.addresses import Address, find_entry
from wakelog.app.entry_names import EntryNames
from wakelog.app.runner import runtime_for
from wakelog.cli.ui.errors import DAMAGED, exit_if_damaged, note
from wakelog.cli.ui.options import SharedOptions
from wakelog.cli.ui.output import put_json, put_pages
from wakelog.cli.ui.quantities import plural
from wakelog.cli.ui.safe_text import first_line, visible, visible_lines
from wakelog.cli.ui.session_views import over_limit_text
from wakelog.cli.ui.terminal import TerminalStyle, clip, style_of
from wakelog.cli.ui.transcripts import key_argument
from wakelog.errors import NotFound, UsageError, WakelogError
from wakelog.log.codec import canonical_json
from wakelog.log.content import Reply, ToolCall
from wakelog.log.entry import Compaction, Entry, Failed, Message, ModelCall
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import Context, ContextMessage, message_tokens
from wakelog.projections.context_changes import ContextDifference, compare_contexts
from wakelog.projections.transcript import parts_text
from wakelog.reading import Log, read_log
from wakelog.runtime.model_request import branch_at_call, build_request, context_of_call
from wakelog.runtime.user_actions import compact_now
from wakelog.session import Session

_BRIEF_CHARS = 200
_STYLES = {"user": "user", "assistant": "model", "toolResult": "tool"}
_DROP_REASONS = {
    "fold": "a compaction replaces it",
    "window": "the strategy leaves it out",
    "branch": "it is on another branch",
    "kept": "a summary must not replace it",
}


def find_model_call(log: Log, typed: str | None) -> ModelCall:
    """Return the typed model call, named by its own entry or by its result; the last call if nothing was typed."""
    calls = [
        annotation.value
        for node in log.tree.nodes
        for annotation in log.tree.annotations(node)
        if isinstance(annotation.value, ModelCall)
    ]
    if typed is None:
        if not calls:
            raise NotFound(f"{log.name} has no model call", hint="`wakelog context` shows what a model would get")
        return max(calls, key=lambda call: call.seq or 0)
    entry_id = find_entry(log, typed)
    entry = log.tree.entry(entry_id)
    match entry.value if entry is not None else None:
        case ModelCall() as call:
            return call
        case Message(message=Reply(call_id=str() as made)) | Compaction(call_id=str() as made):
            found = next((call for call in calls if call.key == made), None)
        case Failed(call_id=str() as made):
            found = next((call for call in calls if call.key == made), None)
        case _:
            found = None
    if found is None:
        raise UsageError(f"entry {typed} is not a model call", hint="give a `call` entry or its reply")
    return found


# ── context --exact ──────────────────────────────────────────────────────────────────────────────


def show_exact(shared: SharedOptions, address: Address) -> None:
    """Print the full request of a model call, and whether its digest matches. Exits with `DAMAGED` if not."""
    log = read_log(address.store, address.name)
    call = find_model_call(log, address.entry)
    context, answers = context_of_call(log.tree, call)
    request = build_request(context, address.store.blobs, call_id=call.id, answers=answers, purpose=call.purpose)
    same = context.digest == call.context_digest if call.context_digest is not None else None
    if shared.json:
        put_json(_request_values(call, context, request, same=same))
    else:
        put_pages(shared, _exact_lines(style_of(shared.color), log, call, context, request, same=same))
    if same is False:
        note(f"the rebuilt request differs from the digest in the log; `wakelog verify {address.ref}` may show why")
        raise click.exceptions.Exit(DAMAGED)
    exit_if_damaged(address.ref, log.damage)


def _request_values(
    call: ModelCall, context: Context, request: ModelRequest, *, same: bool | None
) -> dict[str, object]:
    return {
        "call": call.id,
        "reply": call.reply_id,
        "purpose": call.purpose,
        "model": call.model,
        "provider": call.provider,
        "strategy": call.strategy,
        "system": request.system,
        "tools": request.tools,
        "params": request.params,
        "messages": request.messages,
        "injected": request.injected,
        "entries": context.entry_ids,
        "tokens": context.tokens,
        "overLimit": context.over_limit,
        "digest": context.digest,
        "logged": call.context_digest,
        "same": same,
    }


def _exact_lines(
    look: TerminalStyle, log: Log, call: ModelCall, context: Context, request: ModelRequest, *, same: bool | None
) -> Iterator[str]:
    yield _title(look, log, call, context)
    word, style = {True: ("digest ok", "good"), False: ("digest differs", "bad"), None: ("no digest", "warn")}[same]
    yield f"{look.paint(style, word)}  {look.paint('dim', context.digest)}"
    if context.over_limit:
        yield look.paint("warn", over_limit_text(context.strategy, context.over_limit))
    yield from _section(look, "instructions", request.system)
    if request.tools:
        yield from ("", look.paint("bold", "tools"))
        for tool in request.tools:
            line = first_line(f"{tool.get('name', '')}  {tool.get('description', '')}")
            yield f"      {clip(look, line, look.columns - 6) if look.width else line}"
    names = EntryNames(log.tree)
    if request.params:
        yield from _section(look, "parameters", canonical_json(request.params).decode())
    for entry_id, message in zip(context.entry_ids, request.messages, strict=True):
        yield from ("", _heading(look, names, entry_id, message))
        yield from (f"      {line}" for line in _message_lines(message))
    for text in request.injected:
        yield from _section(look, "injected", text)


def _section(look: TerminalStyle, title: str, text: str) -> Iterator[str]:
    if text:
        yield from ("", look.paint("bold", title))
        yield from (f"      {line}" for line in visible_lines(text.rstrip("\n")))


def _message_lines(message: ContextMessage) -> Iterator[str]:
    for part in message.content:
        if isinstance(part, ToolCall):
            yield f"[{visible(part.name)}] {visible(canonical_json(part.input).decode())}"
        else:
            yield from visible_lines(parts_text((part,)))


def _title(look: TerminalStyle, log: Log, call: ModelCall, context: Context) -> str:
    dot = look.symbol("·", "-")
    model = ":".join(filter(None, (visible(call.provider or ""), visible(call.model or ""))))
    sizes = f"{plural(len(context.messages), 'message')} {dot} about {plural(context.tokens, 'token')}"
    what = f" for a {call.purpose}" if call.purpose != "reply" else ""
    return f"{look.paint('name', f'{log.name}:{call.seq}')}  {model}{what} {dot} {sizes} {dot} {call.strategy}"


def _heading(look: TerminalStyle, names: EntryNames, entry_id: str, message: ContextMessage) -> str:
    name = f" {clip(look, visible(message.tool_name), 20)}" if message.tool_name else ""
    failed = " failed" if message.is_error else ""
    speaker = look.paint(_STYLES[message.role], message.role + name + failed)
    return f"{look.paint('dim', f'{visible(names.of(entry_id)):>4}')}  {speaker}"


# ── context --diff ───────────────────────────────────────────────────────────────────────────────


def show_difference(shared: SharedOptions, address: Address, one: str, two: str) -> None:
    """Print what was added, dropped and changed between two model calls, and where the prompt cache broke."""
    log = read_log(address.store, address.name)
    first, second = find_model_call(log, one), find_model_call(log, two)
    (before, _), (after, _) = context_of_call(log.tree, first), context_of_call(log.tree, second)
    found = compare_contexts(before, after, branch_at_call(log.tree, second))
    if shared.json:
        put_json({"from": first.id, "to": second.id, **_difference_values(found)})
    else:
        contexts = dict(zip(before.entry_ids, before.messages, strict=True))
        contexts |= dict(zip(after.entry_ids, after.messages, strict=True))
        put_pages(shared, _difference_lines(style_of(shared.color), log, (first, second), found, contexts))
    exit_if_damaged(address.ref, log.damage)


def _difference_values(found: ContextDifference) -> dict[str, object]:
    return {
        "before": found.before,
        "after": found.after,
        "common": found.common,
        "commonTokens": found.common_tokens,
        "kept": found.kept,
        "breaksAt": found.breaks_at,
        "breaksBy": found.breaks_by,
        "changed": found.changed,
        "added": found.added,
        "dropped": found.dropped,
    }


def _difference_lines(
    look: TerminalStyle,
    log: Log,
    calls: tuple[ModelCall, ModelCall],
    found: ContextDifference,
    messages: dict[str, ContextMessage],
) -> Iterator[str]:
    arrow, names = look.symbol("→", "->"), EntryNames(log.tree)
    yield f"{look.paint('name', log.name)}  call {calls[0].seq} {arrow} call {calls[1].seq}"
    common = f"{plural(found.common, 'message')}, about {plural(found.common_tokens, 'token')}"
    yield f"common prefix: {common} (of {found.before}, now {found.after})"
    style, text = _cache_text(found)
    yield f"cache: {look.paint(style, text)}"
    for change in found.changed:
        yield f"{look.paint('warn', '~')} {change.what}: {_brief(change.before)} {arrow} {_brief(change.after)}"
    for dropped in found.dropped:
        about = f"({_DROP_REASONS[dropped.why]})"
        yield _message_line(look, names, "-", "bad", dropped.entry, messages[dropped.entry], about)
    for added in found.added:
        yield _message_line(look, names, "+", "good", added.entry, messages[added.entry], "")


def _cache_text(found: ContextDifference) -> tuple[str, str]:
    if found.kept:
        return "good", "kept: the second request begins with the whole first request"
    if found.breaks_at == 0:
        return "bad", f"broke before the first message: the {found.breaks_by} changed"
    why = {
        "fold": "a compaction replaces older messages",
        "window": "the window moved",
        "branch": "another branch continues there",
        "kept": "the summary ends there",
    }.get(found.breaks_by or "", "the messages after it differ")
    return "bad", f"broke at message {found.breaks_at}: {why}"


def _brief(value: object) -> str:
    text = (
        value if isinstance(value, str) else canonical_json(value).decode() if value not in (None, {}, []) else "none"
    )
    return clip(TerminalStyle(), visible(text[:_BRIEF_CHARS]), 25)


def _message_line(
    look: TerminalStyle, names: EntryNames, sign: str, style: str, entry_id: str, message: ContextMessage, about: str
) -> str:
    parts = [
        f"{visible(part.name)}({key_argument(part.input)})"
        if isinstance(part, ToolCall)
        else first_line(parts_text((part,)))
        for part in message.content
    ]
    tokens = plural(message_tokens(message), "token")
    text = f"{visible(names.of(entry_id)):>4} {message.role:<10} {' '.join(filter(None, parts))}"
    room = look.columns - len(tokens) - len(about) - 6
    shown = clip(look, text, max(20, room)) if look.width else text
    return f"{look.paint(style, sign)} {shown}  {look.paint('dim', ' '.join(filter(None, (tokens, about))))}"


def compact_with_model(session: Session, keep: str | None, instructions: str) -> Entry:
    """Return the compaction, or the queued request for one if the session is being run.

    `WakelogError` if there is nothing to compact or the summary was not usable.
    """
    done = asyncio.run(compact_now(runtime_for(session.store), session.name, keep=keep, instructions=instructions))
    if done.entry is None:
        raise WakelogError(f"{session.name} was not compacted: {done.reason}")
    value = done.entry.value
    if not isinstance(value, Compaction):
        note(f"another process runs {session.name}: the compaction waits in its queue")
    elif value.tokens_before is not None and value.tokens_after is not None:
        note(f"compacted from about {value.tokens_before:,} to {value.tokens_after:,} tokens")
    return done.entry
