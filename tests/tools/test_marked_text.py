"""Law 14: an edit that quotes redaction marks keeps the values that they stand for, or is refused."""

import random
import re

import pytest

from tests.redaction.secrets_made import LETTERS, MADE, Chance
from wakelog.errors import UsageError
from wakelog.redaction.redactor import redact
from wakelog.tools.marked_text import Replacement, replace_text

GITHUB, GITLAB = (next(make for word, make in MADE if word == f"{name}-token") for name in ("github", "gitlab"))
ONE, TWO, THREE = (GITHUB(Chance(number)) for number in range(3))
OTHER = GITLAB(Chance(1))
MARK = redact(ONE).text
OTHER_MARK = redact(OTHER).text
FILE = f"HOST=example.org\nFIRST={ONE}\nSECOND={TWO}\nTHIRD={OTHER}\n# end\n"


def find(text):
    return redact(text).spans


def edited(old, new, *, text=FILE, many=False):
    return replace_text(text, old, new, name="f", many=many, find_secrets=find).text


def refused(old, new="", *, text=FILE, many=False):
    with pytest.raises(UsageError) as raised:
        edited(old, new, text=text, many=many)
    assert not any(key[4:12] in raised.value.message for key in (ONE, TWO, THREE, OTHER))
    return raised.value.message


def test_the_file_of_these_tests_is_redacted():
    assert redact(FILE).text == FILE.replace(ONE, MARK).replace(TWO, MARK).replace(OTHER, OTHER_MARK)
    assert MARK != OTHER_MARK


def test_a_mark_keeps_its_value():
    """The text around it changes; the value keeps its bytes, whatever the line or the order of lines around it."""
    assert edited(f"FIRST={MARK}", f"FIRST_KEY={MARK}") == FILE.replace("FIRST", "FIRST_KEY")
    both = f"FIRST={MARK}\nSECOND={MARK}\n"
    assert edited(both, f"FIRST={MARK}\n# more\nSECOND={MARK}\n") == FILE.replace("SECOND", "# more\nSECOND")
    mixed = f"SECOND={MARK}\nTHIRD={OTHER_MARK}"
    assert edited(mixed, f"A={MARK}\nB={OTHER_MARK}") == FILE.replace("SECOND", "A").replace("THIRD", "B")
    assert edited("example.org", "example.com") == FILE.replace(".org", ".com")


def test_a_value_can_be_removed():
    """A new text without marks removes what the marks of the old text stand for."""
    assert edited(f"SECOND={MARK}\n", "") == FILE.replace(f"SECOND={TWO}\n", "")
    assert edited(f"FIRST={MARK}\nSECOND={MARK}", 'FIRST=os.environ["FIRST"]').count(ONE) == 0


def test_a_mark_matches_only_its_value_at_its_place():
    assert refused(f"FIRST={OTHER_MARK}").startswith("the old text does not stand in f; a redacted value is matched")
    assert refused(f"FOURTH={MARK}").startswith("the old text does not stand in f")
    assert refused(f"={MARK}") == "the old text stands 2 times in f: give more of it"
    assert refused(f"={MARK}", f": {MARK}", many=True) == "the old text stands 2 times in f: give more of it"
    assert refused(MARK, text="nothing here") == "the old text does not stand in f"
    crlf = FILE.replace("\n", "\r\n")
    assert "; the file's lines end in CRLF" in refused(f"{MARK}\nSECOND", text=crlf)


def test_a_mark_that_is_text_of_the_file_stands_for_nothing():
    """Where a file holds a mark as text, too, a match that might be either is refused."""
    literal = f"# KEY={MARK}\n"
    assert "is part of the text of f" in refused(f"# KEY={MARK}", f"# K={MARK}", text=literal + FILE)
    assert "stands 3 times" in refused(f"={MARK}", text=literal + FILE)
    text = literal + f"KEY={ONE}\n"
    assert "stands 2 times" in refused(f"KEY={MARK}", text=text)
    assert edited("# KEY", "# NAME", text=text) == text.replace("# KEY", "# NAME")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("HOST", f"KEY={MARK}", "the new text has a mark that the old text lacks"),
        (f"FIRST={MARK}", f"FIRST={MARK}\nCOPY={MARK}", "all marks of the old text in their order, or none"),
        (f"FIRST={MARK}", f"FIRST={OTHER_MARK}", "all marks of the old text in their order, or none"),
        (f"FIRST={MARK}\nSECOND={MARK}", f"SECOND={MARK}", "all marks of the old text in their order, or none"),
        (f"{MARK}\nTHIRD={OTHER_MARK}", f"{OTHER_MARK}\nTHIRD={MARK}", "all marks of the old text in their order"),
        (f"FIRST={MARK}\nSECOND={MARK}", f"SECOND={MARK}\nFIRST={MARK}", "behind the name of another one"),
    ],
)
def test_what_could_give_a_value_to_another_name_is_refused(old, new, says):
    assert says in refused(old, new)


def test_text_never_matches_a_part_of_a_value():
    """An edit can neither change a value nor find out what is in it; one that quotes the whole value knew it."""
    unknown = refused("FIRST=zzz")
    assert refused(f"FIRST={ONE[:9]}") == refused(ONE[5:9]) == refused(f"{ONE[-5:]}\nSECOND") == unknown
    assert refused(ONE[4], "x", text=f"KEY={ONE}") == unknown
    text = f"a ghp_ b\n{FILE}"
    assert edited("ghp_", "GHP_", text=text, many=True) == text.replace("a ghp_", "a GHP_")
    assert edited(f"FIRST={ONE}", "FIRST=") == FILE.replace(ONE, "")


def test_a_value_stays_recognised():
    """The next read must not show a value because the edit took away the name that it is recognised by."""
    text = "DB_PASSWORD=hT6-wq81Lx0_Zr55kMd\nUSER=ada\n"
    shown = redact(text).text
    assert shown != text
    says = "cannot edit f: a redacted value would no longer be recognised; keep its name and the text around it"
    assert refused(shown.splitlines()[0], shown.splitlines()[0].replace("DB_PASSWORD", "NOTE"), text=text) == says
    assert refused("DB_PASSWORD=", "NOTE: ", text=text) == says
    assert edited("DB_PASSWORD=", "PG_PASSWORD=", text=text) == text.replace("DB_", "PG_")


def test_without_redaction_a_mark_is_text():
    text = f"KEY={MARK}\n"
    assert replace_text(text, f"KEY={MARK}", "KEY=1", name="f") == Replacement("KEY=1\n", 1)
    assert replace_text(text, "KEY", MARK, name="f").text == f"{MARK}={MARK}\n"


# ── random files and random edits ────────────────────────────────────────────────────────────────


class _Case:
    """A random file with secrets, and a random edit of what a model sees of it."""

    def __init__(self, seed):
        self.chance = chance = Chance(seed)
        makes = [make for word, make in MADE if word in ("github-token", "gitlab-token", "anthropic-key", "aws-key")]
        lines, self.values = [], []
        for _ in range(chance.randint(1, 12)):
            name = chance.choice(("FIRST", "second", "a.b", "TOKEN", "DB_PASSWORD", "  - key"))
            sign = chance.choice(("=", ": ", ' = "', "=>"))
            kind = chance.random()
            if kind < 0.5:
                self.values.append(chance.choice(makes)(chance))
                lines.append(f"{name}{sign}{self.values[-1]}")
            elif kind < 0.65:
                self.values.append("x7Q" + chance.some(LETTERS, 24) + "9_k")
                lines.append(f"APP_SECRET={self.values[-1]}")
            else:
                lines.append(f"{name}{sign}{chance.choice(('plain', 'words of a line', '', MARK))}")
        self.text = chance.choice(("\n", "\r\n", "\n\n")).join(lines) + chance.choice(("", "\n"))
        self.shown = redact(self.text).text
        start, end = sorted(chance.choices(range(len(self.shown) + 1), k=2))
        self.old = self.shown[start:end]
        self.new = self._changed(self.old)

    def _changed(self, old):
        pieces = re.split(r"(\[redacted: [a-z0-9-]+\])", old)
        how = self.chance.random()
        if how < 0.2:
            return self.chance.choice(("", "other", f"more {MARK}"))
        if how < 0.3:
            self.chance.shuffle(pieces)
        for place in range(0, len(pieces), 2):
            if self.chance.random() < 0.4:
                pieces[place] += self.chance.choice((" ", "# note\n", "x", "=", '"'))
            elif self.chance.random() < 0.2:
                pieces[place] = pieces[place][1:]
        return "".join(pieces)


def _order(values, text):
    """Return the values that a text holds, by place."""
    return sorted((value for value in values if value in text), key=text.index)


def test_random_edits_change_no_value_and_show_none():
    """Law 14: the values keep bytes and order, except where the model left out every mark; none is shown afterwards."""
    done, messages, values = 0, [], []
    for seed in range(1_500):
        case = _Case(seed)
        values += case.values
        hidden = [value for value in case.values if value not in case.shown]
        try:
            text = replace_text(case.text, case.old, case.new, name="f", find_secrets=find).text
        except UsageError as refusal:
            messages.append(refusal.message)
            continue
        done += 1
        kept = _order(hidden, text)
        assert kept == [value for value in _order(hidden, case.text) if value in kept], seed
        if len(kept) < len(hidden):
            assert "[redacted: " in case.old, seed
            assert "[redacted: " not in case.new, seed
        assert not any(value in redact(text).text for value in kept), seed
        assert all(text.count(value) == 1 for value in kept), seed
    assert done > 300
    said = "\n".join(messages)
    assert not any(value[6:14] in said for value in values)


def test_random_guesses_learn_nothing():
    """Law 14: a text that is part of a value is refused in the same words as one that is nowhere in the file."""
    chance, text = random.Random(7), f"KEY={ONE}\n"
    for _ in range(300):
        start, end = chance.randrange(len(ONE) - 3), chance.randrange(3, len(ONE))
        guess = ONE[start : start + end] if start or end < len(ONE) else ONE[1:]
        known = "KEY=" if start == 0 and chance.random() < 0.5 else ""
        assert refused(known + guess, text=text) == refused("nowhere", text=text)
