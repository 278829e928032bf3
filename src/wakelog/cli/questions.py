"""What waits for a person, in a session and in the sub-agents it waits for: found, drawn, and asked about in place.

Nobody may approve what they have not seen: an input is shown whole, however long; what a list cuts it marks as
cut. Every string of it is the model's and goes through `safe`.
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
# How each thing is asked in one line, and what a key stands for.
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
    """A question, and the session it stands in."""

    session: Session
    question: Question

    @property
    def tool(self) -> str:
        """The tool it is about."""
        return self.question.call.call.name if self.question.call is not None else ""

    @property
    def input(self) -> object:
        """What the tool is to be given."""
        return self.question.call.call.input if self.question.call is not None else None

    @property
    def key(self) -> tuple[str, str, str]:
        """The call it is about: its session, its reply, its own id."""
        call = self.question.call
        return (self.session.name, call.reply_id, call.call.id) if call is not None else (self.session.name, "", "")

    @property
    def why(self) -> str:
        """What is asked, in words."""
        return _WHY.get(self.question.attention.reason, self.question.attention.reason)


def waiting(session: Session, seen: frozenset[str] = frozenset()) -> list[Waiting]:
    """What waits for a person in a session, and in the sub-agents whose answers it waits for."""
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
    """The session at the beginning of a chain of sub-agents: the one to wake, so that all of them go on."""
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


# ── drawn ────────────────────────────────────────────────────────────────────────────────────────


def draw(look: Look, asked: Waiting, now: int) -> Iterator[str]:
    """A question in full: where it stands, what is asked, and everything the tool is to be given."""
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
    """What the model will be told about the damage that a question is about."""
    if asked.question.attention.reason != DAMAGE:
        return
    found = losses(asked.session.tree, asked.session.branch())
    yield from visible_lines(notice_text(found)) if found is not None else ()


def _input_lines(given: object) -> Iterator[str]:
    """Each argument by its name; texts line by line, everything else as JSON."""
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


# ── asked ────────────────────────────────────────────────────────────────────────────────────────


def decide_in_place(look: Look, root: Session, left: list[Waiting], now: int) -> bool:
    """Asks about each on the terminal. Whether anything was decided: only then is there something to go on with."""
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
    """Writes down an answer; `always` also lets the tool run unasked from here on. False for what decides nothing.

    Said of a sub-agent that is like its sender, it holds for the sender too, and so for those that it sends out later.
    """
    if word == "always":
        allow_always(asked.session, asked.tool)
        if root.tree.card.agent == asked.session.tree.card.agent:
            allow_always(root, asked.tool)
        word = "approve"
    return _decide(asked, word)


def approve_all(left: list[Waiting]) -> bool:
    """Approves whatever only waits for that. Whether there was any."""
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
    """What a person types, until it is one of the answers; nothing more to read means later."""
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
