"""Documents are run: the README's code and commands work as they stand, and every link leads to something."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from wakelog.version import VERSION

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fenced(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def run(command, folder):
    places = {"WAKELOG_STORE": str(folder / "sessions"), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env=os.environ | places, capture_output=True, text=True, check=False)


def test_the_readme_commands(tmp_path):
    """Every `$ wakelog` line succeeds, in order, on an empty store."""
    lines = [line for block in fenced("console") for line in block.splitlines() if line.startswith("$ wakelog")]
    assert len(lines) >= 8
    for line in lines:
        words = shlex.split(line.removeprefix("$ wakelog"), comments=True)
        done = run([sys.executable, "-m", "wakelog", *words], tmp_path)
        assert done.returncode == 0, (line, done.stderr)
        # A run reports its tools on stderr; any other line there is an error.
        assert words[0] in ("run", "wake") or (done.stdout and not done.stderr), line


def test_the_readme_begins_with_what_it_is():
    """One sentence that says what it is, the two commands, a picture, the program: in that order."""
    places = [README.index(sign) for sign in ("**wakelog keeps", "$ make demo", "$ make test", "![", "```python")]
    assert places == sorted(places)


def test_the_readme_compares_with_the_figures_of_the_last_bench():
    """Every figure of the table "Why not …" is that of `make bench-peers`, rounded."""
    appends, sizes = peer_figures(cells=7, at=3), peer_figures(cells=6, at=4)
    wakelog, langgraph = "wakelog, SQLite", "LangGraph `SqliteSaver`"
    rows = [
        f"takes {appends['wakelog, files']:.1f} times as long as a bare `write` + `fdatasync`",
        f"({appends[wakelog]:.1f} and {appends['OpenAI Agents `SQLiteSession`']:.1f} times a bare insert)",
        f"{appends[langgraph]:.0f} times a bare insert on SQLite",
        f"{sizes[langgraph]:.0f} times its content on disk",
        f"{appends[wakelog]:.1f} times a bare insert, {sizes[wakelog]:.0f} times its content on disk",
    ]
    assert [row for row in rows if row not in README] == []


def peer_figures(cells, at):
    """One column of the tables of other libraries with so many columns, by the name of the library."""
    page = (ROOT / "docs" / "performance.md").read_text()
    rows = [line.strip("|").split(" | ") for line in page[page.index("### Files") :].splitlines() if " | " in line]
    return {row[0].split(" (")[0].strip(): float(row[at]) for row in rows if len(row) == cells and row[at][0].isdigit()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_contributing_page_is_short():
    """CONTRIBUTING has under a hundred lines, and every file it names exists."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert text.count("\n") < 100
    named = re.findall(r"`([a-z_/]+\.py)`", text)
    assert named
    assert [
        name for name in named if not any((place / name).exists() for place in (ROOT / "src" / "wakelog", ROOT))
    ] == []


def test_the_tests_of_every_promise_exist():
    """`docs/reliability.md`: each promise names what tests it, and each file and module that is named exists."""
    text = (ROOT / "docs" / "reliability.md").read_text()
    rows = [line.split(" | ") for line in text.split("## Figures")[0].splitlines() if line.startswith("| ")]
    promises = {promise: tested for promise, tested, _ in rows[1:]}
    assert len(promises) > 10
    for promise, tested in promises.items():
        named = re.findall(r"`(tests/[^`]+|python -m [a-z_.]+|wakelog\.[a-z_.]+)", tested)
        assert len(named) == tested.count("`") // 2, f"write the path of each test in full: {tested}"
        assert named, promise
        for name in named:
            assert any(place.exists() for place in _places(name)), name


def _places(name):
    """Return the places where a file or module that a document names may be."""
    if name.startswith("tests/"):
        return [ROOT / name]
    module = name.removeprefix("python -m ").replace(".", "/")
    return [folder / f"{module}{end}" for folder in (ROOT, ROOT / "src") for end in (".py", "/__main__.py")]


def test_every_test_with_the_mark_faults_is_run():
    """`make test-faults` names the files and folders of all of them: a test elsewhere would be run by no command."""
    (rigs,) = re.findall(r"^RIGS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    marked = [path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark." + "faults" in path.read_text()]
    assert len(marked) >= 4
    for path in marked:
        assert any(path.is_relative_to(ROOT / rig) for rig in rigs.split()), path


def test_the_version_is_written_once():
    pyproject = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{VERSION}"' in pyproject
