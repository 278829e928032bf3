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
from wakelog.app.prices import PriceTable
from wakelog.app.settings import Overrides, apply_settings
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
from wakelog.runtime.user_actions import request_compaction
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
        SlashCommand("fork", "continue from here, or from an entry, in a new session", "entry", "[ENTRY]"),
        SlashCommand("tree", "draw all branches"),
        SlashCommand("head", "show the head, or continue from an earlier entry", "entry", "[ENTRY]"),
        SlashCommand("retry", "retry a turn that failed"),
        SlashCommand("compact", "replace older messages with a summary", "text", "[INSTRUCTIONS]"),
        SlashCommand("model", "show or change the model", "model", "[PROVIDER:NAME]"),
        SlashCommand("ask", "list tools that run without approval, or require it again", "tool", "[TOOL]"),
        SlashCommand("rename", "set the session's title", "text", "TITLE", argument_required=True),
        SlashCommand("new", "begin a new session with the next message"),
        SlashCommand("open", "open another session", "session", "SESSION", argument_required=True),
        SlashCommand(
            "steer", "send a message that a busy agent sees at its next step", "text", "TEXT", argument_required=True
        ),
        SlashCommand("questions", "show open questions, and tools that may have run"),
        SlashCommand("context", "show what the model sees"),
        SlashCommand("usage", "show tokens and cost"),
        SlashCommand("help", "list commands and keys"),
        SlashCommand("quit", "leave the chat; the session is kept"),
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
    **dict.fromkeys(("approve", "pending"), "questions"),
    **dict.fromkeys(("again", "redo"), "retry"),
    **dict.fromkeys(("allow", "permissions", "tools"), "ask"),
    **dict.fromkeys(("interrupt",), "steer"),
}
_COMMAND_PATTERN = re.compile(r"/([a-z?]*)(?:\s+(.*))?", re.DOTALL)


class SendMessage(msgspec.Struct, frozen=True):
    """A line that is sent as a message."""

    text: str


class RunCommand(msgspec.Struct, frozen=True):
    """A line that runs a command, with its argument."""

    name: str
    argument: str = ""


class IgnoredLine(msgspec.Struct, frozen=True):
    """A line that does nothing, with the reason in one line; empty for a blank line."""

    reason: str = ""


ParsedLine: TypeAlias = SendMessage | RunCommand | IgnoredLine


def parse_line(typed: str) -> ParsedLine:
    """Parse a typed text into a message, a command, or a line that is ignored."""
    text = typed.strip("\n")
    if not text.strip():
        return IgnoredLine()
    if text.startswith("//"):
        return SendMessage(text[1:])
    match = _COMMAND_PATTERN.fullmatch(text.rstrip())
    if match is None:
        return SendMessage(text)
    return _parse_command(match[1], (match[2] or "").strip())


def escape_message(text: str) -> str:
    """Return what to type to send `text` as a message: a leading slash is doubled."""
    return f"/{text}" if text.startswith("/") else text


def _parse_command(typed_name: str, argument: str) -> ParsedLine:
    name = "help" if typed_name in ("", "?") else typed_name
    command = COMMANDS.get(name)
    if command is None:
        close = [_SYNONYMS[name]] if name in _SYNONYMS else difflib.get_close_matches(name, COMMANDS, n=1)
        suggestion = f"did you mean /{close[0]}?" if close else "/help lists all"
        return IgnoredLine(f"unknown command /{name}; {suggestion}")
    if command.argument_required and not argument:
        return IgnoredLine(f"/{name} {command.argument_usage}: {command.help}")
    if argument and not command.argument_kind:
        return IgnoredLine(f"/{name} takes no argument")
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
    ("Enter", "send; while the agent is busy, the message is queued until it is done"),
    ("Alt-S", "send to a busy agent at its next step, like /steer"),
    ("Alt-Enter, Ctrl-J", "insert a new line"),
    ("Up, Down", "earlier messages, also from other chats"),
    ("Esc, Ctrl-C", "cancel the turn; press again to leave"),
    ("Ctrl-D, Ctrl-Z", "leave, if nothing is typed; suspend the program"),
    ("//...", "send a message that begins with a slash"),
)


def run_command(chat: ChatContext, name: str, argument: str) -> None:
    """Execute a command; errors are raised."""
    ACTIONS[name](chat, argument)


def _require_session(chat: ChatContext) -> Session:
    if chat.session is None:
        raise UsageError("no session yet", hint="send a message first, or /open a session")
    return chat.session


def _require_idle(chat: ChatContext) -> None:
    """Raise `Conflict` if the agent is busy: the command would change the session or its settings during a run."""
    if chat.is_busy:
        raise Conflict("the agent is busy", hint="wait until it is idle, or cancel the turn with Esc")


def _print_lines(chat: ChatContext, lines: Iterable[str], full_command: str) -> None:
    drawn = list(lines)
    if len(drawn) > _LINES_MAX:
        omitted = f"{len(drawn) - _LINES_MAX:,} earlier lines not shown; `wakelog {full_command}` shows all"
        drawn = [chat.view.look.paint("dim", omitted), *drawn[-_LINES_MAX:]]
    chat.view.show_lines(drawn)


# ── branches ─────────────────────────────────────────────────────────────────────────────────────


def _fork(chat: ChatContext, argument: str) -> None:
    session = _require_session(chat)
    _require_idle(chat)
    target = session.read().tree.find(find_entry(session.read(), argument)) if argument else None
    child = fork(session, target)
    chat.view.notice(f"forked into {child.name}; /open {session.name} returns to the original")
    chat.open_session(child)


def _head(chat: ChatContext, argument: str) -> None:
    session = _require_session(chat)
    tree = session.tree
    if not argument:
        where = entry_name(tree, tree.nodes[tree.head]) if tree.head is not None else "nowhere"
        chat.view.notice(f"the head is {where}; /tree shows all branches")
        return
    _require_idle(chat)
    before = entry_name(tree, tree.nodes[tree.head]) if tree.head is not None else ""
    log = session.read()
    session.move_head(log.tree.find(find_entry(log, argument)))
    chat.view.catch_up()
    chat.open_session(session)
    chat.view.notice(f"/head {before} moves it back")


def _tree(chat: ChatContext, _: str) -> None:
    session = _require_session(chat)
    _print_lines(chat, draw_tree(chat.view.look, session.read().tree), f"tree {session.name}")


def _retry(chat: ChatContext, _: str) -> None:
    session = _require_session(chat)
    _require_idle(chat)
    chat.runner.request_retry(session.name, chat.view.expect_head_move)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


def _compact(chat: ChatContext, argument: str) -> None:
    session = _require_session(chat)
    if chat.is_busy:
        request_compaction(session, instructions=argument)
        chat.view.notice("compaction requested; it runs when the current work allows")
    else:
        chat.runner.request_compaction(session.name, argument)


def _model(chat: ChatContext, argument: str) -> None:
    if not argument:
        chat.view.notice(f"model: {chat.view.figures.model or 'none'}; /model PROVIDER:NAME changes it")
    elif chat.session is None:
        settings = msgspec.structs.replace(chat.settings, model=argument)
        chat.view.figures = msgspec.structs.replace(chat.view.figures, model=chat.check_model(settings))
        chat.settings = settings
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
    chat.view.notice(f"tools that run without approval in this session: {names}; /ask TOOL requires it again")


def _rename(chat: ChatContext, argument: str) -> None:
    _require_session(chat).rename(argument)
    chat.view.catch_up()


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────


def _new(chat: ChatContext, _: str) -> None:
    _require_idle(chat)
    before = f"; /open {chat.session.name} returns" if chat.session is not None else ""
    chat.detach()
    chat.view.notice(f"the next message begins a new session{before}")


def _open(chat: ChatContext, argument: str) -> None:
    _require_idle(chat)
    address = find_session(chat.shared_options.store_url, argument)
    if address.entry is not None:
        raise UsageError(
            "a chat cannot start at an entry; it continues from the head",
            hint="/open the session, then move the head with /head",
        )
    if address.ref != address.name:
        raise UsageError(f"{address.ref} is in another store", hint=f"`wakelog chat {address.ref}` opens it")
    opened = Session(chat.place.store, address.name)
    check_files(opened)
    chat.view.notice(f"opened {opened.name}")
    chat.open_session(opened)


def _steer(chat: ChatContext, argument: str) -> None:
    chat.send(argument, steer=True)


# ── displays ─────────────────────────────────────────────────────────────────────────────────────


def _questions(chat: ChatContext, _: str) -> None:
    _require_session(chat)
    if not chat.view.repeat_questions():
        chat.view.notice("no open questions")


def _context(chat: ChatContext, _: str) -> None:
    session = _require_session(chat)
    log = session.read()
    branch = log.tree.branch()
    built = build_context(branch, policy_in_force(branch_state(branch).context).strategy)
    others = estimate_other_tokens(session.store.blobs, built, branch)
    _print_lines(chat, context_lines(chat.view.look, log, built, others), f"context {session.name}")


def _usage(chat: ChatContext, _: str) -> None:
    session = _require_session(chat)
    _print_lines(chat, usage_lines(session.read(), PriceTable.from_config().find_cost), f"usage {session.name}")


def _help(chat: ChatContext, _: str) -> None:
    look = chat.view.look
    rows = [(command_usage(command), command.help) for command in COMMANDS.values()]
    lines: list[str] = []
    for left, right in (*rows, *_KEY_HELP):
        first, *others = wrap(right, max(_HELP_MIN_WIDTH, look.columns - _HELP_COLUMN - 1))
        lines.append(f"{look.paint('bold', pad(left, _HELP_COLUMN))} {first}")
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
    "questions": _questions,
    "context": _context,
    "usage": _usage,
    "help": _help,
    "quit": _quit,
}
