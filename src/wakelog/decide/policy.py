"""The policy of an agent: limits, approvals, and the handling of unknown outcomes.

The policy is stored in the log, in the `context` entry in force, so a turn ends the same way whichever worker continues
it. Reaching a limit always has a recorded or reported outcome: a turn ends in a `failed` entry, a tool call in a
result, and a queued message is refused.
"""

from typing import Any, Literal, TypeAlias, get_args

import msgspec

from wakelog.decoding import convert
from wakelog.errors import Damaged, UsageError
from wakelog.log.content import JsonObject, Usage, Value
from wakelog.log.entry import ContextEntry

Approval: TypeAlias = Literal["auto", "ask", "deny"]
ReasoningMode: TypeAlias = Literal["keep", "summary", "drop"]
RedactMode: TypeAlias = Literal["keys", "assignments", "strict", "off"]
"""Which secrets are removed: those with the shape of a key; these and assigned values that look random; these and all
values in the place of a secret; none."""


SENDS_MAX = 3
"""Attempts by one worker to send a reply to a channel that raises; after these the reply stays undelivered."""
QUEUE_MAX = 100
"""Maximum number of queued messages in one session; a further message is refused with an error."""


class HookSettings(Value, frozen=True, kw_only=True):
    """A configured hook: its name, and the options from which any process can construct it."""

    name: str
    options: JsonObject = {}


class Price(Value, frozen=True, kw_only=True):
    """Price of a model, in millionths of a dollar per million tokens of each kind."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def add_cost(self, usage: Usage) -> Usage:
        """Return the usage with its cost, rounded to the nearest millionth of a dollar; a known cost is kept."""
        if usage.cost_micros is not None:
            return usage
        paid = (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * self.cache_read
            + usage.cache_write_tokens * self.cache_write
        )
        return msgspec.structs.replace(usage, cost_micros=(paid + 500_000) // 1_000_000)


class Policy(Value, frozen=True, kw_only=True):
    """The policy of one agent. By default tools run without approval; the command line has its own defaults."""

    steps_max: int = 200
    """Maximum number of replies in one turn; beyond it the turn fails with the reason `steps`."""
    faults_max: int = 5
    """Consecutive model calls that may fail before the turn fails with the reason `faults`, see `decide/retries.py`."""
    attempts_max: int = 3
    """How often a safe tool is started for one tool call; after that the result is an error."""
    unknown: Literal["tell", "ask"] = "tell"
    """A tool that may or may not have run: report that to the model, or ask a person first."""
    cut: Literal["replace", "resume"] = "replace"
    """An interrupted reply: start it again, or continue its text. Use resume only if the provider supports it."""
    approval: Approval = "auto"
    """Whether tools that `approvals` does not name run at once, after approval, or not at all."""
    approvals: dict[str, Approval] = {}
    """Approval by tool name."""
    strategy: str = "full"
    """Which part of the branch goes into the context: full, window:N or budget:TOKENS."""
    compact_at: int = 0
    """Context size in tokens above which the session is compacted; 0: never."""
    keep: int = 4_000
    """How many tokens of the newest messages a compaction keeps verbatim."""
    clip: int = 16_384
    """How many bytes of a tool's output are kept in the log; longer output is stored whole as a blob."""
    children: int = 3
    """Maximum nesting depth of sub-agents."""
    hooks: tuple[HookSettings, ...] = ()
    """Hooks that run, in this order, before a run; their text is in the context of that run only."""
    instructions: bool = False
    """Whether AGENTS.md files are read when a run begins: the user's, and those of the working folder."""
    redact: RedactMode = "assignments"
    """Which secrets are removed before anything is written or displayed, see `wakelog.redaction`."""
    reasoning: ReasoningMode = "keep"
    """Which of a model's reasoning is stored and displayed: all, summaries made by the provider, or none."""
    price: Price | None = None
    """Price of the model; without it, usage is counted in tokens only."""

    def __post_init__(self) -> None:
        """Convert a boolean `redact`, as older logs and callers have it, to its word."""
        msgspec.structs.force_setattr(self, "redact", redact_mode(self.redact))

    @property
    def redacts(self) -> bool:
        """Whether redaction is on."""
        return self.redact != "off"

    def approval_of(self, tool: str) -> Approval:
        """Return the approval setting of one tool."""
        return self.approvals.get(tool, self.approval)


def redact_mode(value: Any) -> Any:
    """Return the setting `redact` as one of its words; a value that is not a boolean is returned unchanged."""
    return {True: "keys", False: "off"}[value] if isinstance(value, bool) else value


def redact_mode_in_force(context: ContextEntry | None) -> RedactMode:
    """Return the setting `redact` of a `context` entry: the default without one, `strict` if it is unreadable."""
    stored = redact_mode((context.policy if context is not None else {}).get("redact", "assignments"))
    return stored if stored in get_args(RedactMode) else "strict"


def policy_in_force(context: ContextEntry | None) -> Policy:
    """Return the policy of a `context` entry, or the defaults without one. Raises `Damaged` if it is unreadable."""
    stored = context.policy if context is not None else {}
    redact = redact_mode(stored.get("redact", "assignments"))
    if context is None:
        return Policy(redact=redact)
    try:
        # Older policies lack `instructions`; recorded sources show that instruction files were read.
        return convert({"instructions": bool(context.sources), **stored, "redact": redact}, Policy)
    except msgspec.ValidationError as error:
        raise Damaged(f"the policy in force cannot be read: {error}", hint="see the last `context` entry") from None


def check_policy(policy: Policy) -> None:
    """Raise `UsageError` for an invalid policy, before it is written to a log for good."""
    if not isinstance(policy, Policy):
        raise UsageError(f"not a policy: {type(policy).__name__}", hint="pass Policy(…)")
    fields = {field.encode_name: getattr(policy, field.name) for field in msgspec.structs.fields(Policy)}
    try:
        convert(stored_policy(policy), Policy)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(f"not a valid policy: {error}", hint="see wakelog.decide.policy.Policy") from None
    negative = [name for name, value in fields.items() if isinstance(value, int) and value < 0]
    if negative:
        raise UsageError(f"{negative[0]} cannot be below 0", hint="see wakelog.decide.policy.Policy")


def stored_policy(policy: Policy) -> JsonObject:
    """Return a policy as stored in a `context` entry: with all fields, so that later defaults do not change it."""
    fields = msgspec.structs.fields(Policy)
    return {field.encode_name: msgspec.to_builtins(getattr(policy, field.name)) for field in fields}
