"""What is being typed, made visible: the text stays as it is, only its picture changes.

A terminal would obey, reorder or hide what somebody pastes without looking (law 13).
"""

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from wakelog.cli.safe import visible


class Visible(Processor):
    """Shows signs for what cannot be seen, and knows which place in the picture is which in the text."""

    def apply_transformation(self, given: TransformationInput) -> Transformation:
        """See `Processor`."""
        fragments = explode_text_fragments(given.fragments)
        line = "".join(fragment[1] for fragment in fragments)
        if visible(line) == line:
            return Transformation(given.fragments)
        drawn: StyleAndTextTuples = [(fragment[0], _picture(line, at)) for at, fragment in enumerate(fragments)]
        starts = [0]
        for fragment in drawn:
            starts.append(starts[-1] + len(fragment[1]))
        return Transformation(drawn, lambda at: _place(starts, at), lambda shown: _source(starts, shown))


def _picture(line: str, at: int) -> str:
    """The picture of one character where it stands: what it is depends on the one before it."""
    before = line[max(0, at - 1) : at]
    return visible(before + line[at])[len(visible(before)) :]


def _place(starts: list[int], at: int) -> int:
    return starts[at] if at < len(starts) else starts[-1] + at - len(starts) + 1


def _source(starts: list[int], shown: int) -> int:
    """The character whose picture stands at a place."""
    if shown >= starts[-1]:
        return len(starts) - 1 + shown - starts[-1]
    return max(at for at, start in enumerate(starts) if start <= shown)
