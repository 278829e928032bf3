"""Tests of the locator: what it finds, what it leaves alone, and when it refuses."""

import ast

import pytest

from tests.mutants.locate import NotFound, replaced

TEXT = '''"""Module."""

LIMIT = 10
QUERY = """
SELECT a FROM t WHERE a = ?1 AND b = ?2
"""


class Box:
    """A box."""

    size: int = 1

    @property
    def room(self):
        """Docstring."""  # and a comment
        if self.size > LIMIT and (
            self.open  # why
        ):
            raise ValueError(f"too large: {self.size} of {LIMIT}")
        elif self.size == 3:
            return None
        return self.size + 1

    def fill(self, things, *, quick=False):
        """Docstring."""
        for thing in things:
            self.put(thing, now=True, quick=quick)
            self.log("put a thing", thing)
        self.put(None)
        try:
            match things:
                case [] if quick:
                    return {"a": 1, "b": 2, **self.more}
                case _:
                    pass
        except OSError as error:
            raise KeyError("é") from error

        def inner():
            return self.put(things)

        return inner

    def only(self):
        """Docstring alone."""


def size():
    return LIMIT
'''


def plant(*words, **more):
    """The lines of the text that a replacement removes, and those it adds."""
    fresh = replaced(TEXT, *words, **more)
    compile(fresh, "fresh", "exec")
    before, after = TEXT.split("\n"), fresh.split("\n")
    start = next(at for at, line in enumerate(after) if line != before[at])
    while before and after and before[-1] == after[-1]:
        before.pop()
        after.pop()
    return [line.strip() for line in before[start:]], [line.strip() for line in after[start:]]


def test_an_expression():
    """Only its own text is replaced, in parentheses; comments around it stay."""
    assert plant("Box.room", "self.size + 1", "self.size") == (["return self.size + 1"], ["return (self.size)"])
    assert replaced(TEXT, "Box.room", "self.open", "True").count("# why") == 1
    assert plant("", "10", "20") == (["LIMIT = 10"], ["LIMIT = (20)"])
    assert plant("Box", "1", "2") == (["size: int = 1"], ["size: int = (2)"])
    assert plant("Box.fill", "False", "True")[1] == ["def fill(self, things, *, quick=(True)):"]
    assert plant("Box.fill", "'é'", "'è'")[1] == ["raise KeyError(('è')) from error"]


@pytest.mark.parametrize(
    "old", ["self.size > LIMIT and self.open", "self.size>LIMIT and(self.open)", "(self.size > LIMIT\n and self.open)"]
)
def test_layout_does_not_matter(old):
    """Neither of the piece nor of the source: line breaks, comments and parentheses are not part of a tree."""
    assert plant("Box.room", old, "False")[1] == ["if (False):"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("            self.open  # why\n", "            self.open\n"),
        ('"""Docstring."""', '"""Another one."""'),
        ('f"too large: {self.size} of {LIMIT}"', '"too large"'),
        ("class Box", "# Moved.\n\n\nclass Box"),
        ('"put a thing"', "'put one'"),
        ("    def fill", "    def first(self):\n        return self.put(None)\n\n    def fill"),
    ],
)
def test_a_rewording_does_not_matter(before, after):
    """Comments, docstrings, messages and code elsewhere may change."""
    assert before in TEXT
    text = TEXT.replace(before, after)
    for words in (
        ("Box.room", "self.size > LIMIT and self.open", "False"),
        ("Box.room", "raise ValueError(...)", "pass"),
        ("Box.fill", "self.log(...)", ""),
        ("Box.fill", "self.put(None)", ""),
    ):
        assert replaced(text, *words) != text


def test_statements():
    """They are replaced, removed and added with the indentation of their block."""
    assert plant("Box.fill", "self.put(None)", "") == (["self.put(None)"], [""])
    assert plant("Box.fill", "self.put(None)", "a = 1\nif a: b()")[1] == ["a = 1", "if a:", "b()"]
    assert plant("Box.fill", "self.put(...)\nself.log(...)", "")[1] == ["pass"]
    assert plant("size", "return LIMIT", "")[1] == ["pass"]
    assert plant("Box.fill", "def inner(): ...", "inner = 1")[1] == ["inner = 1"]


def test_the_beginning_of_a_function():
    """An empty old text inserts after the docstring."""
    assert plant("Box.fill", "", "return 1")[1][0] == "return 1"
    assert plant("Box.only", "", "return 1")[1][-1] == "return 1"
    assert plant("size", "", "a = 1") == ([], ["a = 1"])
    for place in ("Box.fill", "Box.only"):
        assert replaced(TEXT, place, "", "return 1").count("ocstring") == TEXT.count("ocstring")


def test_dots_stand_for_the_rest():
    """They take any number of arguments, items, operands or statements, and give them back in order."""
    assert plant("Box.fill", "self.put(..., now=True)", "self.put(...)")[1] == ["(self.put(thing, quick=quick))"]
    assert plant("Box.fill", "self.put(..., now=True)", "self.put(..., now=False)")[1] == [
        "(self.put(thing, now=False, quick=quick))"
    ]
    assert plant("Box.fill", '{"a": 1, **...}', "{**...}")[1] == ["return ({'b': 2, **self.more})"]
    assert plant("Box.fill", '{"b": 2, **...}', '{"b": 3, **...}')[1] == ["return ({'a': 1, 'b': 3, **self.more})"]
    assert plant("Box.room", "... and self.open", "... or self.open")[1] == ["if (self.size > LIMIT or self.open):"]
    assert plant("Box.fill", "for thing in things: ...\nself.put(None)", "self.put(None)\nfor thing in []: ...")[1] == [
        "self.put(None)",
        "for thing in []:",
        "self.put(thing, now=True, quick=quick)",
        "self.log('put a thing', thing)",
    ]


def test_dots_without_any_before_are_an_ellipsis():
    """A new text may need one of its own."""
    assert plant("size", "return LIMIT", "a: tuple[int, ...] = ()")[1] == ["a: tuple[int, ...] = ()"]


def test_a_part_of_a_string():
    """Also of the text in an f-string; the rest of the string stays."""
    assert '"""\nSELECT a FROM t' not in replaced(TEXT, "", '"...a = ?1 AND..."', '"...a = ?1 OR..."')
    fresh = ast.parse(replaced(TEXT, "", '"...a = ?1 AND..."', '"...a = ?1 OR..."'))
    assert "'\\nSELECT a FROM t WHERE a = ?1 OR b = ?2\\n'" in ast.unparse(fresh)
    assert plant("Box.room", '"too large..."', '"as large..."')[1] == [
        "raise ValueError((f'as large: {self.size} of {LIMIT}'))"
    ]
    with pytest.raises(NotFound, match="not found"):
        replaced(TEXT, "", '"a = ?1..."', '"..."')


def test_an_expression_in_an_f_string():
    """The whole string is written again, because its parts have no exact position on every version of Python."""
    assert plant("Box.room", 'f"too large: {self.size} of {LIMIT}"', "''")[1] == ["raise ValueError((''))"]
    assert plant("Box.room", "LIMIT", "0", occurrence=2)[1] == ["raise ValueError((f'too large: {self.size} of {0}'))"]


def test_clauses():
    """A case, an except and an elif."""
    assert "if quick" not in replaced(TEXT, "Box.fill", "case [] if quick: ...", "case []: ...")
    assert "case _" not in replaced(TEXT, "Box.fill", "case _: pass", "")
    assert "except ValueError as error:" in replaced(
        TEXT, "Box.fill", "except OSError as error: ...", "except ValueError as error: ..."
    )
    assert "elif" not in replaced(TEXT, "Box.room", "if self.size == 3: ...", "")
    with pytest.raises(NotFound, match="cannot be written"):
        replaced(TEXT, "Box.fill", "except OSError as error: ...", "")


@pytest.mark.parametrize(
    ("place", "old", "why"),
    [
        ("Box.room", "self.size", "found 4 times in Box.room (lines 17, 20, 21, 23), so write more of it"),
        ("Box.room", "self.width", "not found in Box.room: self.width"),
        ("Box.room", "LIMIT + 1", "not found in Box.room"),
        ("", "LIMIT", "not found in the module level"),
        ("Box.fill", "self.put(things)", "not found in Box.fill"),
        ("Box.rooms", "1", "no function or class 'Box.rooms'"),
        ("room", "1", "no function or class 'room'"),
        ("Box.room", "if", "neither"),
    ],
)
def test_it_refuses(place, old, why):
    """A piece that is missing, that occurs more than once, or that is in another scope."""
    with pytest.raises(NotFound) as found:
        replaced(TEXT, place, old, "0")
    assert why in str(found.value)


def test_occurrence():
    """It chooses one of several, counted from 1."""
    assert plant("Box.room", "self.size", "0", occurrence=4)[1] == ["return (0) + 1"]
    assert plant("Box.fill.inner", "self.put(things)", "0")[1] == ["return (0)"]
    for wrong in (0, 5):
        with pytest.raises(NotFound, match=f"no occurrence {wrong} in Box.room, found 4"):
            replaced(TEXT, "Box.room", "self.size", "0", wrong)


def test_more_dots_than_in_the_old_text_are_refused():
    """Nothing could replace them."""
    with pytest.raises(NotFound, match="2 places to fill"):
        replaced(TEXT, "Box.fill", "self.log(...)", "self.log(..., ...)")
