"""A release: version, changelog and extras agree with each other and with the source."""

import ast
import datetime as dt
import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tools import check_release
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
    matches = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) - (\d{4}-\d\d-\d\d)", title) for title in found]
    titles = [title for title in matches if title is not None]
    assert len(titles) == len(found), found
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


def distribution(requirement):
    """Return the name of the distribution in a requirement such as `click>=8.2`."""
    found = re.match(r"[\w-]+", requirement)
    assert found is not None
    return found[0]


def test_the_testing_extra_has_what_the_suites_import():
    """`pip install 'wakelog[testing]'` is enough to import all of `wakelog.testing`."""
    imported = set()
    for path in (ROOT / "src" / "wakelog" / "testing").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition(".")[0])
    declared = {distribution(line).replace("-", "_") for line in PROJECT["dependencies"]}
    extra = {distribution(line) for line in PROJECT["optional-dependencies"]["testing"]}
    assert imported - sys.stdlib_module_names - {"wakelog"} - declared == extra


def test_dev_tools_are_pinned():
    """Developers and CI run the same versions."""
    assert all("==" in line for line in PROJECT["optional-dependencies"]["dev"])


def _archives(folder, left_out=""):
    """Return a wheel and an sdist that hold the source, apart from one file, and one file more."""
    wheel, sdist = folder / f"wakelog-{VERSION}-py3-none-any.whl", folder / f"wakelog-{VERSION}.tar.gz"
    names = [path for path in (ROOT / "src" / "wakelog").rglob("*.*") if "__pycache__" not in path.parts]
    with zipfile.ZipFile(wheel, "w") as archive, tarfile.open(sdist, "w:gz") as tar:
        for path in names:
            if path.name != left_out:
                archive.writestr(path.relative_to(ROOT / "src").as_posix(), "")
                tar.add(path, f"wakelog-{VERSION}/{path.relative_to(ROOT)}", recursive=False)
        archive.writestr("tests/extra.py", "")
        for name in ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"):
            tar.add(ROOT / name, f"wakelog-{VERSION}/{name}")
    return wheel, sdist


def test_files_that_a_release_lacks_are_named(tmp_path):
    wheel, sdist = _archives(tmp_path, left_out="py.typed")
    assert check_release.find(tmp_path) == [wheel, sdist]
    assert check_release.missing(wheel, sdist) == [
        "wakelog/py.typed is not in the wheel",
        "tests/extra.py is in the wheel but not in the source",
        "SECURITY.md is not in the sdist",
        "src/wakelog/py.typed is not in the sdist",
    ]


def test_other_files_in_dist_are_an_error(tmp_path):
    _archives(tmp_path)
    (tmp_path / "wakelog-0.0.1.tar.gz").write_text("")
    with pytest.raises(SystemExit, match=r"wakelog-0\.0\.1\.tar\.gz"):
        check_release.find(tmp_path)


def test_the_readme_installs_what_is_built():
    """No package index has wakelog: the wheel that the README installs is the one that `make release` builds."""
    text = (ROOT / "README.md").read_text()
    assert re.findall(r"dist/(wakelog-[^'\[]+)", text) == [f"wakelog-{VERSION}-py3-none-any.whl"]
    assert "pip install wakelog" not in text
