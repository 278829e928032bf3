"""The settings that a project's file may make while the user has not trusted its folder. Pure.

Such a file comes with a repository of unknown origin. It may describe agents and restrict them. It may not start a
program, choose where data is sent or stored, access a secret, let a tool run without approval, or undo what the user's
file forbids. Settings that are not allowed are left out, and a one-line notice lists them.
"""

import os
from collections.abc import Callable, Container, Mapping, Sequence

from wakelog.config.agent_plan import agent_policy
from wakelog.config.schema import AgentConfig, Notice, Setting, SettingsByPath, Source, build_config, settings_by_agent
from wakelog.config.validation import TOOL_NAMES, dotted, quoted, shortened
from wakelog.decide.policy import Approval, Policy, ReasoningMode, RedactMode, redact_mode

_STRICTNESS: Mapping[Approval, int] = {"auto": 0, "ask": 1, "deny": 2}
# How much of a model's reasoning is recorded.
_REASONING_LEVEL: Mapping[ReasoningMode, int] = {"drop": 0, "summary": 1, "keep": 2}
# How many kinds of secrets are redacted.
_REDACTION_LEVEL: Mapping[RedactMode, int] = {"off": 0, "keys": 1, "assignments": 2, "strict": 3}
_KEYS_SHOWN = 5


class EarlierSettings:
    """The settings in force before a file: of the user's file, and of outer project files as far as allowed."""

    def __init__(self, settings: SettingsByPath, untrusted: Container[str] = ()) -> None:
        self._by_agent = settings_by_agent(settings)
        self.redact: RedactMode = redact_mode(build_config(settings).redact)
        self._agents: dict[str, tuple[AgentConfig, Policy]] = {}
        self.has_trusted_agents = any(
            path[0] in ("agent", "agents") and setting.place.name not in untrusted for path, setting in settings.items()
        )
        """Whether a trusted source has configured any agent."""

    def agent(self, name: str) -> tuple[AgentConfig, Policy]:
        """Return an agent as configured before, and its policy."""
        if name not in self._agents:
            agent = build_config(self._by_agent.get(name, {})).agents.get(name, AgentConfig())
            self._agents[name] = agent, agent_policy(agent)
        return self._agents[name]


def is_allowed(
    setting: Setting, before: EarlierSettings, root: str, real: Callable[[str], str] = os.path.normpath
) -> bool:
    """Return whether an untrusted file may make this setting on top of the earlier ones. `real` resolves symlinks."""
    value = setting.value
    match setting.path:
        case ("mcp" | "providers" | "trust", *_) | ("store" | "trusted_owners",) | ("agents", _, "extra", *_):
            return False
        case ("redact",):
            return _REDACTION_LEVEL[redact_mode(value)] >= _REDACTION_LEVEL[before.redact]
        case ("model",) | ("agents", _, "model"):
            # The project controls the replies of a scripted model, tool calls included.
            return not value.startswith("scripted:")
        case ("agent",):
            # Another agent than the user's may have more permissions, whichever file describes it.
            return not before.has_trusted_agents
        case ("agents", name, *rest):
            if rest == ["system_file"]:
                return value.startswith("/") and is_inside(real(value), root)
            return _is_allowed_for_agent(rest, value, *before.agent(name))
    return True


def _is_allowed_for_agent(rest: Sequence[str], value: object, before: AgentConfig, policy: Policy) -> bool:
    """Return whether a setting of an agent is allowed: it must not permit more than before."""
    match rest, value:
        case ["approval"], ("auto" | "ask" | "deny") as word:
            return _is_stricter(word, before.approval)
        case ["approvals", tool], ("auto" | "ask" | "deny") as word:
            return _is_stricter(word, policy.approval_of(tool))
        case ["tools"], list(names):
            return set(names) <= set(TOOL_NAMES if before.tools is None else before.tools)
        case ["mcp"], list(names):
            return set(names) <= set(before.mcp)
        case ["hooks", _], enabled:
            return enabled is False
        case ["instructions"], enabled:
            return enabled is False or before.instructions
        case ["unknown"], word:
            return word == "ask" or before.unknown == "tell"
        case ["reasoning"], ("keep" | "summary" | "drop") as word:
            return _REASONING_LEVEL[word] <= _REASONING_LEVEL[before.reasoning]
    return True


def _is_stricter(word: Approval, before: Approval) -> bool:
    return _STRICTNESS[word] >= _STRICTNESS[before]


def is_inside(path: str, root: str) -> bool:
    """Return whether an absolute path is inside a folder."""
    return os.path.commonpath((path, root)) == root


def untrusted_notice(source: Source, held: Sequence[Setting], user_file: str) -> Notice:
    """Return a one-line notice about the settings of a file that were left out."""
    shown = [f"{shortened(dotted(each.path))} (line {each.place.line})" for each in held if each.value != {}][
        :_KEYS_SHOWN
    ]
    more = sum(each.value != {} for each in held) - len(shown)
    others = f" and {more} more" if more > 0 else ""
    message = (
        f"{source.path} is not trusted; settings left out: {', '.join(shown) or 'an empty table'}{others}; "
        f"to apply them, add [trust] projects = [{quoted(source.root)}] to {user_file}"
    )
    return Notice(source.path, message, tuple(held))
