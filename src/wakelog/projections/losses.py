"""Losses of a branch by damage: the holes in its log, and the tools that ran for unreadable replies.

An unreadable reply may have called tools. Other entries can still show that these started, how they ended, and that the
reply was sent. This goes into the context before the next model call (law 6, never twice): otherwise the model would
call the same tools again. `DAMAGE_NOTICE` entries record which holes were reported on a branch.
"""

import msgspec

from wakelog.log.content import JsonObject, Reply, ToolResult
from wakelog.log.entry import Custom, Entry, Message, Sent, Spawned, ToolStarted
from wakelog.log.lines import Damage
from wakelog.log.tree import Branch, Tree

DAMAGE_NOTICE = "wakelog.damage"
"""The `customType` of the entry that reports damage to the model; its data names every hole."""


class LostTool(msgspec.Struct, frozen=True):
    """A tool call of an unreadable reply, as far as other entries describe it."""

    reply_id: str
    tool_call_id: str
    name: str = ""
    started: bool = False
    intent: JsonObject = {}
    result: ToolResult | None = None


class Losses(msgspec.Struct, frozen=True):
    """Holes of a branch that were not reported to the model yet, and the tools of lost replies."""

    holes: tuple[Damage, ...]
    tools: tuple[LostTool, ...] = ()
    delivered: tuple[str, ...] = ()
    """Ids of unreadable replies that were delivered."""

    @property
    def refs(self) -> tuple[str, ...]:
        """A string for each hole, `session@offset@digest`; the session is empty if it is this one."""
        return tuple(_ref(hole.session, hole.offset, hole.digest) for hole in self.holes)


def losses(tree: Tree, branch: Branch) -> Losses | None:
    """Return what the branch has lost since its last compaction and not reported yet; None if there is nothing."""
    if not branch.holes:
        return None
    reported = _reported_refs(branch)
    unknown = (hole for hole in branch.holes if _ref(hole.session, hole.offset, hole.digest) not in reported)
    # Line numbers are known only if the log was read from its beginning; decisions must not depend on that.
    holes = tuple(msgspec.structs.replace(hole, line=0) for hole in unknown)
    if not holes:
        return None
    entries = tree.own_entries()
    return Losses(holes, _lost_tools(tree, entries), _delivered_lost_replies(tree, entries))


def notice_data(found: Losses) -> JsonObject:
    """Return the data of a notice entry: every hole, so that each is reported once."""
    return {
        "damage": [
            {
                **({"session": hole.session} if hole.session else {}),
                "offset": hole.offset,
                "bytes": hole.size,
                "digest": hole.digest,
                "kind": hole.kind,
            }
            for hole in found.holes
        ]
    }


def _reported_refs(branch: Branch) -> set[str]:
    """Return the refs of the holes that earlier notices of the branch name."""
    notices = [node.value for node in branch.nodes if isinstance(node.value, Custom)]
    return {ref for notice in notices if notice.custom_type == DAMAGE_NOTICE for ref in _refs_in(notice.data)}


def _refs_in(data: object) -> list[str]:
    """Return the refs in the data of a notice; data of another form is skipped."""
    listed = data.get("damage") if isinstance(data, dict) else None
    named = [hole for hole in listed if isinstance(hole, dict)] if isinstance(listed, list) else []
    return [_ref(hole.get("session", ""), hole.get("offset"), hole.get("digest")) for hole in named]


def _ref(session: object, offset: object, digest: object) -> str:
    return f"{session}@{offset}@{digest}"


def _is_lost_reply(tree: Tree, reply_id: str | None) -> bool:
    """Whether an id names an unreadable reply."""
    node = tree.nodes.get(reply_id) if reply_id is not None else None
    is_reply = node is not None and isinstance(node.value, Message) and isinstance(node.value.message, Reply)
    return reply_id is not None and not is_reply


def _lost_tools(tree: Tree, entries: list[Entry]) -> tuple[LostTool, ...]:
    found: dict[tuple[str, str], LostTool] = {}
    for entry in entries:
        match entry.value:
            case ToolStarted(reply_id=reply_id, tool_call_id=call_id, name=name, intent=intent):
                tool = LostTool(reply_id, call_id, name, started=True, intent=intent)
            case Spawned(reply_id=reply_id, tool_call_id=call_id):
                tool = LostTool(reply_id, call_id, "subagent", started=True)
            case Message(
                message=ToolResult(reply_id=str() as reply_id, tool_call_id=call_id, tool_name=name) as result
            ):
                before = found.get((reply_id, call_id), LostTool(reply_id, call_id, name))
                tool = msgspec.structs.replace(before, result=result)
            case _:
                continue
        if _is_lost_reply(tree, reply_id):
            found[reply_id, call_id] = tool
    return tuple(found.values())


def _delivered_lost_replies(tree: Tree, entries: list[Entry]) -> tuple[str, ...]:
    values = (entry.value for entry in entries)
    named = [value.reply_id for value in values if isinstance(value, Sent) and value.interrupted is None]
    return tuple(dict.fromkeys(reply_id for reply_id in named if _is_lost_reply(tree, reply_id)))
