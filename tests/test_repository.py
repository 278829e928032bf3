"""Files for contributors (templates, workflow, hooks and editor settings) are valid and ask for what is needed."""

import configparser
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
YAML_FILES = [*FORMS, *sorted((ROOT / ".github" / "workflows").glob("*.yml")), ROOT / ".pre-commit-config.yaml"]


def _targets():
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_it_is_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_forms_have_what_github_requires(name):
    """Each field has a type, a label and an id of its own; the form has a name and a description."""
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text())
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"input", "textarea", "dropdown", "checkboxes"}
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_forms_ask_for_version_and_doctor(name):
    """With a warning, because the output names sessions and paths."""
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text())
    fields = {field["id"]: field for field in form["body"] if "id" in field}
    assert "`wakelog --version`" in fields["version"]["attributes"]["description"]
    assert "`wakelog doctor`" in fields["doctor"]["attributes"]["description"]
    assert "remove what is private" in fields["doctor"]["attributes"]["description"]


def test_the_workflow_tests_every_supported_version():
    """It runs `make test` from the oldest version that pyproject.toml allows."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    job = workflow["jobs"]["test"]
    versions = job["strategy"]["matrix"]["python-version"]
    assert all(isinstance(version, str) for version in versions)  # 3.10 as a number is 3.1
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={versions[0]}"
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert [step["run"] for step in job["steps"] if "make" in step.get("run", "")] == ["make test PYTHON=python"]


def test_hooks_use_the_virtual_environment():
    """Nothing is downloaded: each hook is local, and runs what `make lint` runs."""
    configuration = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repository["repo"] for repository in configuration["repos"]] == ["local"]
    hooks = configuration["repos"][0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    (lint,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert tools == set(re.findall(r"\$\(BIN\)/([a-z-]+)", lint))


def test_editor_settings_agree_with_the_formatter():
    parser = configparser.ConfigParser(strict=True)
    parser.read_string("[DEFAULT]\n" + (ROOT / ".editorconfig").read_text())
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    assert int(parser["*"]["max_line_length"]) == ruff["line-length"]
    assert parser["Makefile"]["indent_style"] == "tab"


@pytest.mark.parametrize(
    "name", ["SECURITY.md", ".github/pull_request_template.md", "CONTRIBUTING.md", "docs/index.md"]
)
def test_commands_that_are_named_exist(name):
    named = set(re.findall(r"`make ([a-z-]+)`", (ROOT / name).read_text()))
    assert named <= _targets()


def test_security_names_the_version():
    """The table of supported versions has the one that is built from here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    minor = ".".join(project["version"].split(".")[:2])
    assert re.search(rf"^\| {re.escape(minor)} \| yes \|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
