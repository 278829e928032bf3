"""Slash commands of a chat.

Each uses the function of the matching CLI command, and appends an entry where it changes something. Output is drawn as
on the command line, but limited to `_LINES_MAX` lines.
"""

from collections.abc import Callable, Iterable

import msgspec

from wakelog.cli.addresses import find, find_entry
from wakelog.cli.chat.commands import COMMANDS, usage_of
from wakelog.cli.chat.seat import ChatContext
from wakelog.cli.draw import pad, wrap
from wakelog.cli.names import short
from wakelog.cli.read import context_lines, spent_lines
from wakelog.cli.serving import no_servers
from wakelog.cli.terms import Terms, agree, ask_again, checked, unasked
from wakelog.cli.trees import draw_tree
from wakelog.cli.weighing import beside
from wakelog.decide.policy import policy_in_force
from wakelog.errors import Conflict, UsageError
from wakelog.forking import fork
from wakelog.projections.context import build_context
from wakelog.projections.state import branch_state
from wakelog.runtime.checks import check_custody
from wakelog.runtime.user_actions import request_compaction, retry
from wakelog.session import Session

_LINES_MAX = 200
_HELP_LEFT, _HELP_MIN = 24, 16
_KEYS = (
    ("Enter", "send; while the agent is busy the message waits until it is done"),
    ("Alt-S", "send so that a busy agent sees it at its next step, as /steer does"),
    ("Alt-Enter, Ctrl-J", "a new line"),
    ("Up, Down", "earlier messages, also of other chats"),
    ("Esc, Ctrl-C", "cancel the turn; again: leave"),
    ("Ctrl-D, Ctrl-Z", "leave, where nothing is typed; stop for a while"),
    ("//...", "say something that begins with a slash"),
)


def do(room: ChatContext, name: str, given: str) -> None:
    """Execute a command; errors are raised."""
    _DOINGS[name](room, given)


def _here(room: ChatContext) -> Session:
    if room.session is None:
        raise UsageError("there is no session yet", hint="say something first, or /open one")
    return room.session


def _at_rest(room: ChatContext) -> None:
    """Raise `Conflict` if the agent is busy: the command would change the session or its settings during a run."""
    if room.is_busy:
        raise Conflict("the agent is busy", hint="wait until it rests, or cancel the turn with Esc")


def _print(room: ChatContext, lines: Iterable[str], whole: str) -> None:
    drawn = list(lines)
    if len(drawn) > _LINES_MAX:
        left = f"{len(drawn) - _LINES_MAX:,} lines above this; `wakelog {whole}` shows all"
        drawn = [room.view.look.paint("dim", left), *drawn[-_LINES_MAX:]]
    room.view.show_lines(drawn)


# ── branches ─────────────────────────────────────────────────────────────────────────────────────


def _fork(room: ChatContext, given: str) -> None:
    session = _here(room)
    _at_rest(room)
    target = session.read().tree.find(find_entry(session.read(), given)) if given else None
    child = fork(session, target)
    room.view.notice(f"forked into {child.name}; /open {session.name} goes back")
    room.enter(child)


def _head(room: ChatContext, given: str) -> None:
    session = _here(room)
    tree = session.tree
    if not given:
        where = short(tree, tree.nodes[tree.head]) if tree.head is not None else "nowhere"
        room.view.notice(f"the head is {where}; /tree shows where else to go on")
        return
    _at_rest(room)
    before = short(tree, tree.nodes[tree.head]) if tree.head is not None else ""
    log = session.read()
    session.move_head(log.tree.find(find_entry(log, given)))
    room.view.catch_up()
    room.enter(session)
    room.view.notice(f"/head {before} goes back")


def _tree(room: ChatContext, _: str) -> None:
    session = _here(room)
    _print(room, draw_tree(room.view.look, session.read().tree), f"tree {session.name}")


def _retry(room: ChatContext, _: str) -> None:
    session = _here(room)
    _at_rest(room)
    room.view.expect(retry(session).id)
    room.view.catch_up()
    room.runner.want(session.name)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


def _compact(room: ChatContext, given: str) -> None:
    session = _here(room)
    if room.is_busy:
        request_compaction(session, instructions=given)
        room.view.notice("it is folded when its work allows")
    else:
        room.runner.fold(session.name, given)


def _model(room: ChatContext, given: str) -> None:
    if not given:
        room.view.notice(f"{room.view.known.model or 'no model'} answers; /model PROVIDER:NAME changes that")
    elif room.session is None:
        terms = msgspec.structs.replace(room.terms, model=given)
        room.view.known = msgspec.structs.replace(room.view.known, model=room.check(terms))
        room.terms = terms
    else:
        _at_rest(room)
        agree(room.session, Terms(model=given), no_servers)
        # A model from the command line that was not written yet no longer applies.
        room.terms = msgspec.structs.replace(room.terms, model=None)
        room.view.catch_up()


def _ask(room: ChatContext, given: str) -> None:
    session = _here(room)
    if given:
        _at_rest(room)
        ask_again(session, given)
        room.view.catch_up()
    names = ", ".join(unasked(session)) or "none"
    room.view.notice(f"tools that run unasked in this session: {names}; /ask TOOL lets one ask again")


def _rename(room: ChatContext, given: str) -> None:
    _here(room).rename(given)
    room.view.catch_up()


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────


def _new(room: ChatContext, _: str) -> None:
    _at_rest(room)
    before = f"; /open {room.session.name} goes back" if room.session is not None else ""
    room.detach()
    room.view.notice(f"the next message begins a session{before}")


def _open(room: ChatContext, given: str) -> None:
    _at_rest(room)
    address = find(room.asked, given)
    if address.entry is not None:
        raise UsageError("a chat goes on from the head", hint="open the session, then /head moves it")
    if address.ref != address.name:
        raise UsageError("that is a log of another store", hint=f"`wakelog chat {address.ref}` opens it")
    opened = Session(room.place.store, address.name)
    check_custody(opened)
    checked(Terms(), opened)
    room.view.notice(f"this is {opened.name}")
    room.enter(opened)


def _steer(room: ChatContext, given: str) -> None:
    room.say(given, steer=True)


# ── displays ─────────────────────────────────────────────────────────────────────────────────────


def _attention(room: ChatContext, _: str) -> None:
    _here(room)
    if not room.view.ask_again():
        room.view.notice("nothing waits for you here")


def _context(room: ChatContext, _: str) -> None:
    session = _here(room)
    log = session.read()
    branch = log.tree.branch()
    built = build_context(branch, policy_in_force(branch_state(branch).context).strategy)
    _print(room, context_lines(room.view.look, log, built, beside(built, branch)), f"context {session.name}")


def _usage(room: ChatContext, _: str) -> None:
    session = _here(room)
    _print(room, spent_lines(session.read()), f"usage {session.name}")


def _help(room: ChatContext, _: str) -> None:
    seen = room.view.look
    rows = [(usage_of(command), command.help) for command in COMMANDS.values()]
    lines: list[str] = []
    for left, right in (*rows, *_KEYS):
        first, *others = wrap(right, max(_HELP_MIN, seen.columns - _HELP_LEFT - 1))
        lines.append(f"{seen.paint('bold', pad(left, _HELP_LEFT))} {first}")
        lines += [f"{' ' * _HELP_LEFT} {line}" for line in others]
    room.view.show_lines(lines)


def _quit(room: ChatContext, _: str) -> None:
    room.left()


_DOINGS: dict[str, Callable[[ChatContext, str], None]] = {
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
