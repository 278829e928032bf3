"""A chat: one person, one terminal, one session at a time. What is seen stands in `view.py`; here is what is done.

Rule 1: everything a person does is an entry in the log, as if another process had done it.
Rule 2: nothing is kept between turns but the session's name; what is held here beside it is a reading of the log, and
what was typed and not yet said.
"""

import asyncio
import contextlib

import msgspec

from wakelog.cli.chat.aside import Aside
from wakelog.cli.chat.channel import LogChannel
from wakelog.cli.chat.commands import Do, Nothing, Say, meaning
from wakelog.cli.chat.completing import Completing
from wakelog.cli.chat.doing import do
from wakelog.cli.chat.figures import Figures
from wakelog.cli.chat.keys import bindings
from wakelog.cli.chat.running import Runner
from wakelog.cli.chat.view import Doing, View
from wakelog.cli.faces import CHANNEL
from wakelog.cli.failures import INTERRUPTED, NEEDS_ATTENTION
from wakelog.cli.options import Asked
from wakelog.cli.places import Place
from wakelog.cli.run import Options
from wakelog.cli.terms import Terms, agree, begin, checked
from wakelog.errors import WakelogError
from wakelog.log.content import Prompt, Text
from wakelog.session import Session
from wakelog.tools.clip import storable

_LOOK_S, _LOOK_IDLE_S = 0.05, 0.2


class Room:
    """Everything that belongs to one chat."""

    def __init__(self, asked: Asked, place: Place, options: Options, cwd: str) -> None:
        self.asked, self.place, self.options = asked, place, options
        self.terms = options.terms
        self.farewell = ""
        self._cwd = cwd
        self._presses = 0
        self._elsewhere = False
        self.view = View(asked.color, Completing(self), self._doing)
        self.view.screen.bind(bindings(self, self.view.screen.input))
        channel = LogChannel(self.view.catch_up, self.view.ensure)
        self.runner = Runner(place, channel, self.view.tell, self._rested)

    @property
    def session(self) -> Session | None:
        """The session; None before the first message."""
        return self.view.session

    # ── sitting ──────────────────────────────────────────────────────────────────────────────────

    async def sit(self, session: Session | None) -> int:
        """Runs the chat, in a session or before one, until the person leaves; gives the exit code."""
        tasks = [asyncio.ensure_future(work) for work in (self.runner.run(), self._look_on(session))]
        for task in tasks:
            task.add_done_callback(self._fallen)
        try:
            with contextlib.redirect_stderr(Aside(self.view.overheard)):
                return await self.view.screen.app.run_async(set_exception_handler=False)
        finally:
            self.farewell = self._last_words()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _fallen(self, task: "asyncio.Task[None]") -> None:
        """What went wrong in a way it should not ends the chat; the log is as good as ever."""
        app = self.view.screen.app
        if not task.cancelled() and (error := task.exception()) is not None and app.is_running:
            app.exit(exception=error)

    async def _look_on(self, session: Session | None) -> None:
        """Begins when the terminal is ours: a key that is pressed at the first words is not taken for another."""
        if session is not None:
            self.enter(session)
        else:
            self.detach()
        self.view.notice("/help shows what there is; Ctrl-D leaves")
        while True:
            self.view.catch_up()
            self._notice_elsewhere()
            busy = self.is_busy
            if busy:
                self.view.screen.invalidate()
            await asyncio.sleep(_LOOK_S if busy else _LOOK_IDLE_S)

    def _notice_elsewhere(self) -> None:
        """Whether somebody else runs the session now; when they have left it, it goes on here if it is to go on."""
        before, name = self._elsewhere, self.session.name if self.session is not None else ""
        self._elsewhere = bool(name) and self.runner.elsewhere(name)
        if before and not self._elsewhere and name:
            self.runner.want(name)

    def _rested(self) -> None:
        self._presses = 0
        self.view.catch_up()
        self.view.look_for_questions()
        self.view.screen.invalidate()

    def _doing(self) -> Doing:
        return Doing(self.is_busy, self._elsewhere, self._presses > 0)

    def _last_words(self) -> str:
        name = self.session.name if self.session is not None else ""
        if self.is_busy and not self._elsewhere:
            return f"left; `wakelog wake {name}` goes on"
        if self.view.asking.left:
            return f"{name} waits for you; `wakelog chat {name}` or `wakelog attention {name}` decides"
        return f"`wakelog chat {name}` goes on"

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def enter(self, session: Session) -> None:
        """Goes on with a session: shows where it stands, and lets it go on."""
        self._presses = 0
        self.view.open(session)
        self.runner.want(session.name)

    def detach(self) -> None:
        """The next message begins a session, on the terms of the command line."""
        model = self.terms.model or self.options.terms.model
        self.terms = msgspec.structs.replace(self.options.terms, model=model)
        self.view.detach(Figures(model=self.check(self.terms)))

    def check(self, terms: Terms) -> str:
        """The model that would answer in a new session."""
        return checked(terms, cwd=self._cwd, agent=self.options.agent)

    # ── what the person does ─────────────────────────────────────────────────────────────────────

    def said(self, text: str, *, steer: bool = False) -> None:
        """See `Sitter`."""
        self._presses = 0
        meant = meaning(storable(text))
        try:
            match meant:
                case Say(text=words):
                    self.say(words, steer=steer)
                case Do(name=name, given=given):
                    do(self, name, given)
                case Nothing(why=why) if why:
                    self.view.notice(why, "warn")
        except WakelogError as error:
            self.view.tell(error)
            if isinstance(meant, Say):
                # What could not be said is not lost either.
                self.view.screen.input.insert_text(text)

    def say(self, words: str, *, steer: bool) -> None:
        """A message, into the session or into a new one."""
        session = self.session
        if session is None:
            agent, sender = self.options.agent, self.options.sender or "user"
            session = begin(self.place.store, self.terms, agent=agent, sender=sender, cwd=self._cwd)
            self.view.attach(session)
        else:
            agree(session, self.terms)
        self.terms = Terms()
        session.say(Prompt(content=(Text(text=words),), channel=CHANNEL), mode="steer" if steer else "followUp")
        self.view.catch_up()
        self.runner.want(session.name)

    def interrupted(self) -> None:
        """See `Sitter`."""
        self._presses += 1
        if self._presses > 1:
            self.view.screen.app.exit(result=INTERRUPTED if self.is_busy else self._code)
        elif self.session is not None:
            with contextlib.suppress(WakelogError):
                self._presses = 0 if self.runner.cancel(self.session) and not self.is_busy else 1
        self.view.catch_up()
        self.view.screen.invalidate()

    def left(self) -> None:
        """See `Sitter`."""
        self.view.screen.app.exit(result=self._code)

    @property
    def _code(self) -> int:
        return NEEDS_ATTENTION if self.view.asking.left else 0

    def can_answer(self, key: str) -> bool:
        """See `Sitter`."""
        return self.view.asking.takes(key)

    def answered(self, key: str) -> None:
        """See `Sitter`."""
        assert self.session is not None
        try:
            decided = self.view.asking.answer(self.session, key)
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
        return self.runner.busy or self._elsewhere
