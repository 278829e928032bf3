"""The settings in force at each node of a log, the turn that the node belongs to, and what changed between turns.

Settings are the model, the `context` entry (instructions, tools, parameters, policy, environment) and the run settings.
A log that does not record one of them, as most imported ones, leaves it unknown: None. Pure. Policies may have been
written by other programs, so values that are not understood are passed on as they are.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from wakelog.log.content import JsonObject, Note, Prompt, Reply, Value
from wakelog.log.entry import (
    Body,
    Cancelled,
    CarriedState,
    Compaction,
    ContextEntry,
    Entry,
    Failed,
    Message,
    ModelChange,
    SessionHeader,
    Setting,
)
from wakelog.projections.branch_state import IMPORTED_SETTING

_PROMPT_CHARS = 200


class SettingsInForce(msgspec.Struct, frozen=True):
    """The settings in force at one node. None is unknown: the log does not record it."""

    model: str | None = None
    provider: str | None = None
    context: ContextEntry | None = None
    settings: JsonObject = {}
    imported: bool = False
    """Whether the session was imported from another agent, whose settings are not recorded."""

    def after(self, value: Body) -> "SettingsInForce":
        """Return the settings after a node: these settings themselves if it changes none."""
        match value:
            case SessionHeader(model=model, provider=provider, settings=settings):
                imported = self.imported or IMPORTED_SETTING in settings
                own = {key: each for key, each in settings.items() if key != IMPORTED_SETTING}
                found = SettingsInForce(
                    model or self.model, provider or self.provider, self.context, {**self.settings, **own}, imported
                )
                return self if found == self else found
            case ModelChange(model=model, provider=provider):
                return msgspec.structs.replace(self, model=model, provider=provider or self.provider)
            case Setting(key=key, value=each):
                return msgspec.structs.replace(self, settings={**self.settings, key: each})
            case ContextEntry():
                return msgspec.structs.replace(self, context=value)
            case Compaction(state=CarriedState() as state):
                return self._carried(state)
        return self

    def _carried(self, state: CarriedState) -> "SettingsInForce":
        """Return the settings that a compaction carries, which differ only where an earlier line is lost."""
        own = {key: each for key, each in state.settings.items() if key != IMPORTED_SETTING}
        carried = SettingsInForce(state.model, state.provider, state.context, own, self.imported)
        return carried if setting_differences(self, carried) else self

    @property
    def policy(self) -> Mapping[str, Any]:
        """The policy as stored; empty if none is recorded."""
        return self.context.policy if self.context is not None else {}

    def approval_of(self, tool: str) -> str:
        """Return the approval setting of a tool: `auto`, `ask` or `deny`; empty if no policy is recorded."""
        if self.context is None:
            return ""
        by_tool = self.policy.get("approvals")
        named = by_tool.get(tool) if isinstance(by_tool, Mapping) else None
        found = named if named is not None else self.policy.get("approval", "auto")
        return found if isinstance(found, str) else ""


class SettingDifference(Value, frozen=True, kw_only=True):
    """A setting that differs between two turns; `what` is its name, such as `model` or `policy.approval`."""

    what: str
    before: Any = msgspec.field(default_factory=lambda: None)
    after: Any = msgspec.field(default_factory=lambda: None)


def setting_differences(before: SettingsInForce, after: SettingsInForce) -> tuple[SettingDifference, ...]:
    """Return every setting that differs, by name. Instructions and tools are compared by their digests."""
    one, two = dict(_flat(before)), dict(_flat(after))
    names = dict.fromkeys((*one, *two))
    return tuple(
        SettingDifference(what=name, before=one.get(name), after=two.get(name))
        for name in names
        if one.get(name) != two.get(name)
    )


def _flat(settings: SettingsInForce) -> Iterator[tuple[str, Any]]:
    """Yield every setting with its name."""
    yield from (("model", settings.model), ("provider", settings.provider))
    yield from ((f"settings.{key}", value) for key, value in settings.settings.items())
    context = settings.context
    if context is None:
        return
    yield "instructions", context.system and context.system.digest
    yield from ((f"sources.{source.path}", source.error or source.hash) for source in context.sources)
    yield "tools", context.tools and context.tools.digest
    for name, values in (("params", context.params), ("policy", context.policy), ("environment", context.environment)):
        yield from ((f"{name}.{key}", value) for key, value in values.items())


class Turn(msgspec.Struct):
    """A turn: its prompt, the settings in force when it was first answered, and those of the turn before it."""

    id: str
    seq: int
    timestamp: str
    prompt: str
    """The beginning of the prompt."""
    settings: SettingsInForce
    before: SettingsInForce | None = None
    """The settings that the turn before it was last under; None for the first turn."""
    ended: bool = False
    """Whether a reply or a failure has followed: settings that are changed later are not those of its first answer."""


class Place(msgspec.Struct, frozen=True):
    """A node's turn, the settings in force after it, and those that the last reply or failure before it was under."""

    turn: Turn | None = None
    settings: SettingsInForce = SettingsInForce()
    used: SettingsInForce | None = None

    def after(self, node: Entry) -> "Place":
        """Return the place of a node whose parent has this place: this place itself if the node changes nothing."""
        match node.value:
            case Message(message=Prompt() | Note() as message):
                return self._in_new_turn(node, message.text[:_PROMPT_CHARS])
            case Message(message=Reply()) | Failed() | Cancelled():
                return self._after_use()
        settings = self.settings.after(node.value)
        if settings is self.settings:
            return self
        if self.turn is not None and not self.turn.ended:
            self.turn.settings = settings
        return msgspec.structs.replace(self, settings=settings)

    def _in_new_turn(self, node: Entry, prompt: str) -> "Place":
        before = self.turn.settings if self.turn is not None and self.used is None else self.used
        turn = Turn(node.id, node.seq, node.value.timestamp, prompt, self.settings, before)
        return msgspec.structs.replace(self, turn=turn)

    def _after_use(self) -> "Place":
        if self.turn is not None:
            self.turn.ended = True
        return self if self.used is self.settings else msgspec.structs.replace(self, used=self.settings)
