"""Short description of a `context` entry: its content if it is the first, else what it changes. Pure.

The instructions and tool declarations themselves are blobs. A policy may have been written by another program: values
that are not understood are skipped, and the text must be escaped by a renderer (law 13: stored text is hostile).
"""

from collections.abc import Iterator, Mapping

from wakelog.log.entry import ContextEntry

_APPROVALS = ("approval", "approvals")
_RUNS = {
    "auto": ("runs unasked", "run unasked"),
    "ask": ("asks first", "ask first"),
    "deny": ("never runs", "never run"),
}


def context_words(record: ContextEntry, before: ContextEntry | None = None) -> str:
    """Return the description; `before` is the `context` entry that was in force until then."""
    return ", ".join([*_texts(record, before), *_approvals(record, before), *_others(record, before)]) or "as it was"


def _texts(record: ContextEntry, before: ContextEntry | None) -> Iterator[str]:
    known = before.sources if before is not None else ()
    yield from (source.path for source in record.sources if source not in known)
    if record.system is not None and (before is None or record.system != before.system):
        yield "instructions"
    if before is not None and before.system is not None and record.system is None:
        yield "no instructions"
    if before is None or record.tools != before.tools:
        yield "tools" if record.tools is not None else "no tools"


def _approvals(record: ContextEntry, before: ContextEntry | None) -> Iterator[str]:
    approval, was = _rule(record), _rule(before) if before is not None else None
    if approval is not None and approval != was:
        yield f"approval {approval}"
    tools = _by_tool(record)
    old = _by_tool(before) if before is not None else {}
    now = {tool: tools.get(tool, approval) for tool in (*tools, *(tool for tool in old if tool not in tools))}
    then = {tool: old.get(tool, was) if before is not None else approval for tool in now}
    for how, (one, several) in _RUNS.items():
        names = [tool for tool in now if now[tool] == how != then[tool]]
        if names:
            yield f"{', '.join(names)} {several if len(names) > 1 else one}"


def _others(record: ContextEntry, before: ContextEntry | None) -> Iterator[str]:
    """Yield the names of other policy fields and parameters that changed; none for the first `context` entry."""
    if before is None:
        return
    keys = [key for key in record.policy if key not in _APPROVALS]
    yield from (key for key in keys if record.policy[key] != before.policy.get(key))
    yield from (key for key in {**before.params, **record.params} if record.params.get(key) != before.params.get(key))


def _rule(record: ContextEntry) -> str | None:
    found = record.policy.get("approval")
    return found if isinstance(found, str) else None


def _by_tool(record: ContextEntry) -> Mapping[str, object]:
    found = record.policy.get("approvals")
    return found if isinstance(found, dict) else {}
