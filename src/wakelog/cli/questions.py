"""Open questions of a session and of the sub-agents it waits for: find them, draw them, ask them on the terminal.

An approval must not cover anything unseen: an input is shown whole, at any length; lists mark what they cut. Every
string of it comes from the model and passes through `safe`.
"""

import sys
from collections.abc import Iterator

import msgspec

from wakelog.cli.draw import Look, wrap
from wakelog.cli.renderers import tell
from wakelog.cli.safe import visible, visible_lines
from wakelog.cli.terms import allow_always
from wakelog.cli.times import ago
from wakelog.decide.damage import DAMAGE, notice_text
from wakelog.errors import NotFound
from wakelog.log.codec import canonical
from wakelog.log.entry import Origin
from wakelog.log.entry import Session as SessionEntry
from wakelog.ports import Store
from wakelog.projections.losses import losses
from wakelog.projections.pending import pending
from wakelog.reading import read_first
from wakelog.runtime.user_actions import DecisionWord, Question, questions, resolve
from wakelog.session import Session

_WHY = {
    "approve": "wants to run",
    "unknown": "may or may not have run",
    DAMAGE: "a reply is lost: the tools it called may or may not have run",
}
# The prompt for each kind of question, and the answer of each key.
ANSWERS = {
    "approve": ("Run it? [y]es / [n]o / [a]lways in this session: ", {"y": "approve", "n": "deny", "a": "always"}),
    "unknown": (
        "Did it run? [y]es / [n]o / [r]un it again / [l]ater: ",
        {"y": "ran", "n": "did not run", "r": "run again", "l": "later"},
    ),
    DAMAGE: (
        "Did they run? [y]es / [n]o / [u]nknown, tell the model so / [l]ater: ",
        {"y": "ran", "n": "did not run", "u": "unknown", "l": "later"},
    ),
}


class Waiting(msgspec.Struct, frozen=True):
    """An open question and its session."""

    session: Session
    question: Question

    @property
    def tool(self) -> str:
        """Return the name of the tool; empty if the question is not about a tool call."""
        return self.question.call.call.name if self.question.call is not None else ""

    @property
    def input(self) -> object:
        """Return the input of the tool call, or None."""
        return self.question.call.call.input if self.question.call is not None else None

    @property
    def key(self) -> tuple[str, str, str]:
        """Return the key of the tool call: session name, reply id, tool call id."""
        call = self.question.call
        return (self.session.name, call.reply_id, call.call.id) if call is not None else (self.session.name, "", "")

    @property
    def why(self) -> str:
        """Return the question in words."""
        return _WHY.get(self.question.attention.reason, self.question.attention.reason)


def waiting(session: Session, seen: frozenset[str] = frozenset()) -> list[Waiting]:
    """Return the open questions of a session and of the sub-agents it waits for."""
    found = [Waiting(session, question) for question in questions(session)]
    for call in pending(session.branch()).open_calls:
        if call.child is None or call.child in seen:
            continue
        try:
            child = Session(session.store, call.child, clock=session.clock)
        except NotFound:
            continue
        found += waiting(child, seen | {session.id, call.child})
    return found


def first_of(store: Store, name: str) -> str:
    """Return the root of a chain of sub-agents: the session to wake so that all of them continue."""
    seen: set[str] = set()
    while name not in seen:
        seen.add(name)
        first = read_first(store, name)
        origin = first.value.parent if first is not None and isinstance(first.value, SessionEntry) else None
        if not isinstance(origin, Origin) or origin.kind != "subagent":
            return name
        try:
            name = store.name(origin.session)
        except NotFound:
            return name
    return name


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────


def draw(look: Look, asked: Waiting, now: int) -> Iterator[str]:
    """Yield a question in full: its place, what is asked, and the whole input of the tool."""
    entry = asked.question.attention
    since = ago(entry.timestamp, now)
    place = f"{asked.session.name}:{entry.seq}"
    tool = f"{look.paint('tool', visible(asked.tool) or 'something')} " if entry.reason != DAMAGE else ""
    yield f"{look.paint('name', place)}  {tool}{asked.why}  {look.paint('dim', since)}".rstrip()
    for line in (*_input_lines(asked.input), *_lost_lines(asked)):
        for piece in wrap(line, max(20, look.width - 4) if look.width else 0):
            yield f"    {piece}"
    call = asked.question.call
    if call is not None and call.shown:
        yield look.paint("dim", "    it had put out:")
        for line in visible_lines(call.shown.rstrip("\n")):
            yield f"    {look.sign('│', '|')} {line}"


def _lost_lines(asked: Waiting) -> Iterator[str]:
    """Yield the notice that the model will get about the damage of a question."""
    if asked.question.attention.reason != DAMAGE:
        return
    found = losses(asked.session.tree, asked.session.branch())
    yield from visible_lines(notice_text(found)) if found is not None else ()


def _input_lines(given: object) -> Iterator[str]:
    """Yield each argument with its name; texts line by line, other values as JSON."""
    if not isinstance(given, dict):
        yield from () if given is None else visible_lines(canonical(given).decode())
        return
    for key, value in given.items():
        lines = visible_lines(value if isinstance(value, str) else canonical(value).decode())
        if len(lines) == 1:
            yield f"{visible(str(key))}: {lines[0]}"
        else:
            yield f"{visible(str(key))}:"
            yield from (f"  {line}" for line in lines)


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


def decide_in_place(look: Look, root: Session, left: list[Waiting], now: int) -> bool:
    """Ask each question on the terminal; return whether any was decided."""
    decided, always = False, set[str]()
    for asked in left:
        if asked.question.attention.reason == "approve" and asked.tool in always:
            word = "approve"
        else:
            for line in draw(look, asked, now):
                tell(f"{line}\n")
            word = _answer(asked.question.attention.reason)
        if word == "always":
            always.add(asked.tool)
        decided = decide(root, asked, word) or decided
    return decided


def decide(root: Session, asked: Waiting, word: str) -> bool:
    """Append a decision; `always` also lets the tool run without approval from now on. False if it decides nothing.

    For a sub-agent of the same agent as `root`, `always` holds for `root` too, and so for its later sub-agents.
    """
    if word == "always":
        allow_always(asked.session, asked.tool)
        if root.tree.card.agent == asked.session.tree.card.agent:
            allow_always(root, asked.tool)
        word = "approve"
    return _decide(asked, word)


def approve_all(left: list[Waiting]) -> bool:
    """Approve every question that only waits for approval; return whether there was any."""
    decided = [_decide(asked, "approve") for asked in left if asked.question.attention.reason == "approve"]
    return any(decided)


def _decide(asked: Waiting, word: str) -> bool:
    decision = next((choice for choice in asked.question.choices if choice == word), None)
    if decision is None:
        return False
    chosen: DecisionWord = decision
    resolve(asked.session, asked.question.attention.id, chosen)
    return True


def _answer(reason: str) -> str:
    """Read from stdin until a valid answer is typed; end of input means `later`."""
    text, answers = ANSWERS.get(reason, ANSWERS["unknown"])
    while True:
        tell(text)
        typed = sys.stdin.readline()
        if not typed:
            tell("\n")
            return "later"
        word = answers.get(typed.strip().lower()[:1])
        if word is not None:
            return word
