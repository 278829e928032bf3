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
from wakelog.cli.chat.runner import LogChannel, SessionRunner
from wakelog.cli.chat.terminal import StderrRedirect
from wakelog.cli.chat.view import Activity, ChatView
from wakelog.cli.ui.errors import INTERRUPTED, NEEDS_ATTENTION
from wakelog.cli.ui.options import SharedOptions
from wakelog.cli.ui.session_run import RunSettings
from wakelog.decide.wording import valid_utf8
from wakelog.errors import WakelogError
from wakelog.log.content import Prompt, Text
from wakelog.session import Session

_REFRESH_S, _REFRESH_IDLE_S, _REFRESH_UNREACHABLE_S = 0.05, 0.2, 1.0
_SIGTERM_CODE = 128 + signal.SIGTERM


class ChatApp:
    """One chat: its settings, view, runner and background tasks."""

    def __init__(self, asked: SharedOptions, place: StoreLocation, options: RunSettings, cwd: str) -> None:
        self.asked, self.place, self.options = asked, place, options
        self.terms = options.terms
        self.farewell = ""
        self._cwd = cwd
        self._presses = 0
        self._elsewhere = False
        self._put_off = Overrides()
        """The settings about which the user was already notified that they are delayed."""
        self._work: set[asyncio.Task[None]] = set()
        self._connecting: asyncio.Task[None] | None = None
        self._has_asked: set[str] = set()
        """The sessions with MCP servers that were already asked for their tools."""
        self._ready: set[str] = set()
        """The providers that are loaded and were found usable."""
        self.view = ChatView(asked.color, ChatCompleter(self), self._doing)
        self.view.screen.bind(key_bindings(self, self.view.screen.input))
        channel = LogChannel(self.view.catch_up, self.view.ensure)
        self.runner = SessionRunner(place, channel, self.view.tell, self._rested)

    @property
    def session(self) -> Session | None:
        """Return the session; None before the first message."""
        return self.view.session

    # ── main loop ────────────────────────────────────────────────────────────────────────────────

    async def sit(self, session: Session | None, ahead: str = "") -> int:
        """Run the chat until the user leaves; return the exit code.

        `session` is None for a new one. Keys pressed `ahead` are processed when the chat is ready.
        """
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._leave, _SIGTERM_CODE)
        for work in (self.runner.run(), self._look_on(session)):
            self._begin_work(work)
        try:
            with contextlib.redirect_stderr(StderrRedirect(self.view.overheard)):
                return await self.view.screen.run(ahead)
        finally:
            self.farewell = self._last_words()
            for task in self._work:
                task.cancel()
            await asyncio.gather(*self._work, return_exceptions=True)

    def _begin_work(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a background task that ends with the chat."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """End the chat with the exception of a task that failed unexpectedly. The log is not affected."""
        self._work.discard(task)
        app = self.view.screen.app
        if not task.cancelled() and (error := task.exception()) is not None and app.is_running and not app.is_done:
            app.exit(exception=error)

    def _leave(self, code: int) -> None:
        app = self.view.screen.app
        if app.is_running and not app.is_done:
            app.exit(result=code)

    async def _look_on(self, session: Session | None) -> None:
        """Open the session and watch it. Started after the terminal is set up, so that early keys are not misread."""
        if session is not None:
            self.enter(session)
        else:
            self.detach()
        self.view.notice("/help shows what there is; Ctrl-D leaves")
        self.view.screen.press_ahead()
        while True:
            self._look()
            busy = self.is_busy
            if busy:
                self.view.screen.invalidate()
            await asyncio.sleep(
                _REFRESH_UNREACHABLE_S if self.view.is_cut_off else _REFRESH_S if busy else _REFRESH_IDLE_S
            )

    def _look(self) -> None:
        """Show what is new. Wake a session that another process has left, or that is reachable again."""
        before, name = self._elsewhere or self.view.is_cut_off, self.session.name if self.session is not None else ""
        with self.view.reading():
            self.view.show_news()
            self._elsewhere = bool(name) and self.runner.elsewhere(name)
        if before and name and not self._elsewhere and not self.view.is_cut_off:
            self.runner.want(name)

    def _rested(self) -> None:
        self._presses = 0
        self.view.catch_up()
        self.view.look_for_questions()
        self.view.screen.invalidate()

    def _doing(self) -> Activity:
        return Activity(self.is_busy, self._elsewhere, self._presses > 0)

    def _last_words(self) -> str:
        name = self.session.name if self.session is not None else ""
        if self.runner.busy:
            return f"left; `wakelog wake {name}` goes on"
        if self.view.asking.left:
            return f"{name} waits for you; `wakelog chat {name}` or `wakelog attention {name}` decides"
        return f"`wakelog chat {name}` goes on"

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def enter(self, session: Session) -> None:
        """Open a session: show its state, and wake it."""
        self._presses = 0
        self.view.open(session)
        self.runner.want(session.name)
        self._begin_work(self._load(self._meant(self.terms)))

    def detach(self) -> None:
        """Leave the session: the next message begins a new one with the settings of the command line."""
        model = self.terms.model or self.options.terms.model
        self.terms = msgspec.structs.replace(self.options.terms, model=model)
        self.view.detach(StatusFigures(model=self.check(self.terms)))

    def check(self, terms: Overrides) -> str:
        """Return the model of a new session, and start loading its provider."""
        found = checked_model(terms, cwd=self._cwd, agent=self.options.agent)
        self._begin_work(self._load(found))
        return found.spelled

    def _meant(self, terms: Overrides) -> ModelChoice:
        return model_for(terms, self.session, cwd=self._cwd, agent=self.options.agent)

    async def _load(self, model: ModelChoice) -> None:
        """Load a provider while the user types; a message that is sent earlier waits for it."""
        try:
            await self._be_ready(model)
        except WakelogError as error:
            # A waiting message reports the error itself.
            if self._connecting is None:
                self.view.tell(error)

    async def _be_ready(self, model: ModelChoice) -> None:
        if not self._is_ready(model):
            await run_in_daemon_thread(lambda: check_model_choice(model))
            self._ready.add(model.provider)

    def _is_ready(self, model: ModelChoice) -> bool:
        return not loads_slowly(model.provider) or model.provider in self._ready

    # ── user actions ─────────────────────────────────────────────────────────────────────────────

    def said(self, text: str, *, steer: bool = False) -> None:
        """See `Sitter`."""
        self._presses = 0
        meant = parse_line(valid_utf8(text))
        try:
            match meant:
                case SendMessage(text=words):
                    self.say(words, steer=steer)
                case RunCommand(name=name, given=given):
                    run_command(self, name, given)
                case IgnoredLine(why=why) if why:
                    self.view.notice(why, "warn")
        except WakelogError as error:
            self.view.tell(error)
            if isinstance(meant, SendMessage) or (isinstance(meant, RunCommand) and meant.name == "steer"):
                # A message that could not be sent goes back to the input.
                self.view.screen.give_back(text)

    def say(self, words: str, *, steer: bool) -> None:
        """Send a message to the session or to a new one.

        It waits until its model can be used and, for a new session, until its MCP servers have answered. Messages sent
        meanwhile wait behind it.
        """
        if self._connecting is not None:
            self.view.unsaid.append(PendingMessage(words, steer))
            self.view.screen.invalidate()
            return
        terms = self._terms_now
        model = self._meant(terms)
        servers = self._servers_to_ask(terms)
        if not servers and self._is_ready(model):
            self._say(words, steer=steer)
            return
        self.view.connecting = tuple(server["name"] for server in servers) or (model.spelled,)
        self.view.unsaid.append(PendingMessage(words, steer))
        self._connecting = self._begin_work(self._connect_and_say(model, servers))

    def _servers_to_ask(self, terms: Overrides) -> Sequence[Mapping[str, Any]]:
        """Return the MCP servers to ask: once per session and chat, because an absent one would delay every message."""
        if self.session is not None and self.session.name in self._has_asked:
            return ()
        return servers_to_ask(terms, self.session, agent=self.options.agent, cwd=self._cwd)

    async def _connect_and_say(self, model: ModelChoice, servers: Sequence[Mapping[str, Any]]) -> None:
        cwd = self._cwd if self.session is None else self.session.tree.card.cwd
        try:
            await self._be_ready(model)
            found = await list_server_tools(self.runner.servers, servers, cwd)
            self._say_all((lambda *_: found) if servers else contact_no_servers)
        except WakelogError as error:
            self.view.tell(error)
        finally:
            self._give_back()
            self._connecting, self.view.connecting, self.view.stopping = None, (), False

    def _say_all(self, served: ListTools) -> None:
        """Send the waiting messages in order; the first one may begin the session."""
        while self.view.unsaid:
            waited = self.view.unsaid[0]
            self._say(waited.text, steer=waited.steer, served=served)
            del self.view.unsaid[0]
            served = contact_no_servers

    def _give_back(self) -> None:
        """Put messages that could not be sent back into the input."""
        if self.view.unsaid:
            self.view.screen.give_back(escape_message("\n".join(waited.text for waited in self.view.unsaid)))
            self.view.unsaid.clear()

    def _say(self, words: str, *, steer: bool, served: ListTools = contact_no_servers) -> None:
        session = self.session
        if session is None:
            agent, sender = self.options.agent, self.options.sender or "user"
            session = begin_session(
                self.place.store, self.terms, agent=agent, sender=sender, cwd=self._cwd, served=served
            )
            self.view.attach(session)
            self.terms = Overrides()
        else:
            self._agree(session, served)
        self._has_asked.add(session.name)
        session.say(
            Prompt(content=(Text(text=words),), channel=TERMINAL_CHANNEL), mode="steer" if steer else "followUp"
        )
        self.view.catch_up()
        self.runner.want(session.name)

    @property
    def _terms_now(self) -> Overrides:
        """Return the settings to write with a message: none while the session is run, as a run keeps its settings."""
        held = self.session is not None and self.place.store.held(self.session.name) is not None
        return Overrides() if held else self.terms

    def _agree(self, session: Session, served: ListTools) -> None:
        """Write the requested settings, or keep them for a message that is sent while the session is idle."""
        terms = self._terms_now
        apply_settings(session, terms, served)
        if terms == self.terms:
            self.terms = Overrides()
        elif self._put_off != self.terms:
            self._put_off = self.terms
            self.view.notice("the agent is busy: the options hold from the first message on that finds it at rest")

    def interrupted(self) -> None:
        """See `Sitter`."""
        if self._connecting is not None:
            self._connecting.cancel()
            self.view.stopping = True
            self.view.screen.invalidate()
            return
        self._presses += 1
        if self._presses > 1:
            self._leave(INTERRUPTED if self.is_busy else self._code)
        elif self.session is not None:
            with contextlib.suppress(WakelogError):
                self._presses = 0 if self.runner.cancel(self.session) and not self.is_busy else 1
        self.view.catch_up()
        self.view.screen.invalidate()

    def left(self) -> None:
        """See `Sitter`."""
        self._leave(self._code)

    @property
    def _code(self) -> int:
        return NEEDS_ATTENTION if self.view.asking.left else 0

    def can_answer(self, text: str) -> bool:
        """See `Sitter`."""
        return self.view.asking.takes(text)

    def answered(self, text: str) -> None:
        """See `Sitter`."""
        assert self.session is not None
        try:
            decided = self.view.asking.answer(self.session, text)
        except WakelogError as error:
            self.view.tell(error)
            decided = False
        self.view.catch_up()
        self.view.look_for_questions()
        if decided:
            self.runner.want(self.session.name)

    @property
    def is_busy(self) -> bool:
        """See `Sitter`."""
        return self.runner.busy or self._elsewhere or self._connecting is not None
