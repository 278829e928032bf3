"""Questions in a chat: print the input of a tool in full, and read the answer from a typed line.

An approval must not cover anything unseen. A change of a file is printed as a diff that contains all of it; other
inputs are printed as they are. A question can be answered after a frame has shown it above an empty input line with
no key waiting, so that keys typed earlier cannot answer it. An answer is an entry, as if another process had made
it.
"""

from wakelog.app.approvals import decide_question
from wakelog.cli.chat.drawing import diff_lines
from wakelog.cli.ui.safe_text import visible
from wakelog.cli.ui.session_run import ANSWER_KEYS, draw_question
from wakelog.cli.ui.terminal import TerminalStyle, clip, wrap
from wakelog.decide.damage import DAMAGE_REASON
from wakelog.questions import OUTCOME_REASON, Question, collect_questions, unknown_outcomes
from wakelog.session import Session

_ANSWER_LABELS = {
    "approve": "once",
    "always": "always {tool}, in this session",
    "deny": "no",
    "ran": "yes",
    "did not run": "no",
    "run again": "run it again",
    "unknown": "unknown, tell the model so",
    "dismiss": "show it no more",
    "later": "later",
}
# The word that may be typed for each letter, in the order in which the letters are offered.
_ANSWER_WORDS = {"y": "yes", "a": "always", "n": "no", "r": "run", "u": "unknown", "d": "dismiss", "l": "later"}
_TITLES = {"approve": "Run it?", DAMAGE_REASON: "Did they run?"}
_TOOL_WIDTH = 24


class OpenQuestions:
    """The open questions of a session and its sub-agents, one at a time; unknown outcomes only when asked for."""

    def __init__(self) -> None:
        self.unanswered: list[Question] = []
        self.outcomes: list[Question] = []
        """The tool calls that may have run. They do not hold up the session."""
        self._asks_outcomes = False
        self._announced: set[str] = set()
        self._printed: set[str] = set()
        self._postponed: set[str] = set()
        self._seen = ""

    @property
    def current(self) -> Question | None:
        """Return the question to answer next, or None."""
        asked = (*self.unanswered, *(self.outcomes if self._asks_outcomes else ()))
        return next((question for question in asked if question.attention.id not in self._postponed), None)

    def update(self, session: Session) -> None:
        """Find the open questions; another process may have answered or raised some."""
        self.unanswered, self.outcomes = collect_questions(session), unknown_outcomes(session)

    def take_new_outcomes(self) -> list[Question]:
        """Return the unknown outcomes if some of them were not announced yet, and mark them as announced."""
        new = {outcome.id for outcome in self.outcomes} - self._announced
        self._announced |= new
        return self.outcomes if new else []

    def take_unprinted(self) -> Question | None:
        """Return the current question if it was not printed yet, and mark it as printed."""
        question = self.current
        if question is None or question.attention.id in self._printed:
            return None
        self._printed.add(question.attention.id)
        return question

    def reset(self) -> None:
        """Ask all questions again, and about the unknown outcomes."""
        self._asks_outcomes = True
        self._printed.clear()
        self._postponed.clear()
        self._seen = ""

    def mark_seen(self) -> None:
        """Record that a frame has shown the current question with nothing typed: from now on it can be answered."""
        self._seen = self.current.attention.id if self.current is not None else ""

    @property
    def is_answerable(self) -> bool:
        """Return whether the current question can be answered."""
        return self.current is not None and self.current.attention.id == self._seen

    def accepts(self, text: str) -> bool:
        """Return whether a line answers the current question."""
        return self.is_answerable and self.current is not None and _parse_answer(self.current, text) is not None

    def answer(self, root: Session, text: str) -> bool:
        """Append the decision that a line stands for; return whether the session can continue now."""
        question = self.current
        word = _parse_answer(question, text) if question is not None else None
        if question is None or word is None:
            return False
        if word == "later":
            self._postponed.add(question.attention.id)
            return False
        alike = [other for other in self.unanswered if other is not question and _is_same_approval(other, question)]
        decided = decide_question(root, question, word)
        for other in alike if word == "always" else ():
            decide_question(root, other, "approve")
        return decided and question.reason != OUTCOME_REASON


def _is_same_approval(one: Question, other: Question) -> bool:
    approve = one.attention.reason == other.attention.reason == "approve"
    return approve and one.tool == other.tool


def _answers_for(question: Question) -> dict[str, str]:
    return ANSWER_KEYS.get(question.attention.reason, ANSWER_KEYS["unknown"])[1]


def _parse_answer(question: Question, text: str) -> str | None:
    """Return the answer that a line stands for, by its letter or its word; None if it is no answer."""
    typed = text.strip().lower()
    return next((word for key, word in _answers_for(question).items() if typed in (key, _ANSWER_WORDS[key])), None)


def question_lines(look: TerminalStyle, question: Question, now: int) -> list[str]:
    """Return a question in full, for the scroll-back."""
    heading, *rest = draw_question(look, question, now)
    diff = diff_lines(look, question.tool, question.input)
    if not diff or not isinstance(question.input, dict):
        return [heading, *rest]
    path = visible(str(question.input.get("path")))
    return [heading, f"    path: {path}", *(f"    {line}" for line in diff)]


def answer_lines(look: TerminalStyle, question: Question, *, is_answerable: bool) -> list[str]:
    """Return the line with the possible answers, shown while the question is open."""
    title = _TITLES.get(question.attention.reason, "Did it run?")
    answers = _answers_for(question)
    tool = clip(look, visible(question.tool), _TOOL_WIDTH)
    labels = {word: label.replace("{tool}", tool) for word, label in _ANSWER_LABELS.items()}
    keys = "  ".join(f"[{key}] {labels[answers[key]]}" for key in _ANSWER_WORDS if key in answers)
    prompt = f"{keys}, then Enter" if is_answerable else "send or clear the typed text, then answer"
    about = f"{tool}: " if tool else ""
    lines = wrap(f"{about}{title}  {prompt}", look.columns)
    return [look.paint("warn", line) for line in lines]
