"""Agent: a model with instructions, tools and a policy, written into sessions as `context` entries.

Law 2: the log is the only state; settings in force are read from it. When a run begins, the agent is written into the
session if it differs from the settings in force. After that the `Agent` object is not consulted: a turn ends the same
way whatever happens to the configuration.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from wakelog.app.agent_run import AnswerQuestion, RunEvent, RunResult, run_events
from wakelog.arguments import check_mapping, check_objects, checked_text, session_ref
from wakelog.decide.policy import HookSettings, Policy, check_policy
from wakelog.errors import Conflict, LeaseLost, UsageError
from wakelog.log.codec import canonical_json
from wakelog.log.entry import ContextEntry, Entry, ModelChange, Queued
from wakelog.ports.runtime import Channel, Hook, OpenProvider, Provider, Tool
from wakelog.ports.stores import Store
from wakelog.projections.branch_state import branch_state
from wakelog.prompts import PromptContent, prompt_from
from wakelog.providers import needs_reasoning_back, open_provider, split_model
from wakelog.redaction.entries import redact_entry
from wakelog.runtime.checks import check_files, check_provider, check_store_files
from wakelog.runtime.context_entry import (
    ModelInForce,
    absent_servers_item,
    build_context_entry,
    store_declarations,
    tool_declaration,
    with_environment,
)
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.model_request import check_reasoning
from wakelog.runtime.tool_declarations import approvals_error
from wakelog.session import Session
from wakelog.tools.function_tool import as_tools


class Agent(msgspec.Struct, frozen=True):
    """Configuration of an agent. `model` is `PROVIDER:NAME`; plain functions are accepted as tools.

    Tools, hooks, channels and a provider are named here once. They cannot be stored in a log, so a process that wakes a
    session of this agent needs the same ones.
    """

    model: str
    name: str = "agent"
    system: str = ""
    tools: Sequence[Tool | Callable[..., Any]] = ()
    params: Mapping[str, Any] = {}
    policy: Policy = Policy()
    hooks: tuple[Hook, ...] = ()
    """Run before each run, after the hooks named in the policy."""
    absent: tuple[Mapping[str, Any], ...] = ()
    """MCP servers whose tools could not be listed, as plain values; they are recorded in the log."""
    channels: tuple[Channel, ...] = ()
    """Where replies are delivered: each reply goes to all of them."""
    provider: Provider | OpenProvider = open_provider
    """A provider of your own, which gets the name in `model`; or a function that opens one by its name and model."""

    def __post_init__(self) -> None:
        """Convert plain functions to tools with replay `never`; `UsageError` for a value of a wrong type."""
        msgspec.structs.force_setattr(self, "tools", as_tools(self.tools))
        checked_text("the system prompt", self.system)
        check_mapping("params", self.params)
        check_objects("hooks", self.hooks, ("name", "before_run"))
        check_objects("channels", self.channels, ("name", "begin", "delta", "reset", "end"))
        if not callable(self.provider) and not hasattr(self.provider, "stream"):
            what = f"a provider has a method stream, or is a function that opens one, unlike {self.provider!r}"
            raise UsageError(what, hint="see wakelog.Provider, or leave it out for the providers of wakelog")

    def begin(self, store: Store, *, sender: str = "user", cwd: str = "", title: str | None = None) -> Session:
        """Create a new session of this agent."""
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
        """Write the agent's changed settings into a session; return the `context` entry, or None if nothing changed."""
        self._check()
        state = branch_state(session.branch())
        provider, model = split_model(self.model)
        if (state.set_provider, state.set_model) != (provider, model):
            session.append(ModelChange(model=model, provider=provider))
        context = self._context_entry(session)
        return session.append(context) if state.context is None or not _is_same_entry(state.context, context) else None

    def _check(self) -> None:
        """Raise `UsageError` for a policy that cannot be applied."""
        check_policy(self.policy)
        error = approvals_error(self.policy, [*map(tool_declaration, as_tools(self.tools))], self.absent)
        if error is not None:
            raise error
        check_model_policy(*split_model(self.model), self.policy, self.params)

    def _context_entry(self, session: Session) -> ContextEntry:
        cwd = session.tree.header.cwd
        context = build_context_entry(
            session.store.blobs,
            cwd=cwd,
            system=self.system,
            tools=store_declarations(
                session.store, as_tools(self.tools), session.known_secrets, redacts=self.policy.redacts
            ),
            params=self.params,
            policy=self._policy_with_hooks,
            known=session.known_secrets,
        )
        absent = absent_servers_item(self.absent, redacts=self.policy.redacts)
        model = ModelInForce.of(_as_opener(self.provider), *split_model(self.model))
        context = with_environment(msgspec.structs.replace(context, environment=absent), cwd=cwd, model=model)
        # Redacted before the comparison with the log, so that an unchanged entry is not written again.
        return redact_entry(context, self.policy.redact, session.known_secrets)

    @property
    def _policy_with_hooks(self) -> Policy:
        """The policy, with the names of this agent's own hooks added."""
        named = {settings.name for settings in self.policy.hooks}
        own = tuple(HookSettings(name=hook.name) for hook in self.hooks if hook.name not in named)
        return msgspec.structs.replace(self.policy, hooks=self.policy.hooks + own)

    def runtime(self, store: Store, channels: Sequence[Channel] | None = None) -> LiveRuntime:
        """Return a runtime with the tools, hooks, channels and provider of this agent."""
        given = self.channels if channels is None else tuple(channels)
        return LiveRuntime(
            store, tools=self.tools, channels=given, hooks=self.hooks, provider=_as_opener(self.provider)
        )

    async def stream(
        self,
        store: Store,
        prompt: PromptContent | None = None,
        *,
        session: Session | str | None = None,
        channels: Sequence[Channel] | None = None,
        cwd: str = "",
        sender: str = "user",
        on_question: AnswerQuestion | None = None,
    ) -> AsyncGenerator[RunEvent, None]:
        """Do what `run` does, and yield what happens meanwhile; the last event is the `RunResult`.

        Events: `TextDelta` and `ThinkingDelta` as the model writes them, `Restarted` if they are void, `ToolStarted`,
        `ToolFinished`, and `Question` if a person has to decide: answer it before you ask for the next event, or later.
        Without a prompt, an existing session is continued as by `wake`. Closing the generator stops the run as a crash
        would; the next run continues it.
        """
        _check_store(store)
        runtime = self.runtime(store, channels)
        known = None if session is None else Session(store, session_ref(session))
        if prompt is None:
            opened, is_queued = _continued(known), False
        else:
            opened, entry = self._say(store, runtime, known, prompt, cwd=cwd, sender=sender)
            is_queued = isinstance(entry.value, Queued)
        try:
            async with contextlib.aclosing(run_events(runtime, opened, on_question)) as events:
                async for event in events:
                    yield event
        except LeaseLost:
            raise
        except Conflict as error:
            if not is_queued:
                raise
            hint = "the process that runs the session will answer it: do not send it again"
            raise Conflict(f"{error.message}; the message waits in its queue", hint=hint) from None

    def _say(
        self, store: Store, runtime: LiveRuntime, known: Session | None, prompt: PromptContent, *, cwd: str, sender: str
    ) -> tuple[Session, Entry]:
        """Check that the prompt can be answered, append it to a known or a new session, and return both."""
        # A prompt that names no channel is answered on all of them.
        names = [*runtime.channels]
        content = prompt_from(prompt, channel=names[0] if len(names) == 1 else None)
        if known is None or store.held(known.name) is None:
            check_policy(self.policy)
            if known is not None:
                check_files(known)
            else:
                check_store_files(store)
            check_provider(runtime.open_provider, *split_model(self.model), self.params)
        opened = known or self.begin(store, sender=sender, cwd=cwd)
        if known is not None:
            self.enter(opened)
        return opened, opened.say(content)

    async def run(
        self,
        store: Store,
        prompt: PromptContent | None = None,
        *,
        session: Session | str | None = None,
        channels: Sequence[Channel] | None = None,
        cwd: str = "",
        sender: str = "user",
        on_question: AnswerQuestion | None = None,
    ) -> RunResult:
        """Send a prompt to this agent, in a new or existing session, and run it until it is idle or waits.

        The prompt is text, parts, or files (`pathlib.Path`); without one, the session is continued as by `wake`.
        `sender` is that of a new session. `on_question` is called
        with each `Question` to a person and returns one of its choices, True to approve, False to deny, or None to
        leave it open. `UsageError` if the model cannot be called, `Untrusted` if other users own or may write to the
        store or the session; nothing is written in both cases. While another worker runs the session, these checks are
        skipped, the message is queued for that worker, and `Conflict` is raised.
        """
        events = self.stream(
            store, prompt, session=session, channels=channels, cwd=cwd, sender=sender, on_question=on_question
        )
        return await _last(events)

    async def wake(
        self,
        store: Store,
        session: Session | str,
        *,
        on_question: AnswerQuestion | None = None,
        steps: int | None = None,
    ) -> RunResult:
        """Continue a session of this agent from its last state, crashed or not, until it is idle or waits.

        With `steps` it ends after that many steps. A step keeps nothing in memory: any process may take the next one.
        """
        _check_store(store)
        opened = Session(store, session_ref(session))
        return await _last(run_events(self.runtime(store), opened, on_question, steps=steps))

    def run_sync(
        self,
        store: Store,
        prompt: PromptContent | None = None,
        *,
        session: Session | str | None = None,
        cwd: str = "",
        sender: str = "user",
        on_question: AnswerQuestion | None = None,
    ) -> RunResult:
        """Do what `run` does, for programs without an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            run = self.run(store, prompt, session=session, cwd=cwd, sender=sender, on_question=on_question)
            return asyncio.run(run)
        raise UsageError("run_sync cannot be used inside an event loop", hint="use `await agent.run(…)`")


async def _last(events: AsyncGenerator[RunEvent, None]) -> RunResult:
    """Return the result of a run, without its other events."""
    async with contextlib.aclosing(events):
        async for event in events:
            if isinstance(event, RunResult):
                return event
    raise AssertionError("a run without an error ends in its result")


def _continued(session: Session | None) -> Session:
    if session is None:
        raise UsageError("there is no prompt and no session", hint="pass a prompt, a session, or both")
    return session


def _as_opener(provider: Any) -> OpenProvider:
    """Return a function that opens a provider; for a provider itself, one that returns it for every model."""
    return (lambda _name, _model: provider) if hasattr(provider, "stream") else cast("OpenProvider", provider)


def _check_store(store: object) -> None:
    """Raise `UsageError` for a store that is not open, before anything is written."""
    if isinstance(store, str):
        raise UsageError("run takes an open store, not its name", hint=f"pass open_store({store!r})")


def check_model_policy(provider: str, model: str, policy: Policy, params: Mapping[str, Any]) -> None:
    """Raise `UsageError` if the model does not support the policy's `reasoning` value."""
    if policy.reasoning != "keep":
        needs_back = needs_reasoning_back(provider, model)
        check_reasoning(provider, needs_back=needs_back, reasoning=policy.reasoning, params=params)


def _is_same_entry(one: ContextEntry, other: ContextEntry) -> bool:
    return canonical_json(one.without_envelope) == canonical_json(other.without_envelope)
