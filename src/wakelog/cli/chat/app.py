"""Chat controller: connects the view, the runner, the input and the slash commands of one chat.

Rule 1: every user action is an entry in the log, as if another process had made it.
Rule 2: only the session's name is kept between turns; all other state here is derived from the log, or is typed text
that was not sent yet.
"""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.app.event_loop import contact_no_servers, list_server_tools, run_in_daemon_thread
from wakelog.app.models import ModelChoice, check_model_choice, loads_slowly
from wakelog.app.settings import (
    ListTools,
    Overrides,
    apply_settings,
    begin_session,
    checked_model,
    model_for,
    servers_to_ask,
)
from wakelog.app.stores import StoreLocation
from wakelog.app.watch import TERMINAL_CHANNEL
from wakelog.cli.chat.commands import IgnoredLine, RunCommand, SendMessage, escape_message, parse_line, run_command
from wakelog.cli.chat.input import ChatCompleter, key_bindings
from wakelog.cli.chat.items import PendingMessage
from wakelog.cli.chat.live_area import StatusFigures
from wakelog.cli.chat.runner import LeaseCheck, LogChannel, SessionRunner
from wakelog.cli.chat.terminal import StderrRedirect
from wakelog.cli.chat.view import Activity, ChatView
from wakelog.cli.ui.errors import INTERRUPTED, NEEDS_ATTENTION
from wakelog.cli.ui.options import SharedOptions
from wakelog.cli.ui.run_settings import RunSettings
from wakelog.decide.wording import valid_utf8
from wakelog.errors import UsageError, WakelogError
from wakelog.log.content import Prompt, Text
from wakelog.session import Session

_REFRESH_S, _REFRESH_IDLE_S, _REFRESH_UNREACHABLE_S = 0.05, 0.2, 1.0
_SIGTERM_CODE = 128 + signal.SIGTERM


class ChatApp:
    """One chat: its settings, view, runner and background tasks."""

    def __init__(self, shared_options: SharedOptions, place: StoreLocation, options: RunSettings, cwd: str) -> None:
        self.shared_options, self.place, self.options = shared_options, place, options
        self.settings = options.overrides
        self.exit_hint = ""
        self._cwd = cwd
        self._interrupt_presses = 0
        self._runs_elsewhere = False
        self._lease_check = LeaseCheck()
        self._deferred_settings = Overrides()
        """The delayed settings that the user was already notified of."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loading: dict[str, asyncio.Future[None]] = {}
        self._connecting: asyncio.Task[None] | None = None
        self._tools_listed_for: set[str] = set()
        """The sessions whose MCP servers have already listed their tools."""
        self._ready_providers: set[str] = set()
        """The providers that are loaded and usable."""
        self.view = ChatView(shared_options.color, ChatCompleter(self), self._activity)
        self.view.screen.bind(key_bindings(self, self.view.screen.input))
        channel = LogChannel(self.view.catch_up, self.view.ensure_printed)
        self.runner = SessionRunner(place, channel, self.view.report_error, self._on_idle)

    @property
    def session(self) -> Session | None:
        """Return the session; None before the first message."""
        return self.view.session

    # ── main loop ────────────────────────────────────────────────────────────────────────────────

    async def run(self, session: Session | None, typeahead: str = "") -> int:
        """Run the chat until the user leaves; return the exit code.

        `session` is None for a new one. Keys in `typeahead` are processed when the chat is ready.
        """
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._exit, _SIGTERM_CODE)
        for work in (self.runner.run(), self._watch_session(session)):
            self._start_task(work)
        try:
            with contextlib.redirect_stderr(StderrRedirect(self.view.print_stderr_line)):
                return await self.view.screen.run(typeahead)
        finally:
            self.exit_hint = self._make_exit_hint()
            self.view.stop_watching()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start_task(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a background task that ends with the chat."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        """End the chat with the exception of a task that failed unexpectedly. The log is not affected."""
        self._tasks.discard(task)
        app = self.view.screen.app
        if not task.cancelled() and (error := task.exception()) is not None and app.is_running and not app.is_done:
            app.exit(exception=error)

    def _exit(self, code: int) -> None:
        app = self.view.screen.app
        if app.is_running and not app.is_done:
            app.exit(result=code)

    async def _watch_session(self, session: Session | None) -> None:
        """Open the session and watch it. Started after the terminal is set up, so that early keys are not misread."""
        if session is not None:
            self.open_session(session)
        else:
            self.detach()
        self.view.notice("/help lists commands and keys; Ctrl-D leaves")
        self.view.screen.feed_typeahead()
        while True:
            self._refresh()
            busy = self.is_busy
            if busy:
                self.view.screen.invalidate()
            await asyncio.sleep(
                _REFRESH_UNREACHABLE_S if self.view.is_store_unreachable else _REFRESH_S if busy else _REFRESH_IDLE_S
            )

    def _refresh(self) -> None:
        """Show what is new. Wake a session that another process has left, or that is reachable again."""
        was_blocked, name = (
            self._runs_elsewhere or self.view.is_store_unreachable,
            self.session.name if self.session is not None else "",
        )
        self.view.start_watching()
        has_news, is_unreachable = self.view.has_news, self.view.is_store_unreachable
        if not (has_news or is_unreachable or self._lease_check.is_due):
            return
        with self.view.report_read_errors():
            self.view.show_new() if is_unreachable else self.view.show_arrived()
            self._runs_elsewhere = bool(name) and self.runner.is_held_elsewhere(name)
            self._lease_check.done(is_held=self._runs_elsewhere, has_news=has_news)
        if was_blocked and name and not self._runs_elsewhere and not self.view.is_store_unreachable:
            self.runner.request_wake(name)

    def _on_idle(self) -> None:
        self._interrupt_presses = 0
        self._lease_check.request()
        self.view.catch_up()
        self.view.update_questions()
        self.view.screen.invalidate()

    def _activity(self) -> Activity:
        return Activity(self.is_busy, self._runs_elsewhere, self._interrupt_presses > 0)

    def _make_exit_hint(self) -> str:
        name = self.session.name if self.session is not None else ""
        if self.runner.busy:
            return f"left while the agent works; `wakelog wake {name}` continues it"
        if self.view.questions.unanswered:
            return f"{name} has an open question; answer it with `wakelog chat {name}` or `wakelog questions {name}`"
        return f"`wakelog chat {name}` continues this session"

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def open_session(self, session: Session) -> None:
        """Open a session: show its state, and wake it. A model that cannot be called here is reported."""
        self._interrupt_presses = 0
        self._lease_check.request()
        self.view.open(session)
        self.runner.request_wake(session.name)
        try:
            model = checked_model(self.settings, session)
        except UsageError as error:
            self.view.notice(f"{error.message}; /model PROVIDER:NAME chooses another model", "warn")
        else:
            self._start_task(self._preload_provider(model))

    def detach(self) -> None:
        """Leave the session: the next message begins a new one with the settings of the command line."""
        model = self.settings.model or self.options.overrides.model
        self.settings = msgspec.structs.replace(self.options.overrides, model=model)
        self.view.detach(StatusFigures(model=self.check_model(self.settings)))

    def check_model(self, settings: Overrides) -> str:
        """Return the model of a new session, and start loading its provider."""
        choice = checked_model(settings, cwd=self._cwd, agent=self.options.agent)
        self._start_task(self._preload_provider(choice))
        return choice.spelled

    def _model_for(self, settings: Overrides) -> ModelChoice:
        return model_for(settings, self.session, cwd=self._cwd, agent=self.options.agent)

    async def _preload_provider(self, model: ModelChoice) -> None:
        """Load a provider while the user types; a message that is sent earlier waits for it."""
        try:
            await self._prepare_provider(model)
        except WakelogError as error:
            # A waiting message reports the error itself.
            if self._connecting is None:
                self.view.report_error(error)

    async def _prepare_provider(self, model: ModelChoice) -> None:
        """Load a provider. Two tasks that wait for it share one load, so that a failure is reported once."""
        if self._is_provider_ready(model):
            return
        loading = self._loading.get(model.spelled)
        if loading is None:
            loading = asyncio.ensure_future(run_in_daemon_thread(lambda: check_model_choice(model)))
            self._loading[model.spelled] = loading
        try:
            await asyncio.shield(loading)
        finally:
            if loading.done():
                self._loading.pop(model.spelled, None)
        self._ready_providers.add(model.provider)

    def _is_provider_ready(self, model: ModelChoice) -> bool:
        return not loads_slowly(model.provider) or model.provider in self._ready_providers

    # ── user actions ─────────────────────────────────────────────────────────────────────────────

    def submit(self, text: str, *, steer: bool = False) -> None:
        """See `InputActions`."""
        self._interrupt_presses = 0
        parsed = parse_line(valid_utf8(text))
        try:
            match parsed:
                case SendMessage(text=message):
                    self.send(message, steer=steer)
                case RunCommand(name=name, argument=argument):
                    run_command(self, name, argument)
                case IgnoredLine(reason=reason) if reason:
                    self.view.notice(reason, "warn")
        except WakelogError as error:
            self.view.report_error(error)
            if isinstance(parsed, SendMessage) or (isinstance(parsed, RunCommand) and parsed.name == "steer"):
                # A message that could not be sent goes back to the input.
                self.view.screen.restore_input(text)

    def send(self, text: str, *, steer: bool) -> None:
        """Send a message to the session or to a new one.

        It waits until its model can be used and, for a new session, until its MCP servers have answered. Messages sent
        meanwhile wait behind it.
        """
        if self._connecting is not None:
            self.view.unsent.append(PendingMessage(text, steer))
            self.view.screen.invalidate()
            return
        settings = self._settings_to_write
        model = self._model_for(settings)
        servers = self._servers_to_ask(settings)
        if not servers and self._is_provider_ready(model):
            self._append_message(text, steer=steer)
            return
        self.view.connecting = tuple(server["name"] for server in servers) or (model.spelled,)
        self.view.unsent.append(PendingMessage(text, steer))
        self._connecting = self._start_task(self._connect_and_send(model, servers))

    def _servers_to_ask(self, settings: Overrides) -> Sequence[Mapping[str, Any]]:
        """Return the MCP servers to ask: once per session and chat, because an absent one would delay every message."""
        if self.session is not None and self.session.name in self._tools_listed_for:
            return ()
        return servers_to_ask(settings, self.session, agent=self.options.agent, cwd=self._cwd)

    async def _connect_and_send(self, model: ModelChoice, servers: Sequence[Mapping[str, Any]]) -> None:
        cwd = self._cwd if self.session is None else self.session.tree.header.cwd
        try:
            await self._prepare_provider(model)
            tools = await list_server_tools(self.runner.servers, servers, cwd)
            self._send_pending((lambda *_: tools) if servers else contact_no_servers)
        except WakelogError as error:
            self.view.report_error(error)
        finally:
            self._restore_input()
            self._connecting, self.view.connecting, self.view.stopping = None, (), False

    def _send_pending(self, list_tools: ListTools) -> None:
        """Send the waiting messages in order; the first one may begin the session."""
        while self.view.unsent:
            message = self.view.unsent[0]
            self._append_message(message.text, steer=message.steer, list_tools=list_tools)
            del self.view.unsent[0]
            list_tools = contact_no_servers

    def _restore_input(self) -> None:
        """Put messages that could not be sent back into the input."""
        if self.view.unsent:
            self.view.screen.restore_input(escape_message("\n".join(message.text for message in self.view.unsent)))
            self.view.unsent.clear()

    def _append_message(self, text: str, *, steer: bool, list_tools: ListTools = contact_no_servers) -> None:
        session = self.session
        if session is None:
            agent, sender = self.options.agent, self.options.sender or "user"
            session = begin_session(
                self.place.store, self.settings, agent=agent, sender=sender, cwd=self._cwd, list_tools=list_tools
            )
            self.view.attach(session)
            self.settings = Overrides()
        else:
            self._write_settings(session, list_tools)
        self._tools_listed_for.add(session.name)
        session.say(Prompt(content=(Text(text=text),), channel=TERMINAL_CHANNEL), mode="steer" if steer else "followUp")
        self.view.catch_up()
        self.runner.request_wake(session.name)

    @property
    def _settings_to_write(self) -> Overrides:
        """Return the settings to write with a message: none while the session is run, as a run keeps its settings."""
        held = self.session is not None and self.place.store.held(self.session.name) is not None
        return Overrides() if held else self.settings

    def _write_settings(self, session: Session, list_tools: ListTools) -> None:
        """Write the requested settings, or keep them for a message that is sent while the session is idle."""
        settings = self._settings_to_write
        apply_settings(session, settings, list_tools)
        if settings == self.settings:
            self.settings = Overrides()
        elif self._deferred_settings != self.settings:
            self._deferred_settings = self.settings
            self.view.notice("the agent is busy; new options apply to the first message sent when idle")

    def interrupt(self) -> None:
        """See `InputActions`."""
        if self._connecting is not None:
            self._connecting.cancel()
            self.view.stopping = True
            self.view.screen.invalidate()
            return
        self._interrupt_presses += 1
        if self._interrupt_presses > 1:
            self._exit(INTERRUPTED if self.is_busy else self._exit_code)
        elif self.session is not None:
            with contextlib.suppress(WakelogError):
                self._interrupt_presses = 0 if self.runner.cancel(self.session) and not self.is_busy else 1
        self.view.catch_up()
        self.view.screen.invalidate()

    def leave(self) -> None:
        """See `InputActions`."""
        self._exit(self._exit_code)

    @property
    def _exit_code(self) -> int:
        return NEEDS_ATTENTION if self.view.questions.unanswered else 0

    def can_answer(self, text: str) -> bool:
        """See `InputActions`."""
        return self.view.questions.accepts(text)

    def answer(self, text: str) -> None:
        """See `InputActions`."""
        assert self.session is not None
        try:
            is_decided = self.view.questions.answer(self.session, text)
        except WakelogError as error:
            self.view.report_error(error)
            is_decided = False
        self.view.catch_up()
        self.view.update_questions()
        if is_decided:
            self.runner.request_wake(self.session.name)

    @property
    def is_busy(self) -> bool:
        """See `InputActions`."""
        return self.runner.busy or self._runs_elsewhere or self._connecting is not None
