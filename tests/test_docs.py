"""Documents are run: the README's code and commands work as they stand, and no link leads nowhere."""

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
        # Running says on stderr what the tools do; whatever else is said there is a complaint.
        assert words[0] in ("run", "wake") or (done.stdout and not done.stderr), line


def test_the_readme_begins_as_it_should():
    """What it is in one sentence, the two commands, a picture, the program: in that order."""
    places = [README.index(sign) for sign in ("**wakelog keeps", "$ make demo", "$ make test", "![", "```python")]
    assert places == sorted(places)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_map_is_short():
    """CONTRIBUTING is a map of the house in under a hundred lines, and every file it names is there."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert text.count("\n") < 100
    named = re.findall(r"`([a-z_/]+\.py)`", text)
    assert named
    assert all((ROOT / "src" / "wakelog" / name).exists() for name in named)


def test_the_version_is_said_once():
    pyproject = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{VERSION}"' in pyproject
