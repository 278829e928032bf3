"""Configuration schema: all keys with their types, the places of values, mistakes, and nesting of settings. Pure.

These structs are the only list of keys: parsing, checks, `wakelog config` and `docs/config.md` follow them. The type of
a key defines its valid values; the description in its `Meta` completes the sentence "KEY must be …".
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from wakelog.decide.policy import Approval, Price, ReasoningMode, RedactMode
from wakelog.decoding import convert
from wakelog.errors import UsageError

DEFAULT_AGENT = "agent"
HOOK_TIMEOUT_S = 10.0
_MICRO = 1_000_000
Path: TypeAlias = tuple[str, ...]
"""The path of a value: `("agents", "reviewer", "model")`."""
Text = Annotated[str, msgspec.Meta(description="text")]
NonEmptyText = Annotated[str, msgspec.Meta(min_length=1, description="text that is not empty")]
Model = Annotated[str, msgspec.Meta(pattern=r"\A(demo|[a-z][a-z-]*:\S.*)\Z", description="PROVIDER:NAME, or demo")]
Strategy = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A(full|(window|budget):[1-9][0-9]{0,8})\Z", description="full, window:MESSAGES or budget:TOKENS"
    ),
]
Boolean = Annotated[bool, msgspec.Meta(description="true or false")]
RedactSetting = Annotated[RedactMode | bool, msgspec.Meta(description="keys, assignments, strict or off")]
"""A boolean is the former form of the setting: true means `keys`, false means `off`."""
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53, description="a whole number, 0 or more")]
Positive = Annotated[int, msgspec.Meta(ge=1, lt=2**53, description="a whole number, 1 or more")]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=2, description="a number from 0 to 2")]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400, description="a number of seconds, more than 0")]
Dollars = Annotated[float, msgspec.Meta(ge=0, le=1_000_000, description="dollars per million tokens, 0 or more")]
Url = Annotated[
    str,
    msgspec.Meta(pattern=r"\Ahttps?://[^\s/@]+(/\S*)?\Z", description="a URL, http:// or https://, without a login"),
]
VariableName = Annotated[
    str, msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", description="the name of an environment variable")
]
Names = Annotated[tuple[str, ...], msgspec.Meta(description="a list of names")]
Owner = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A((uid:|gid:|group:)?[0-9]{1,10}|(group:)?[A-Za-z_][A-Za-z0-9_.@+-]{0,255}\$?)\Z",
        description="a user or a group",
    ),
]
Owners = Annotated[
    tuple[Owner, ...],
    msgspec.Meta(description='a list of users and groups, as ["ada", "uid:1000", "group:agents"]'),
]
Folders = Annotated[tuple[str, ...], msgspec.Meta(description="a list of folders")]
VariableNames = Annotated[tuple[VariableName, ...], msgspec.Meta(description="a list of variable names")]
Argument = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00]*\Z", description="text")]
CommandLine = Annotated[
    tuple[Argument, ...],
    msgspec.Meta(min_length=1, description='a program and its arguments, as ["program", "argument"]'),
]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file; its keys are the fields."""


class HookCommand(_Table, frozen=True, kw_only=True):
    """A user-defined hook: a program that is called before each run."""

    command: CommandLine
    timeout: Seconds = HOOK_TIMEOUT_S


HookSetting = Annotated[
    bool | tuple[Argument, ...] | HookCommand,
    msgspec.Meta(description="true, false, a program and its arguments, or a table of `command` and `timeout`"),
]


class AgentConfig(_Table, frozen=True, kw_only=True):
    """One agent. None means not configured: the provider's default applies, or there is no value."""

    description: Text | None = None
    """A line about the agent, for the other agents."""
    model: Model | None = None
    system: Text | None = None
    system_file: NonEmptyText | None = None
    tools: Names | None = None
    """The tools of the agent; None: all built-in tools."""
    approval: Approval = "ask"
    approvals: dict[str, Approval] = {}
    compact_at: Count = 0
    keep: Count = 4_000
    strategy: Strategy = "full"
    thinking: Literal["keep", "drop"] | None = None
    reasoning: ReasoningMode = "keep"
    media: Literal["send", "note"] | None = None
    effort: Literal["low", "medium", "high"] | None = None
    max_tokens: Positive | None = None
    temperature: Temperature | None = None
    extra: dict[str, Any] = {}
    unknown: Literal["tell", "ask"] = "tell"
    instructions: Boolean = True
    hooks: dict[str, HookSetting] = {}
    mcp: Names = ()


class McpConfig(_Table, frozen=True, kw_only=True):
    """An MCP server that provides tools to agents: a program, or a URL."""

    command: CommandLine | None = None
    url: Url | None = None
    env: VariableNames = ()
    bearer_env: VariableName | None = None
    cwd: NonEmptyText | None = None
    trusted: Boolean = False
    timeout: Seconds = 60.0


class ProviderConfig(_Table, frozen=True, kw_only=True):
    """The address of a provider and the source of its key; never the key itself."""

    base_url: Url | None = None
    key_env: VariableName | None = None
    key_command: CommandLine | None = None


class PriceConfig(_Table, frozen=True, kw_only=True):
    """The price of a model in dollars per million tokens."""

    input: Dollars = 0.0
    output: Dollars = 0.0
    cache_read: Dollars = 0.0
    cache_write: Dollars = 0.0

    @property
    def exact(self) -> Price:
        """The same price in millionths of a dollar, as whole numbers."""
        return Price(**{field: round(getattr(self, field) * _MICRO) for field in self.__struct_fields__})


class TrustConfig(_Table, frozen=True, kw_only=True):
    """The projects whose files may make every setting."""

    projects: Folders = ()


class Config(_Table, frozen=True, kw_only=True):
    """All configuration keys."""

    model: Model | None = None
    agent: NonEmptyText = DEFAULT_AGENT
    store: NonEmptyText | None = None
    redact: RedactSetting = "assignments"
    trusted_owners: Owners = ()
    """Users and groups, besides the user, whose files in a store may be run. In the user's file only."""
    agents: dict[str, AgentConfig] = {}
    mcp: dict[str, McpConfig] = {}
    providers: dict[str, ProviderConfig] = {}
    prices: dict[str, PriceConfig] = {}
    trust: TrustConfig = TrustConfig()


# ── places and mistakes ──────────────────────────────────────────────────────────────────────────


class Place(msgspec.Struct, frozen=True):
    """The place of a value. `line` 0: the file as a whole; not `exact`: the line of the enclosing table."""

    kind: Literal["default", "file", "variable", "option"] = "default"
    name: str = ""
    line: int = 0
    exact: bool = True

    def __str__(self) -> str:
        match self.kind:
            case "default":
                return "default"
            case "variable":
                return f"${self.name}"
            case "option":
                return self.name
        return f"{self.name}:{self.line}" if self.line else self.name


DEFAULT = Place()


class Setting(msgspec.Struct, frozen=True):
    """One configured value."""

    path: Path
    value: Any
    place: Place


class Mistake(msgspec.Struct, frozen=True):
    """An invalid setting: its place, what is wrong, and what to do."""

    place: Place
    message: str
    hint: str = ""
    column: int = 0
    path: Path = ()
    """The key it is about; empty: the file as a whole."""

    def __str__(self) -> str:
        column = f":{self.column}" if self.column else ""
        return f"{self.place}{column}: {'; '.join(filter(None, (self.message, self.hint)))}"


class Notice(msgspec.Struct, frozen=True):
    """The settings of a file that were left out because its folder is not trusted, with a one-line message."""

    file: str
    message: str
    held: tuple[Setting, ...] = ()


class Source(msgspec.Struct, frozen=True):
    """A configuration file. `root` is the folder of the project it belongs to."""

    path: str
    role: Literal["user", "project"]
    root: str = ""
    trusted: bool = True
    found: bool = True


class LoadedConfig(msgspec.Struct, frozen=True):
    """A merged configuration. Mistaken settings are left out of `config`; all others apply."""

    config: Config = Config()
    places: Mapping[Path, Place] = {}
    mistakes: tuple[Mistake, ...] = ()
    notices: tuple[Notice, ...] = ()
    sources: tuple[Source, ...] = ()

    def place_of(self, *path: str) -> Place:
        """Return the place of a value; `DEFAULT` if it is not configured."""
        return self.places.get(path, DEFAULT)

    def require_valid(self) -> Config:
        """Return the configuration; raise `UsageError` if there is a mistake, so that no agent runs on a part of it."""
        if not self.mistakes:
            return self.config
        first, more = self.mistakes[0], len(self.mistakes) - 1
        others = f"; {more} more: see `wakelog config check`" if more else ""
        raise UsageError(f"{first}{others}")


SettingsByPath = Mapping[Path, Setting]
"""The settings in force, by path."""


def nest_settings(settings: SettingsByPath) -> dict[str, Any]:
    """Return the nested tables that contain these settings."""
    nested: dict[str, Any] = {}
    for path, setting in settings.items():
        table = nested
        for key in path[:-1]:
            table = table.setdefault(key, {})
        if setting.value == {} and len(path) == 2:
            table.setdefault(path[-1], {})
        else:
            table[path[-1]] = setting.value
    return nested


def build_config(settings: SettingsByPath) -> Config:
    """Return the configuration. Each setting was already validated when it was read."""
    return convert(nest_settings(settings), Config)


def settings_by_agent(settings: SettingsByPath) -> dict[str, dict[Path, Setting]]:
    """Return the settings of each agent, by name."""
    by_agent: dict[str, dict[Path, Setting]] = {}
    for path, setting in settings.items():
        if path[0] == "agents":
            by_agent.setdefault(path[1], {})[path] = setting
    return by_agent
