"""A release: version, changelog and extras agree with each other and with the source."""

import ast
import datetime as dt
import re
import sys
import tomllib
from pathlib import Path

from wakelog.version import APP, VERSION

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def test_the_versions_agree():
    assert PROJECT["version"] == VERSION
    assert f"wakelog/{VERSION}" == APP


def test_the_changelog_has_the_version():
    """The newest version is the one in pyproject.toml, with a date; older ones follow in order."""
    found = re.findall(r"^## (?!Unreleased)(.*)$", CHANGELOG, re.MULTILINE)
    titles = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) - (\d{4}-\d\d-\d\d)", title) for title in found]
    assert all(titles), found
    versions = [(tuple(map(int, title.groups()[:3])), dt.date.fromisoformat(title[4])) for title in titles]
    assert versions == sorted(versions, reverse=True)
    assert ".".join(map(str, versions[0][0])) == VERSION


def test_changes_are_sorted_by_kind():
    """Keep a Changelog: `Unreleased` is first; a version has some of six sections, each once and in this order."""
    kinds = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    first, *versions = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]
    assert first.startswith("Unreleased\n")
    for version in (first, *versions):
        sections = re.findall(r"^### (.*)$", version, re.MULTILINE)
        assert sections == [kind for kind in kinds if kind in sections]


def test_the_testing_extra_has_what_the_suites_import():
    """`pip install 'wakelog[testing]'` is enough to import all of `wakelog.testing`."""
    imported = set()
    for path in (ROOT / "src" / "wakelog" / "testing").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition(".")[0])
    declared = {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in PROJECT["dependencies"]}
    extra = {re.match(r"[\w-]+", line)[0] for line in PROJECT["optional-dependencies"]["testing"]}
    assert imported - sys.stdlib_module_names - {"wakelog"} - declared == extra


def test_dev_tools_are_pinned():
    """Everyone, and CI, runs the same versions."""
    assert all("==" in line for line in PROJECT["optional-dependencies"]["dev"])
