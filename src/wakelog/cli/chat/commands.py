"""Slash commands of a chat: parse a typed line, and run the command in it.

A command is a slash and a word of letters, then a space or the end: `/etc/passwd is missing` is a message. A second
slash (`//help`) sends the line without the first one. An unknown command is never sent as a message; the nearest
command is suggested instead. `ChatContext` is what commands and completion may use of the running chat. Each command
calls the function of the matching CLI command, and appends an entry where it changes something. Output is drawn as on
the command line, but limited to a number of lines.
"""

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Literal, Protocol, TypeAlias

import msgspec

from wakelog.app.addresses import find_entry, find_session
from wakelog.app.approvals import require_approval, tools_without_approval
from wakelog.app.entry_names import entry_name
from wakelog.app.event_loop import contact_no_servers
from wakelog.app.settings import Overrides, apply_settings, checked_model
from wakelog.app.stores import StoreLocation
from wakelog.cli.chat.runner import SessionRunner
from wakelog.cli.chat.view import ChatView
from wakelog.cli.ui.options import SharedOptions
from wakelog.cli.ui.session_views import context_lines, draw_tree, estimate_other_tokens, usage_lines
from wakelog.cli.ui.terminal import pad, wrap
from wakelog.decide.policy import policy_in_force
from wakelog.errors import Conflict, UsageError
from wakelog.forking import fork
from wakelog.projections.branch_state import branch_state
from wakelog.projections.context import build_context
from wakelog.runtime.checks import check_files
from wakelog.runtime.user_actions import request_compaction, retry_turn
from wakelog.session import Session

ArgumentKind: TypeAlias = Literal["", "entry", "model", "session", "text", "tool"]


class SlashCommand(msgspec.Struct, frozen=True):
    """A command: name, help text, kind and display of its argument, and whether the argument is required."""

    name: str
    help: str
    argument_kind: ArgumentKind = ""
    argument_usage: str = ""
    argument_required: bool = False


COMMANDS = {
    command.name: command
    for command in (
        SlashCommand("fork", "go on from here, or from an entry, in a session of its own", "entry", "[ENTRY]"),
        SlashCommand("tree", "draw every branch"),
        SlashCommand("head", "show the head, or go on from an earlier entry", "entry", "[ENTRY]"),
        SlashCommand("retry", "try a turn that has failed again"),
        SlashCommand("compact", "let a summary stand for what came before", "text", "[INSTRUCTIONS]"),
        SlashCommand("model", "show the model, or change it", "model", "[PROVIDER:NAME]"),
        SlashCommand("ask", "show which tools run unasked, or let one ask again", "tool", "[TOOL]"),
        SlashCommand("rename", "give the session a title", "text", "TITLE", argument_required=True),
        SlashCommand("new", "begin another session with the next message"),
        SlashCommand("open", "go on with another session", "session", "SESSION", argument_required=True),
        SlashCommand("steer", "say it to a busy agent at its next step", "text", "TEXT", argument_required=True),
        SlashCommand("attention", "show what waits for you"),
        SlashCommand("context", "show what the model sees"),
        SlashCommand("usage", "show what was spent"),
        SlashCommand("help", "show the commands and keys"),
        SlashCommand("quit", "leave; the session stays"),
    )
}
# Names that other programs use.
_SYNONYMS = {
    **dict.fromkeys(("exit", "q", "bye"), "quit"),
    **dict.fromkeys(("clear", "reset"), "new"),
    **dict.fromkeys(("resume", "switch", "load"), "open"),
    **dict.fromkeys(("rewind", "undo", "goto"), "head"),
    **dict.fromkeys(("cost", "tokens", "status"), "usage"),
    **dict.fromkeys(("branch",), "fork"),
    **dict.fromkeys(("summarise", "summarize", "fold"), "compact"),
    **dict.fromkeys(("title", "name"), "rename"),
    **dict.fromkeys(("approve", "pending"), "attention"),
    **dict.fromkeys(("again", "redo"), "retry"),
    **dict.fromkeys(("allow", "permissions", "tools"), "ask"),
    **dict.fromkeys(("interrupt",), "steer"),
}
_COMMAND_PATTERN = re.compile(r"/([a-z?]*)(?:\s+(.*))?", re.DOTALL)


class SendMessage(msgspec.Struct, frozen=True):
    """A message."""

    text: str


class RunCommand(msgspec.Struct, frozen=True):
    """A command with its argument."""

    name: str
    argument: str = ""


class IgnoredLine(msgspec.Struct, frozen=True):
    """A line that does nothing, with the reason in one line; empty for a blank line."""

    reason: str = ""


ParsedLine: TypeAlias = SendMessage | RunCommand | IgnoredLine


def parse_line(typed: str) -> ParsedLine:
    """Return the meaning of a typed text."""
    text = typed.strip("\n")
    if not text.strip():
        return IgnoredLine()
    if text.startswith("//"):
        return SendMessage(text[1:])
    found = _COMMAND_PATTERN.fullmatch(text.rstrip())
    if found is None:
        return SendMessage(text)
    return _parse_command(found[1], (found[2] or "").strip())


def escape_message(text: str) -> str:
    """Return what to type to send `words` as a message."""
    return f"/{text}" if text.startswith("/") else text


def _parse_command(typed_name: str, argument: str) -> ParsedLine:
    name = "help" if typed_name in ("", "?") else typed_name
    command = COMMANDS.get(name)
    if command is None:
        close = [_SYNONYMS[name]] if name in _SYNONYMS else difflib.get_close_matches(name, COMMANDS, n=1)
        meant = f"did you mean /{close[0]}?" if close else "/help lists them"
        return IgnoredLine(f"there is no command /{name}; {meant}")
    if command.argument_required and not argument:
        return IgnoredLine(f"/{name} {command.argument_usage}: {command.help}")
    if argument and not command.argument_kind:
        return IgnoredLine(f"/{name} takes nothing behind it")
    return RunCommand(name, argument)


def command_usage(command: SlashCommand) -> str:
    """Return how a command is typed."""
    return f"/{command.name} {command.argument_usage}".rstrip()


class ChatContext(Protocol):
    """The running chat: store, session, settings, view and runner."""

    shared_options: SharedOptions
    place: StoreLocation
    settings: Overrides
    view: ChatView
    runner: SessionRunner

    @property
    def session(self) -> Session | None:
        """Return the session; None before the first message of a new one."""
        ...

    @property
    def is_busy(self) -> bool:
        """Return whether the agent is working, in this process or another."""
        ...

    def open_session(self, session: Session) -> None:
        """Open a session."""
        ...

    def detach(self) -> None:
        """Leave the session; the next message begins a new one."""
        ...

    def check_model(self, settings: Overrides) -> str:
        """Return the model of a new session. `UsageError` if it cannot be used."""
        ...

    def send(self, text: str, *, steer: bool) -> None:
        """Send a message to the session or to a new one."""
        ...

    def leave(self) -> None:
        """Leave the chat."""
        ...


_LINES_MAX = 200
_HELP_COLUMN, _HELP_MIN_WIDTH = 24, 16
_KEY_HELP = (
    ("Enter", "send; while the agent is busy the message waits until it is done"),
    ("Alt-S", "send so that a busy agent sees it at its next step, as /steer does"),
    ("Alt-Enter, Ctrl-J", "a new line"),
    ("Up, Down", "earlier messages, also of other chats"),
    ("Esc, Ctrl-C", "cancel the turn; again: leave"),
    ("Ctrl-D, Ctrl-Z", "leave, where nothing is typed; stop for a while"),
    ("//...", "say something that begins with a slash"),
)


def run_command(chat: ChatContext, name: str, argument: str) -> None:
    """Execute a command; errors are raised."""
    ACTIONS[name](chat, argument)


def _require_session(chat: ChatContext) -> Session:
    if chat.session is None:
        raise UsageError("there is no session yet", hint="say something first, or /open one")
    return chat.session


def _require_idle(chat: ChatContext) -> None:
    """Raise `Conflict` if the agent is busy: the command would change the session or its settings during a run."""
    if chat.is_busy:
        raise Conflict("the agent is busy", hint="wait until it rests, or cancel the turn with Esc")


def _print_lines(chat: ChatContext, lines: Iterable[str], full_command: str) -> None:
    drawn = list(lines)
    if len(drawn) > _LINES_MAX:
        left = f"{len(drawn) - _LINES_MAX:,} lines above this; `wakelog {full_command}` shows all"
        drawn = [chat.view.look.paint("dim", left), *drawn[-_LINES_MAX:]]
    chat.view.show_lines(drawn)


# ── branches ─────────────────────────────────────────────────────────────────────────────────────


def _fork(chat: ChatContext, argument: str) -> None:
    session = _require_session(chat)
    _require_idle(chat)
    target = session.read().tree.find(find_entry(session.read(), argument)) if argument else None
    child = fork(session, target)
    chat.view.notice(f"forked into {child.name}; /open {session.name} goes back")
    chat.open_session(child)


def _head(chat: ChatContext, argument: str) -> None:
    session = _require_session(chat)
    tree = session.tree
    if not argument:
        where = entry_name(tree, tree.nodes[tree.head]) if tree.head is not None else "nowhere"
        chat.view.notice(f"the head is {where}; /tree shows where else to go on")
        return
    _require_idle(chat)
    before = entry_name(tree, tree.nodes[tree.head]) if tree.head is not None else ""
    log = session.read()
    session.move_head(log.tree.find(find_entry(log, argument)))
    chat.view.catch_up()
    chat.open_session(session)
    chat.view.notice(f"/head {before} goes back")


def _tree(chat: ChatContext, _: str) -> None:
    session = _require_session(chat)
    _print_lines(chat, draw_tree(chat.view.look, session.read().tree), f"tree {session.name}")


def _retry(chat: ChatContext, _: str) -> None:
    session = _require_session(chat)
    _require_idle(chat)
    chat.view.expect_head_move(retry_turn(session).id)
    chat.view.catch_up()
    chat.runner.request_wake(session.name)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


def _compact(chat: ChatContext, argument: str) -> None:
    session = _require_session(chat)
    if chat.is_busy:
        request_compaction(session, instructions=argument)
        chat.view.notice("it is folded when its work allows")
    else:
        chat.runner.request_compaction(session.name, argument)


def _model(chat: ChatContext, argument: str) -> None:
    if not argument:
        chat.view.notice(f"{chat.view.figures.model or 'no model'} answers; /model PROVIDER:NAME changes that")
    elif chat.session is None:
        terms = msgspec.structs.replace(chat.settings, model=argument)
        chat.view.figures = msgspec.structs.replace(chat.view.figures, model=chat.check_model(terms))
        chat.settings = terms
    else:
        _require_idle(chat)
        apply_settings(chat.session, Overrides(model=argument), contact_no_servers)
        # A model from the command line that was not written yet no longer applies.
        chat.settings = msgspec.structs.replace(chat.settings, model=None)
        chat.view.catch_up()


def _ask(chat: ChatContext, argument: str) -> None:
    session = _require_session(chat)
    if argument:
        _require_idle(chat)
        require_approval(session, argument)
        chat.view.catch_up()
    names = ", ".join(tools_without_approval(session)) or "none"
    chat.view.notice(f"tools that run unasked in this session: {names}; /ask TOOL lets one ask again")


def _rename(chat: ChatContext, argument: str) -> None:
    _require_session(chat).rename(argument)
    chat.view.catch_up()


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────


def _new(chat: ChatContext, _: str) -> None:
    _require_idle(chat)
    before = f"; /open {chat.session.name} goes back" if chat.session is not None else ""
    chat.detach()
    chat.view.notice(f"the next message begins a session{before}")


def _open(chat: ChatContext, argument: str) -> None:
    _require_idle(chat)
    address = find_session(chat.shared_options.store_url, argument)
    if address.entry is not None:
        raise UsageError("a chat goes on from the head", hint="open the session, then /head moves it")
    if address.ref != address.name:
        raise UsageError("that is a log of another store", hint=f"`wakelog chat {address.ref}` opens it")
    opened = Session(chat.place.store, address.name)
    check_files(opened)
    checked_model(Overrides(), opened)
    chat.view.notice(f"this is {opened.name}")
    chat.open_session(opened)


def _steer(chat: ChatContext, argument: str) -> None:
    chat.send(argument, steer=True)


# ── displays ─────────────────────────────────────────────────────────────────────────────────────


def _attention(chat: ChatContext, _: str) -> None:
    _require_session(chat)
    if not chat.view.repeat_questions():
        chat.view.notice("nothing waits for you here")


def _context(chat: ChatContext, _: str) -> None:
    session = _require_session(chat)
    log = session.read()
    branch = log.tree.branch()
    built = build_context(branch, policy_in_force(branch_state(branch).context).strategy)
    _print_lines(
        chat, context_lines(chat.view.look, log, built, estimate_other_tokens(built, branch)), f"context {session.name}"
    )


def _usage(chat: ChatContext, _: str) -> None:
    session = _require_session(chat)
    _print_lines(chat, usage_lines(session.read()), f"usage {session.name}")


def _help(chat: ChatContext, _: str) -> None:
    seen = chat.view.look
    rows = [(command_usage(command), command.help) for command in COMMANDS.values()]
    lines: list[str] = []
    for left, right in (*rows, *_KEY_HELP):
        first, *others = wrap(right, max(_HELP_MIN_WIDTH, seen.columns - _HELP_COLUMN - 1))
        lines.append(f"{seen.paint('bold', pad(left, _HELP_COLUMN))} {first}")
        lines += [f"{' ' * _HELP_COLUMN} {line}" for line in others]
    chat.view.show_lines(lines)


def _quit(chat: ChatContext, _: str) -> None:
    chat.leave()


ACTIONS: dict[str, Callable[[ChatContext, str], None]] = {
    "fork": _fork,
    "tree": _tree,
    "head": _head,
    "retry": _retry,
    "compact": _compact,
    "model": _model,
    "ask": _ask,
    "rename": _rename,
    "new": _new,
    "open": _open,
    "steer": _steer,
    "attention": _attention,
    "context": _context,
    "usage": _usage,
    "help": _help,
    "quit": _quit,
}
