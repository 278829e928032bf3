"""Questions in place: what a tool is to be given is printed whole, then one key answers.

Nobody may approve what they have not seen (see `questions.py`). A change of a file is printed as a diff, which
holds all of it; everything else as it is. What is answered here is an entry, as if another process had answered.
"""

from wakelog.cli.chat.drawing import diff_lines
from wakelog.cli.draw import Look, clip
from wakelog.cli.questions import ANSWERS, Waiting, decide, draw, waiting
from wakelog.cli.safe import visible
from wakelog.session import Session

_CALLED = {
    "approve": "once",
    "always": "always",
    "deny": "no",
    "ran": "yes",
    "did not run": "no",
    "run again": "run it again",
    "later": "later",
}


class Asking:
    """What waits for a person in one session and its sub-agents, one question at a time."""

    def __init__(self) -> None:
        self.left: list[Waiting] = []
        self._printed: set[str] = set()
        self._later: set[str] = set()

    @property
    def now(self) -> Waiting | None:
        """The question that keys answer."""
        return next((asked for asked in self.left if asked.question.attention.id not in self._later), None)

    def look(self, session: Session) -> None:
        """Finds what waits; another process may have answered, or asked."""
        self.left = waiting(session)

    def fresh(self) -> Waiting | None:
        """The question that is to be answered now, if it has not been printed yet; from here on it has."""
        asked = self.now
        if asked is None or asked.question.attention.id in self._printed:
            return None
        self._printed.add(asked.question.attention.id)
        return asked

    def again(self) -> None:
        """All of them are asked once more."""
        self._printed.clear()
        self._later.clear()

    def takes(self, key: str) -> bool:
        """Whether a key answers."""
        return self.now is not None and key in _answers(self.now)

    def answer(self, root: Session, key: str) -> bool:
        """Writes down what a key stands for. False if there is nothing to go on with."""
        asked = self.now
        if asked is None:
            return False
        word = _answers(asked)[key]
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


def question_lines(look: Look, asked: Waiting, now: int) -> list[str]:
    """A question in full, for the scroll-back."""
    heading, *rest = draw(look, asked, now)
    diff = diff_lines(look, asked.tool, asked.input)
    if not diff or not isinstance(asked.input, dict):
        return [heading, *rest]
    path = visible(str(asked.input.get("path")))
    return [heading, f"    path: {path}", *(f"    {line}" for line in diff)]


def ask_line(look: Look, asked: Waiting, *, typing: bool) -> str:
    """The keys that answer, for as long as it waits."""
    reason = asked.question.attention.reason
    title = "Run it?" if reason == "approve" else "Did it run?"
    if typing:
        return look.paint("warn", clip(look, f"{title} send or clear what you type, then answer", look.columns))
    answers = sorted(_answers(asked).items(), key=lambda pair: "yanrl".index(pair[0]))
    keys = "  ".join(f"[{key}] {_CALLED[word]}" for key, word in answers)
    return look.paint("warn", clip(look, f"{visible(asked.tool)}: {title}  {keys}", look.columns))
