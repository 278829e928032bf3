"""ST-10: programs of the README, the documentation and the examples use public names and type-check strictly."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import wakelog
from tests.programs import python_blocks

ROOT = Path(__file__).parent.parent
# That page is for contributors: its module is a part of the command line, and is run by a test of its own.
FOR_CONTRIBUTORS = ROOT / "docs" / "add-a-command.md"
PAGES = [ROOT / "README.md", *sorted(set((ROOT / "docs").glob("*.md")) - {FOR_CONTRIBUTORS})]
PROGRAMS = {
    f"{page.stem.lower()}_{number}": program
    for page in PAGES
    for number, program in enumerate(python_blocks(page.read_text()), 1)
}
PROGRAMS |= {f"example_{path.stem}": path.read_text() for path in sorted((ROOT / "examples").glob("[0-9]*.py"))}
# Modules whose names a page of the documentation describes, besides the package itself.
DOCUMENTED = {"wakelog.tools", "wakelog.tools.mcp", "wakelog.providers", "wakelog.providers.scripted"}


def test_there_are_programs():
    assert len(PROGRAMS) > 20


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_uses_public_names(name):
    for node in ast.walk(ast.parse(PROGRAMS[name])):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "wakelog":
            assert node.module == "wakelog" or node.module in DOCUMENTED
            if node.module == "wakelog":
                assert {alias.name for alias in node.names} <= set(wakelog.__all__)


def test_programs_type_check_strictly(tmp_path):
    """As a user's own program would: with the types that the package ships."""
    for name, program in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache")]
    # Each is the program of a process of its own, so they are not one package.
    done = subprocess.run(
        [*command, "--config-file", str(ROOT / "pyproject.toml"), *sorted(map(str, tmp_path.glob("*.py")))],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
