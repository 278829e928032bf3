"""An agent as it is configured: a model, instructions, tools, agreements. Only the next `context` entry knows it.

Rule 1 (law 2): what is in force stands in the log. An agent is written into a session when a run begins, if it
says anything new; from then on nobody looks at it, and a turn ends as it would have, whatever becomes of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wakelog.decide.policy import HookTerms, Policy, check_policy, policy_written
from wakelog.decide.reasoning import check_reasoning
from wakelog.errors import Conflict, LeaseLost, UsageError
from wakelog.instructions import instructed
from wakelog.log.codec import canonical
from wakelog.log.content import BlobRef, Prompt, Text
from wakelog.log.entry import ContextRecord, Entry, ModelChange, Queued
from wakelog.ports import Channel, Hook, Store, Tool
from wakelog.projections.state import branch_state
from wakelog.projects import git_branch
from wakelog.providers import needs_reasoning_back, split_model
from wakelog.redaction.entries import cleared
from wakelog.redaction.redactor import redact_value
from wakelog.runtime.checks import check_askable, check_custody, check_store_custody
from wakelog.runtime.live import live_world
from wakelog.runtime.wake import Report, ref_of, wake
from wakelog.session import Session
from wakelog.tools import as_tools
from wakelog.tools.mcp import McpTool
from wakelog.tools.subagent import SubAgentTool

ABSENT = "absentServers"
"""Where an environment names the servers of a session that could not be asked for their tools yet."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """What answers. `model` is `PROVIDER:NAME`."""

    model: str
    name: str = "agent"
    system: str = ""
    tools: tuple[Tool, ...] = ()
    params: Mapping[str, Any] = {}
    policy: Policy = Policy()
    hooks: tuple[Hook, ...] = ()
    """Asked before each run, behind those that the policy names."""
    absent: tuple[Mapping[str, Any], ...] = ()
    """Servers that it has and that could not be asked for their tools, as values: the log remembers them."""

    def __post_init__(self) -> None:
        """Plain functions become tools that are never run twice."""
        msgspec.structs.force_setattr(self, "tools", as_tools(self.tools))

    def begin(self, store: Store, *, sender: str = "user", cwd: str = "", title: str | None = None) -> Session:
        """A new session of this agent."""
        self._check()
        provider, model = split_model(self.model)
        session = Session.create(
            store,
            agent=self.name,
            sender=sender,
            cwd=cwd,
            title=title,
            model=model,
            provider=provider,
            redact=self.policy.redact,
        )
        self.enter(session)
        return session

    def enter(self, session: Session) -> Entry | None:
        """Writes into a session what is new in this agent; gives the entry, if there was anything new."""
        self._check()
        state = branch_state(session.branch())
        provider, model = split_model(self.model)
        if (state.said_provider, state.said_model) != (provider, model):
            session.append(ModelChange(model=model, provider=provider))
        record = self._record(session)
        return session.append(record) if state.context is None or not _same(state.context, record) else None

    def _check(self) -> None:
        """`UsageError` for agreements that could not be kept to."""
        check_policy(self.policy)
        check_model_policy(*split_model(self.model), self.policy, self.params)

    def _record(self, session: Session) -> ContextRecord:
        cwd = session.tree.card.cwd
        system, sources = instructed(session.store.blobs, cwd, self.system, self.policy)
        record = ContextRecord(
            sources=sources,
            environment=self._environment(cwd),
            system=system,
            tools=tools_told(session.store, self.tools, redacts=self.policy.redacts),
            params=dict(self.params),
            policy=policy_written(self._agreed),
        )
        # Redacted here as well, so that what is in the log is not taken for something else and written again.
        return cleared(record, rule=self.policy.redact)

    def _environment(self, cwd: str) -> dict[str, Any]:
        """Where the agent finds itself. Tools run as whoever started this, with nothing around them."""
        return {
            "cwd": cwd,
            "git": git_branch(cwd) if cwd else "",
            "approvalPolicy": self.policy.approval,
            "sandboxPolicy": "none",
            "network": "allowed",
            **absence(self.absent, redacts=self.policy.redacts),
        }

    @property
    def _agreed(self) -> Policy:
        """The policy, with this agent's own hooks."""
        named = {terms.name for terms in self.policy.hooks}
        own = tuple(HookTerms(name=hook.name) for hook in self.hooks if hook.name not in named)
        return msgspec.structs.replace(self.policy, hooks=self.policy.hooks + own)

    async def run(
        self,
        store: Store,
        prompt: str,
        *,
        session: Session | str | None = None,
        channels: Sequence[Channel] = (),
        cwd: str = "",
    ) -> Report:
        """Says something to this agent, in a new session or one it goes on with, and lets it answer.

        `UsageError` if its model cannot be asked, `Untrusted` if other users own or may write to the store or the
        session; nothing is written then, unless another worker runs the session: the message then waits for that one.
        """
        _check_said(store, prompt)
        known = None if session is None else Session(store, ref_of(session))
        world = live_world(store, tools=self.tools, channels=channels, hooks=self.hooks)
        if known is None or store.held(known.name) is None:
            check_policy(self.policy)
            if known is not None:
                check_custody(known)
            else:
                check_store_custody(store)
            check_askable(world.provider, *split_model(self.model), self.params)
        opened = known or self.begin(store, cwd=cwd)
        if known is not None:
            self.enter(opened)
        said = opened.say(Prompt(content=(Text(text=prompt),), channel=channels[0].name if channels else None))
        try:
            return await wake(world, opened.name)
        except LeaseLost:
            raise
        except Conflict as error:
            if not isinstance(said.value, Queued):
                raise
            hint = "whoever runs the session answers it: do not say it again"
            raise Conflict(f"{error.message}; what was said waits in its queue", hint=hint) from None


def _check_said(store: object, prompt: object) -> None:
    """`UsageError` for the mistakes that would otherwise be found when a session has been written."""
    if isinstance(store, str):
        raise UsageError("run takes an open store, not its name", hint=f"pass open_store({store!r})")
    if not isinstance(prompt, str):
        what = f"run takes the prompt as a string, not {type(prompt).__name__}"
        raise UsageError(what, hint="pass its text; `session.say(Prompt(…))` and `wake` take other content")


def check_model_policy(provider: str, model: str, policy: Policy, params: Mapping[str, Any]) -> None:
    """`UsageError` where a model cannot be asked as the policy says."""
    if policy.reasoning != "keep":
        needs_back = needs_reasoning_back(provider, model)
        check_reasoning(provider, needs_back=needs_back, reasoning=policy.reasoning, params=params)


def tools_told(store: Store, tools: Sequence[Tool], *, redacts: bool = True) -> BlobRef | None:
    """The tools as the model is told of them, in the order given. What a server says of its own may hold anything.

    Programs read it again, so keys are taken out of it and assignments are not: an example in a schema stays as it is.
    """
    if not tools:
        return None
    declared: Any = [told(tool) for tool in tools]
    if redacts:
        declared, _ = redact_value(declared, "keys")
    return store.blobs.put(canonical(declared), "application/json")


def absence(servers: Sequence[Mapping[str, Any]], *, redacts: bool = True) -> dict[str, Any]:
    """What an environment says of servers that are not there; nothing, where all are."""
    values: Any = [dict(server) for server in servers]
    return {ABSENT: redact_value(values, "keys")[0] if redacts else values} if values else {}


def told(tool: Tool) -> Mapping[str, Any]:
    """One tool as the model and the log are told of it, with whatever else whoever wakes must know."""
    if isinstance(tool, McpTool | SubAgentTool):
        return tool.declared()
    return {"name": tool.name, "description": tool.description, "schema": tool.schema, "replay": tool.replay}


def _same(one: ContextRecord, other: ContextRecord) -> bool:
    return canonical(one.bare) == canonical(other.bare)
