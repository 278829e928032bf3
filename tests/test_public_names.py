"""The public names of the package are fixed by tests: adding or removing one is a deliberate change."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import wakelog
from wakelog import errors

SOURCE = Path(wakelog.__file__).parent


def test_names_are_sorted_and_few():
    assert wakelog.__all__ == sorted(wakelog.__all__)
    assert len(wakelog.__all__) <= 42


@pytest.mark.parametrize("name", wakelog.__all__)
def test_every_name_exists(name):
    """Each is the object of that name, and no module of the package hides it."""
    value = getattr(wakelog, name)
    assert getattr(value, "__name__", "__version__") == name
    assert not (SOURCE / f"{name}.py").exists()


def test_type_checkers_see_the_same_names():
    """The imports for type checkers and the names looked up at run time are the same."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    (guard,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        (alias.asname or alias.name, (statement.module or "").removeprefix("wakelog."))
        for statement in guard.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert all(isinstance(statement, ast.ImportFrom) for statement in guard.body)
    assert seen == set(wakelog._MODULE_OF.items())
    assert {name for name, _ in seen} == set(wakelog.__all__)


def test_importing_loads_no_other_package():
    """Start-up time: the package itself loads neither msgspec nor click."""
    code = "import sys, wakelog; print(any(name in sys.modules for name in ('msgspec', 'click', 'sqlite3', 'rich')))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"


def test_the_error_tree_in_the_docstring_is_complete():
    """The tree at the top of errors.py has every class."""
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    classes = [value for value in found if issubclass(value, errors.WakelogError)]
    drawn = [line.strip("│├└─ ").split()[0] for line in errors.__doc__.splitlines() if line.startswith("    ")]
    assert classes == found
    assert sorted(drawn) == sorted(cls.__name__ for cls in classes)
    assert len({cls.kind for cls in classes}) == len(classes)


def test_every_source_file_has_a_docstring():
    """Each source file begins with what it is for."""
    bare = [path for path in SOURCE.rglob("*.py") if not ast.get_docstring(ast.parse(path.read_text()))]
    assert bare == []
