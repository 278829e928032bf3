"""Random TOML texts in every style of TOML, with the line of each of their keys."""

import json
import tomllib

import msgspec
from hypothesis import strategies as st

NAMES = st.text("abcdefgh", min_size=1, max_size=4)
ODD_NAMES = st.sampled_from(["a b", "x.y", 'q"q', "ü", "#", "[", "=", "a:b", "\\", "\t"])
SCALARS = st.sampled_from(
    [
        *("1", "-7", "0x1f", "1_000", "3.5", "inf", "nan", "true", "1979-05-27", "07:32:00"),
        *("1979-05-27T07:32:00Z", "1979-05-27 07:32:00", "1979-05-27T00:32:00.999-07:00"),
        *('"plain"', "'it [is] # {literal}'", '"a \\" quote # ]"', '"\\\\"', '""', "''", '"= 1"'),
        *('""""""', '"""two\nlines"""', '"""\n[not.a.table]\nkey = 1\n"""', '"""ends in ""\\"""""', '"""two: """""'),
        *("'''\n# no comment\n'''", "'''quotes '' inside'''", "'''ends in '''''", '"""a \\\n   b"""'),
    ]
)
FILLERS = st.sampled_from(["", "\n", "# a comment\n", "   # [table]\n", '\n\n# key = "value"\n', "\t\n"])
TAILS = st.sampled_from(["\n", " # behind\n", "   \n", " # [x]\n"])


class Page:
    """A text under construction."""

    def __init__(self, draw):
        self.draw = draw
        self.text = ""
        self.lines = {}

    @property
    def line(self):
        return self.text.count("\n") + 1

    def put(self, text):
        self.text += text

    def key(self, name):
        bare = name.replace("_", "").replace("-", "").isalnum() and name.isascii()
        styles = [json.dumps(name, ensure_ascii=False), *([name] if bare else [])]
        if "'" not in name and name.isprintable():
            styles.append(f"'{name}'")
        self.put(self.draw(st.sampled_from(styles)))

    def keys(self, names):
        for at, name in enumerate(names):
            if at:
                self.put(self.draw(st.sampled_from([".", " . ", ". "])))
            self.key(name)

    def note(self, path, *, line=None):
        for size in range(1, len(path) + 1):
            self.lines.setdefault(path[:size], line or self.line)

    def value(self, path, depth):
        kind = self.draw(st.sampled_from(["scalar", "scalar", "list", "table"] if depth else ["scalar"]))
        if kind == "scalar":
            self.put(self.draw(SCALARS))
        elif kind == "list":
            self.list(path, depth)
        else:
            self.table(path, depth)

    def list(self, path, depth):
        self.put("[")
        for number in range(self.draw(st.integers(0, 3))):
            self.put(self.draw(st.sampled_from([" ", "\n  ", " # why\n\n  ", ""])))
            self.note((*path, number))
            self.value((*path, number), depth - 1)
            self.put(self.draw(st.sampled_from([",", " ,", "\n,"])))
        self.put(self.draw(st.sampled_from(["]", "\n]", "# end\n]"])))

    def table(self, path, depth):
        self.put("{ ")
        names = self.draw(st.lists(st.one_of(NAMES, ODD_NAMES), max_size=3, unique=True))
        for at, name in enumerate(names):
            self.put(", " if at else "")
            self.note((*path, name))
            self.key(name)
            self.put(" = ")
            self.value((*path, name), depth - 1)
        self.put(" }")

    def pair(self, table, names):
        path = (*table, *names)
        self.put(self.draw(st.sampled_from(["", "  "])))
        self.note(path)
        self.keys(names)
        self.put(self.draw(st.sampled_from([" = ", "=", "\t=  "])))
        self.value(path, 2)
        self.put(self.draw(TAILS))


@st.composite
def pages(draw):
    """Draw a text that the parser accepts, and the line of each of its keys."""
    page = Page(draw)
    tables = draw(st.lists(st.lists(st.one_of(NAMES, ODD_NAMES), min_size=1, max_size=3).map(tuple), max_size=4))
    for number, names in enumerate([(), *tables]):
        page.put(draw(FILLERS))
        # Names of tables and keys are never equal: whether they may be is decided by the parser.
        table = tuple(f"{name}-t{number}" if at == 0 else name for at, name in enumerate(names))
        repeats = 1
        if names:
            repeats = draw(st.sampled_from([0, 0, 1, 2]))
        for repeat in range(max(1, repeats)):
            path = table
            if names:
                double = bool(repeats)
                page.put("[[" if double else "[ ")
                page.note(table)
                path = (*table, repeat) if double else table
                page.note(path)
                page.keys(table)
                page.put("]]" if double else " ]")
                page.put(draw(TAILS))
            for at, key in enumerate(draw(st.lists(st.lists(NAMES, min_size=1, max_size=3).map(tuple), max_size=4))):
                page.put(draw(FILLERS))
                page.pair(path, (f"{key[0]}-k{at}", *key[1:]))
    return page.text, page.lines


def paths_of(value, path=()):
    """Yield every path in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in inner:
        yield (*path, key)
        yield from paths_of(held, (*path, key))


def parsed(text):
    return tomllib.loads(text)


def keys_of(struct):
    return [field.name for field in msgspec.structs.fields(struct)]
