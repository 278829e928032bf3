"""The line of each key of a TOML text, in every style of TOML."""

import pytest
from hypothesis import given, settings

from tests.config.texts import pages, parsed, paths_of
from wakelog.config.toml_lines import key_lines, line_of_overlong_key


@settings(max_examples=100, deadline=None)
@given(pages())
def test_every_key_has_its_line(page):
    """Tables, dotted keys, inline tables, lists of tables, elements; comments and strings that look like them."""
    text, lines = page
    assert set(paths_of(parsed(text))) == set(lines)
    assert key_lines(text) == lines


def test_a_typical_file():
    text = (
        '# mine\nmodel = "a"\n\n[agents.one]\ntools = [\n  "read",\n  "list", # looks\n]\nextra = { a = 1, b.c = 2 }\n'
        '[agents."two words".hooks]\nmemory = false\n[[x]]\ny = 1\n[[x]]\ny = 2\n[x.z]\nw = """\n[no]\n"""\nq = 1\n'
    )
    lines = key_lines(text)
    assert lines[("model",)] == 2
    assert lines["agents", "one"] == 4
    assert (lines["agents", "one", "tools"], lines["agents", "one", "tools", 1]) == (5, 7)
    assert lines["agents", "one", "extra", "b", "c"] == 9
    assert lines["agents", "two words", "hooks", "memory"] == 11
    assert (lines["x", 0, "y"], lines["x", 1, "y"], lines["x", 1, "z"], lines["x", 1, "z", "q"]) == (13, 15, 16, 20)


@pytest.mark.parametrize("value", ['"""two: """""', '"""\\""""', "'''two: '''''", '""""""', '"""a\n""b"""'])
def test_quotes_at_the_end_of_a_string(value):
    assert key_lines(f"a = {value}\nb = 1")[("b",)] == value.count("\n") + 2


@pytest.mark.parametrize(
    "text",
    ["a.." * 9, "[", "[a", "a", "a =", "a = {", 'a = "', "a = [1, 2", "= 1", "[[a]\n", "]", "a = '''", "\\", "\0"],
)
def test_invalid_toml_ends_the_search(text):
    """Never an exception, never an endless loop; the lines found before are returned."""
    assert key_lines(f"first = 1\n{text}")[("first",)] == 1


def test_depth_costs_nothing():
    """A hostile file with one long key does not create a table for each of its prefixes."""
    assert len(key_lines(".".join("a" * 30_000) + " = 1")) < 20
    assert len(key_lines("a = " + "[" * 5_000 + "]" * 5_000)) < 20


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\n" + ".".join("a" * 200) + " = 1", 2),
        ("[" + " . ".join(['"\\""'] * 200) + "]", 1),
        ("a = {b = {" + ".".join("a" * 200) + " = 1}}", 1),
        (".".join("a" * 60) + " = 1", 0),
        (f"a = '{'a.b' * 200}'", 0),
        (f"# {'a.b' * 200}", 0),
        (f"a b = 1 # {'.' * 200}", 1),
    ],
)
def test_text_that_would_cost_the_parser_too_much_is_found(text, line):
    """Only keys count; text that cannot be followed is not given to the parser either."""
    assert line_of_overlong_key(text) == line
