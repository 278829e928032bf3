"""docs/laws.md and docs/requirements.md: what they name exists, and every id that is cited is defined there."""

import ast
import functools
import re
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parent.parent
LAWS = ROOT / "docs" / "laws.md"
ROWS = ROOT / "docs" / "requirements.md"
PREFIXES = ("LOG", "TREE", "VIEW", "RUN", "ST")
STATUS = re.compile(r"(done|partly: \S.*|planned(: \S.*)?)\Z", re.DOTALL)
REFERENCE = re.compile(r"`((?:src|tests)/[^`:]+)(?:::(\w+))?`")
ROW_ID = re.compile(rf"\b(?:{'|'.join(PREFIXES)})-[0-9]+\b")
NUMBERS = re.compile(r"\blaws?\s+([0-9]+(?:(?:,\s*(?:and\s+)?|\s+(?:and|or|to)\s+)[0-9]+)*)\b", re.IGNORECASE)
SCANNED = (".py", ".md", ".sql", ".toml", ".json")


class Section(msgspec.Struct, frozen=True):
    """One law or one row: its id, and the text of each of its `- Name:` items."""

    id: str
    items: dict[str, str]

    def references(self, name: str) -> list[tuple[str, str]]:
        """Return the (path, function) pairs in one item; function is empty where a whole file is named."""
        return REFERENCE.findall(self.items.get(name, ""))


def sections(text: str, heading: str) -> list[Section]:
    """Return the sections of a page whose heading line matches; its first group is the id."""
    parts = re.split(rf"^{heading}: .+$", text, flags=re.MULTILINE)[1:]
    return [Section(name, _items(body)) for name, body in zip(parts[::2], parts[1::2], strict=True)]


def _items(body: str) -> dict[str, str]:
    found = re.findall(r"^- (\w+): (.*(?:\n  .*)*)", body, re.MULTILINE)
    return {name: text.strip() for name, text in found}


@functools.cache
def names_in(path: str) -> frozenset[str]:
    """Return the test functions of a file, methods included, and its test classes: one may only subclass a suite."""
    tree = ast.parse((ROOT / path).read_text())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    named = (node.name for node in ast.walk(tree) if isinstance(node, kinds))
    return frozenset(name for name in named if name.startswith(("test_", "Test")))


def is_test_file(path: str) -> bool:
    """Return whether a file is a test module of this project or a suite that it ships."""
    is_suite = path.startswith("src/wakelog/testing/") and path.endswith("_suite.py")
    return is_suite or (path.startswith("tests/") and Path(path).name.startswith("test_"))


def missing_tests(section: Section) -> list[str]:
    """Return the tests that are named and do not exist, and one more line where none is named at all."""
    named = section.references("Tests")
    found = [] if named else [f"{section.id}: names no test"]
    for path, function in named:
        if not is_test_file(path) or not (ROOT / path).is_file():
            found.append(f"{section.id}: {path} is not a test file of this project")
        elif not names_in(path) or (function and function not in names_in(path)):
            found.append(f"{section.id}: {path} has no test {function}".rstrip())
    return found


def missing_modules(section: Section) -> list[str]:
    """Return the modules that are named and do not exist, and one more line where none is named at all."""
    named = section.references("Code")
    found = [] if named else [f"{section.id}: names no module"]
    return found + [f"{section.id}: there is no {path}" for path, _ in named if not (ROOT / path).is_file()]


def problems(laws: str, rows: str) -> list[str]:
    """Return every problem of the two pages."""
    found = []
    for law in sections(laws, r"## (Law [0-9]+)"):
        found += missing_modules(law) + missing_tests(law)
    for row in sections(rows, r"### ([A-Z]+-[0-9]+)"):
        status = row.items.get("Status", "")
        if not STATUS.match(status):
            found.append(f"{row.id}: the status {status!r} is not `done`, `partly: …` or `planned`")
        if not status.startswith("planned"):
            found += missing_modules(row) + missing_tests(row)
    return found


def defined(laws: str, rows: str) -> list[str]:
    """Return the ids of the two pages in their order: `law 1`, `LOG-1`."""
    found = [*sections(laws, r"## (Law [0-9]+)"), *sections(rows, r"### ([A-Z]+-[0-9]+)")]
    return [section.id.replace("Law", "law") for section in found]


def cited_in(text: str) -> set[str]:
    """Return the ids that a text cites, in the form of `defined`. Of a range only its two ends are found."""
    laws = {f"law {number}" for listed in NUMBERS.findall(text) for number in re.findall(r"[0-9]+", listed)}
    return laws | set(ROW_ID.findall(text))


def scanned_files() -> list[Path]:
    """Return sources, tests, documents and case tables. Golden logs are data, not text of this project."""
    files = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml", "Makefile")]
    for folder in ("src", "tests", "docs", "bench", "examples"):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in SCANNED]
    return [path for path in files if ROOT / "tests" / "golden" not in path.parents]


def test_the_pages_name_what_exists():
    """Every law and every row that is not planned names modules and tests, and all of them exist."""
    assert problems(LAWS.read_text(), ROWS.read_text()) == []


def test_the_ids_have_no_gap():
    """Ids are counted from 1 and in order, so that none is lost or defined twice."""
    found = defined(LAWS.read_text(), ROWS.read_text())
    counts = {prefix: sum(name.startswith(f"{prefix}-") for name in found) for prefix in PREFIXES}
    counted = [f"{prefix}-{number}" for prefix in PREFIXES for number in range(1, counts[prefix] + 1)]
    assert found == [*(f"law {number}" for number in range(1, 16)), *counted]
    assert counts == {"LOG": 20, "TREE": 6, "VIEW": 12, "RUN": 26, "ST": 12}


def test_every_cited_id_is_defined():
    """A citation in sources, tests or documents refers to a law or a row."""
    known = set(defined(LAWS.read_text(), ROWS.read_text()))
    places: dict[str, list[str]] = {}
    for path in scanned_files():
        for name in cited_in(path.read_text()):
            places.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if name not in known} == {}
    assert len(places) > 70, "the scan finds citations"


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("Law 6: never", {"law 6"}),
        ("laws 6, 9 and 10; LOG-9", {"law 6", "law 9", "law 10", "LOG-9"}),
        ("Laws 7 and\n8, VIEW-9", {"law 7", "law 8", "VIEW-9"}),
        ("RUN-5 to RUN-7", {"RUN-5", "RUN-7"}),
        ("UTF-8, laws of nature, flawed 3", set()),
        ("LOG-" + "99, law " + "16", {"LOG-" + "99", "law " + "16"}),
    ],
)
def test_citations_are_found(text, cited):
    assert cited_in(text) == cited


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("test_every_node_is_on_a_branch", "test_no_such", "TREE-1: tests/log/test_tree.py has no test test_no_such"),
        (
            "tests/log/test_tree.py::test_every",
            "tests/log/none.py::test_every",
            "TREE-1: tests/log/none.py is not a test",
        ),
        (
            "- Code: `src/wakelog/log/tree.py`\n",
            "- Code: `src/wakelog/log/gone.py`\n",
            "TREE-1: there is no src/wakelog/log/",
        ),
        ("- Status: done", "- Status: nearly", "LOG-1: the status 'nearly' is not"),
        ("- Status: done", "- State: done", "LOG-1: the status '' is not"),
        ("- Status: planned", "- Status: done", "RUN-24: names no test"),
    ],
)
def test_a_broken_row_is_found(old, new, problem):
    """The checks above can fail."""
    broken = ROWS.read_text().replace(old, new, 1)
    assert broken != ROWS.read_text()
    assert any(found.startswith(problem) for found in problems(LAWS.read_text(), broken))


def test_a_broken_law_is_found():
    """A law has no status: without a test it is always a problem."""
    broken = re.sub(r"^- Tests: .*(\n  .*)*", "", LAWS.read_text(), count=1, flags=re.MULTILINE)
    assert problems(broken, ROWS.read_text()) == ["Law 1: names no test"]
