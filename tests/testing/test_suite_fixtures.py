"""ST-7: a test class that forgets the fixture of its suite fails; it never tests what another folder provides."""

import ast
import re
from pathlib import Path

import pytest

import wakelog.testing

TESTS = Path(__file__).parents[1]
SUITES = sorted(Path(wakelog.testing.__file__).parent.glob("*_suite.py"))
NEEDED = {path.name: re.findall(r"with one fixture, `(\w+)`", path.read_text().split('"""')[1]) for path in SUITES}


def fixtures_of(path: Path) -> set[str]:
    """Return the names of the functions at the top level of a file; the fixtures of a conftest are among them."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, kinds)}


def test_the_fixtures_of_the_suites_are_known():
    """The first lines of a suite that is subclassed name its fixture."""
    assert {name: found for name, found in NEEDED.items() if found} == {
        "blob_suite.py": ["rig"],
        "catalog_suite.py": ["rig"],
        "channel_suite.py": ["stage"],
        "store_suite.py": ["rig"],
    }


@pytest.mark.parametrize("conftest", sorted(TESTS.rglob("conftest.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_no_conftest_provides_the_fixture_of_a_suite(conftest):
    """A fixture of the class itself, or of its module, is the only one that a suite can get."""
    needed = {name for found in NEEDED.values() for name in found}
    assert fixtures_of(conftest) & needed == set()
