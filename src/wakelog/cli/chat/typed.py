"""Visible display of the input line: the text stays unchanged, only its display changes.

A terminal would obey, reorder or hide characters of pasted text (law 13: stored text is hostile on the way out). A
grapheme of several characters is displayed as one; the cursor is before or after it.
"""

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from wakelog.cli.chat.standins import StandIns
from wakelog.cli.draw import signs
from wakelog.cli.safe import hostile, visible


class Visible(Processor):
    """Displays signs for invisible characters, and maps positions between text and display."""

    def __init__(self, stand_ins: StandIns) -> None:
        self._stand_ins = stand_ins

    def apply_transformation(self, given: TransformationInput) -> Transformation:
        """See `Processor`."""
        fragments = explode_text_fragments(given.fragments)
        line = "".join(fragment[1] for fragment in fragments)
        if visible(line) == line and self._stand_ins.put(line) == line:
            return Transformation(given.fragments)
        pictures = self._pictures(line)
        drawn: StyleAndTextTuples = [(fragment[0], pictures[at]) for at, fragment in enumerate(fragments)]
        starts = [0]
        for fragment in drawn:
            starts.append(starts[-1] + len(fragment[1]))
        return Transformation(drawn, lambda at: _place(starts, at), lambda shown: _source(starts, shown))

    def _pictures(self, line: str) -> list[str]:
        """Return the display of each character; that of a grapheme is at its first character, the others are empty."""
        harmful = {found.start() for found in hostile().finditer(line)}
        pictures: list[str] = []
        for sign in signs(line):
            at = len(pictures)
            if harmful.isdisjoint(range(at, at + len(sign))):
                one = self._stand_ins.one(sign)
                pictures += list(sign) if one == sign else [one, *[""] * (len(sign) - 1)]
            else:
                pictures += [_alone(line, at + more, harmful) for more in range(len(sign))]
        return pictures


def _alone(line: str, at: int, harmful: set[int]) -> str:
    return visible(line[at]) if at in harmful else line[at]


def _place(starts: list[int], at: int) -> int:
    return starts[at] if at < len(starts) else starts[-1] + at - len(starts) + 1


def _source(starts: list[int], shown: int) -> int:
    """Return the index of the character that is displayed at a position."""
    if shown >= starts[-1]:
        return len(starts) - 1 + shown - starts[-1]
    return max(at for at, start in enumerate(starts) if start <= shown)
