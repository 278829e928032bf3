"""What was agreed before a turn began: bounds, approvals, and what to do when nobody knows.

A policy stands in the log, in the `context` entry in force, so that whoever wakes the session ends the
turn as it would have ended. Every bound has an outcome that is written down: a turn that meets one ends in
a `failed` entry, a call in a result, a message in a refusal; nothing goes on for ever and nothing stops
without a word.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from wakelog.errors import Damaged, UsageError
from wakelog.log.content import JsonObject, Usage, Value
from wakelog.log.entry import RULES, ContextRecord
from wakelog.redaction.shapes import Redact

Approval: TypeAlias = Literal["auto", "ask", "deny"]
Reasoning: TypeAlias = Literal["keep", "summary", "drop"]

RETRY_FIRST_MS = 1_000
RETRY_LONGEST_MS = 60_000
ASKED_LONGEST_MS = 3_600_000
SENDS_MAX = 3
"""How often one worker tries to send a reply to a channel that raises; then the reply stays undelivered."""
QUEUE_MAX = 100
"""How many messages may wait in one session; one more is refused to whoever says it."""


class HookTerms(Value, frozen=True, kw_only=True):
    """A hook that is agreed on: its name, and what it must know to be made anew anywhere."""

    name: str
    options: JsonObject = {}


class Price(Value, frozen=True, kw_only=True):
    """What a model costs, in millionths of a dollar for a million tokens of each kind."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def of(self, usage: Usage) -> Usage:
        """What was used, with its cost, rounded to the nearest millionth; a cost that is known already stays."""
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
    """The agreements of one agent. A program's own tools run unless it says otherwise; the command line asks."""

    steps_max: int = 200
    """How many replies one turn may take; then it fails with the reason `steps`."""
    faults_max: int = 5
    """How many calls may fail in a row, without a word gained, before the turn fails with the reason `faults`."""
    attempts_max: int = 3
    """How often a safe tool is begun for one call; then the call is settled as an error."""
    unknown: Literal["tell", "ask"] = "tell"
    """A tool that may or may not have run: tell the model so, or ask a person first."""
    cut: Literal["replace", "resume"] = "replace"
    """A reply that was cut off: begin again, or go on from where it was. Resume only where the provider can."""
    approval: Approval = "auto"
    """Whether tools run without asking, for tools that `approvals` does not name."""
    approvals: dict[str, Approval] = {}
    """The same by the tool's name."""
    strategy: str = "full"
    """How much of the branch the model sees: full, window:N or budget:TOKENS."""
    compact_at: int = 0
    """How many tokens a context may have before it is folded; 0: never."""
    keep: int = 4_000
    """How many tokens of the newest messages a fold keeps word for word."""
    clip: int = 16_384
    """How many bytes of a tool's output stand in the log; the whole of it is a blob."""
    children: int = 3
    """How deep sub-agents may call sub-agents."""
    hooks: tuple[HookTerms, ...] = ()
    """Who is asked before a run for what the model should see in that run only, in this order."""
    instructions: bool = False
    """Whether AGENTS.md files are read when a run begins: the user's own, and those of the folder it works in."""
    redact: Redact = "assignments"
    """Which secrets are removed before anything is written or displayed, see `wakelog.redaction`."""
    reasoning: Reasoning = "keep"
    """What of a model's reasoning is written and shown: all, summaries that the provider makes, or nothing."""
    price: Price | None = None
    """What the model costs; without it, what was spent is counted in tokens alone."""

    def __post_init__(self) -> None:
        """Whether to redact was a boolean before there was a second rule."""
        msgspec.structs.force_setattr(self, "redact", redact_word(self.redact))

    @property
    def redacts(self) -> bool:
        """Whether any secrets are taken out."""
        return self.redact != "off"

    def approval_of(self, tool: str) -> Approval:
        """What is agreed about one tool."""
        return self.approvals.get(tool, self.approval)


def redact_word(value: Any) -> Any:
    """The setting `redact` as one of its words; anything that is no boolean is left as it is."""
    return {True: "keys", False: "off"}[value] if isinstance(value, bool) else value


def policy_in_force(record: ContextRecord | None, rules: int = RULES) -> Policy:
    """The policy that the log says; the defaults where it says none."""
    said = record.policy if record is not None else {}
    # Workers under rules 1 knew the shapes of keys alone; what a later one said of it is a word.
    redact = redact_word(said.get("redact", "assignments" if rules >= 2 else "keys"))
    if record is None:
        return Policy(redact=redact)
    try:
        # Logs that do not say whether instruction files are read say it by having read some.
        return msgspec.convert({"instructions": bool(record.sources), **said, "redact": redact}, Policy)
    except msgspec.ValidationError as error:
        raise Damaged(f"the policy in force cannot be read: {error}", hint="see the last `context` entry") from None


def check_policy(policy: Policy) -> None:
    """`UsageError` for a policy that nobody could go by: it would stand in a log for ever."""
    fields = {field.encode_name: getattr(policy, field.name) for field in msgspec.structs.fields(Policy)}
    try:
        msgspec.convert(policy_written(policy), Policy)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(f"this is no policy: {error}", hint="see wakelog.decide.policy.Policy") from None
    negative = [name for name, value in fields.items() if isinstance(value, int) and value < 0]
    if negative:
        raise UsageError(f"{negative[0]} cannot be below 0", hint="see wakelog.decide.policy.Policy")


def policy_written(policy: Policy) -> JsonObject:
    """A policy as it stands in a `context` entry: whole, so that a later default changes nothing."""
    fields = msgspec.structs.fields(Policy)
    return {field.encode_name: msgspec.to_builtins(getattr(policy, field.name)) for field in fields}


def retry_delay_ms(entry_id: str, faults: int, asked_ms: int | None) -> int:
    """How long to wait after a fault: what the provider asked for, else ever longer, spread by the fault's id."""
    if asked_ms is not None:
        return max(0, min(asked_ms, ASKED_LONGEST_MS))
    longest = min(RETRY_LONGEST_MS, RETRY_FIRST_MS << min(max(0, faults - 1), 16))
    return longest - sum(entry_id.encode()) % (longest // 4)
