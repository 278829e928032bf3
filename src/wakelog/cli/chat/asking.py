"""Questions in the chat: the input of a tool is printed in full, then a letter and Enter answer.

An approval must not cover anything unseen (see `questions.py`). A change of a file is printed as a diff that contains
all of it; other inputs are printed as they are. A question can be answered after a frame has shown it above an empty
input line with no key waiting, so that keys typed earlier cannot answer it. An answer is an entry, as if another
process had made it.
"""

from wakelog.cli.chat.drawing import diff_lines
from wakelog.cli.draw import Look, clip, wrap
from wakelog.cli.questions import ANSWERS, Waiting, decide, draw, waiting
from wakelog.cli.safe import visible
from wakelog.decide.damage import DAMAGE
from wakelog.session import Session

_CALLED = {
    "approve": "once",
    "always": "always {tool}, in this session",
    "deny": "no",
    "ran": "yes",
    "did not run": "no",
    "run again": "run it again",
    "unknown": "not known, tell the model so",
    "later": "later",
}
# The word that may be typed for each letter, in the order in which the letters are offered.
_WORDS = {"y": "yes", "a": "always", "n": "no", "r": "run", "u": "unknown", "l": "later"}
_TITLES = {"approve": "Run it?", DAMAGE: "Did they run?"}
_TOOL_ROOM = 24


class Asking:
    """The open questions of a session and its sub-agents, one at a time."""

    def __init__(self) -> None:
        self.left: list[Waiting] = []
        self._printed: set[str] = set()
        self._later: set[str] = set()
        self._seen = ""

    @property
    def now(self) -> Waiting | None:
        """Return the question to answer next, or None."""
        return next((asked for asked in self.left if asked.question.attention.id not in self._later), None)

    def look(self, session: Session) -> None:
        """Find the open questions; another process may have answered or raised some."""
        self.left = waiting(session)

    def fresh(self) -> Waiting | None:
        """Return the current question if it was not printed yet, and mark it as printed."""
        asked = self.now
        if asked is None or asked.question.attention.id in self._printed:
            return None
        self._printed.add(asked.question.attention.id)
        return asked

    def again(self) -> None:
        """Ask all questions again."""
        self._printed.clear()
        self._later.clear()
        self._seen = ""

    def see(self) -> None:
        """Record that a frame has shown the current question with nothing typed: from now on it can be answered."""
        self._seen = self.now.question.attention.id if self.now is not None else ""

    @property
    def is_open(self) -> bool:
        """Return whether the current question can be answered."""
        return self.now is not None and self.now.question.attention.id == self._seen

    def takes(self, text: str) -> bool:
        """Return whether a line answers the current question."""
        return self.is_open and self.now is not None and _meant(self.now, text) is not None

    def answer(self, root: Session, text: str) -> bool:
        """Append the decision that a line stands for. False if there is nothing to continue with."""
        asked = self.now
        word = _meant(asked, text) if asked is not None else None
        if asked is None or word is None:
            return False
        if word == "later":
            self._later.add(asked.question.attention.id)
            return False
        alike = [other for other in self.left if other is not asked and _is_alike(other, asked)]
        decided = decide(root, asked, word)
        for other in alike if word == "always" else ():
            decide(root, other, "approve")
        return decided


def _is_alike(one: Waiting, other: Waiting) -> bool:
    approve = one.question.attention.reason == other.question.attention.reason == "approve"
    return approve and one.tool == other.tool


def _answers(asked: Waiting) -> dict[str, str]:
    return ANSWERS.get(asked.question.attention.reason, ANSWERS["unknown"])[1]


def _meant(asked: Waiting, text: str) -> str | None:
    """Return the answer that a line stands for, by its letter or its word; None if it is no answer."""
    typed = text.strip().lower()
    return next((word for key, word in _answers(asked).items() if typed in (key, _WORDS[key])), None)


def question_lines(look: Look, asked: Waiting, now: int) -> list[str]:
    """Return a question in full, for the scroll-back."""
    heading, *rest = draw(look, asked, now)
    diff = diff_lines(look, asked.tool, asked.input)
    if not diff or not isinstance(asked.input, dict):
        return [heading, *rest]
    path = visible(str(asked.input.get("path")))
    return [heading, f"    path: {path}", *(f"    {line}" for line in diff)]


def ask_lines(look: Look, asked: Waiting, *, is_open: bool) -> list[str]:
    """Return the line with the possible answers, shown while the question is open."""
    title = _TITLES.get(asked.question.attention.reason, "Did it run?")
    answers = _answers(asked)
    tool = clip(look, visible(asked.tool), _TOOL_ROOM)
    called = {word: words.replace("{tool}", tool) for word, words in _CALLED.items()}
    keys = "  ".join(f"[{key}] {called[answers[key]]}" for key in _WORDS if key in answers)
    how = f"{keys}, then Enter" if is_open else "send or clear what you type, then answer"
    about = f"{tool}: " if tool else ""
    lines = wrap(f"{about}{title}  {how}", look.columns)
    return [look.paint("warn", line) for line in lines]
