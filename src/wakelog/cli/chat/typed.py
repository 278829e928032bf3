"""What is being typed, made visible: the text stays as it is, only its picture changes.

A terminal would obey, reorder or hide what somebody pastes without looking (law 13). A sign of many characters is one
picture, and the cursor stands before or behind it.
"""

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from wakelog.cli.chat.standins import StandIns
from wakelog.cli.draw import signs
from wakelog.cli.safe import hostile, visible


class Visible(Processor):
    """Shows signs for what cannot be seen, and knows which place in the picture is which in the text."""

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
        """The picture of each character; that of a sign of many stands at its first, and the others have none."""
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
    """The character whose picture stands at a place."""
    if shown >= starts[-1]:
        return len(starts) - 1 + shown - starts[-1]
    return max(at for at, start in enumerate(starts) if start <= shown)
