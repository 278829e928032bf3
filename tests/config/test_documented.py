"""docs/config.md is run: its whole file is accepted, its table equals the code, and its errors are found as it says."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.config.layers import USER, loaded
from tests.config.texts import keys_of, paths_of
from wakelog.config.layers import OPTIONS, VARIABLES
from wakelog.config.schema import AgentConfig, Config, McpConfig, PriceConfig, ProviderConfig, TrustConfig
from wakelog.config.validation import describe_type, is_table, table_value_type
from wakelog.config.validation import table_keys as keys_in

TEXT = (Path(__file__).parents[2] / "docs" / "config.md").read_text()
FENCES = re.findall(r"^```(\w+)(?: (\w+))?\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
((WHOLE,), (MISTAKEN,), (SAYS,), (CONSOLE,)) = (
    [text for kind, word, text in FENCES if (kind, word) == wanted]
    for wanted in (("toml", ""), ("toml", "mistaken"), ("text", "says"), ("console", ""))
)
ROWS = re.findall(r"^\| `([\w.]+)` \| (.*?) \| (.*?) ?\|$", TEXT, re.MULTILINE)
NAMED = {"agents": "NAME", "mcp": "NAME", "providers": "NAME", "prices": "MODEL"}
NAMED_BELOW = {"approvals": "TOOL", "extra": "KEY", "hooks": "HOOK"}


def leaves(kind, path=()):
    """Return every key of the code, as the table names it, and its type."""
    if table_value_type(kind) is not None:
        name = NAMED_BELOW.get(path[-1]) or NAMED[path[-1]]
        yield from leaves(table_value_type(kind), (*path, name))
    elif is_table(kind):
        for key, inner in keys_in(kind).items():
            yield from leaves(inner, (*path, key))
    else:
        yield ".".join(path), describe_type(kind)


def test_the_table_is_the_code():
    assert [(key, words) for key, words, _ in ROWS] == list(leaves(Config))


@pytest.mark.parametrize(
    ("table", "struct"),
    [("", Config), ("agents.NAME.", AgentConfig), ("mcp.NAME.", McpConfig), ("prices.MODEL.", PriceConfig)],
)
def test_the_defaults_are_those_of_the_code(table, struct):
    """Where the table has a value, it is the default of the code."""
    defaults = struct()
    for key, _, default in ROWS:
        name = key.removeprefix(table)
        value = re.fullmatch(r"`(.*)`", default)
        if key.startswith(table) and value and hasattr(defaults, name) and default != "`model`":
            assert value[1] == json.dumps(getattr(defaults, name)).strip('"'), key


def test_the_whole_file_is_accepted():
    made = loaded(WHOLE)
    assert (made.mistakes, made.notices) == ((), ())
    assert list(made.config.agents) == ["agent", "reviewer"]


def test_the_whole_file_names_every_key():
    """Except keys that exclude each other, of which it has one."""
    named = {path[-1] for path in paths_of(tomllib.loads(WHOLE))}
    keys = {
        key
        for struct in (Config, AgentConfig, McpConfig, ProviderConfig, PriceConfig, TrustConfig)
        for key in keys_of(struct)
    }
    assert keys - named == {"system_file"}


def test_errors_are_found_as_it_says():
    assert [str(mistake).removeprefix(f"{USER}:") for mistake in loaded(MISTAKEN).mistakes] == SAYS.splitlines()


def test_variables_and_options_are_named():
    row = next(line for line in TEXT.splitlines() if line.startswith("| variables |"))
    assert re.findall(r"`(\w+)`", row) == list(VARIABLES)
    row = next(line for line in TEXT.splitlines() if line.startswith("| options |"))
    assert re.findall(r"`(--\w+)`", row) == list(OPTIONS)


def test_the_commands_answer_as_shown(tmp_path):
    """On a machine with that file and nothing else; `…` stands for the rest."""
    file = tmp_path / ".config" / "wakelog" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(WHOLE)
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("WAKELOG_", "XDG_"))}
    for command, said in re.findall(r"^\$ wakelog (.*)\n((?:[^$].*\n)*)", CONSOLE, re.MULTILINE):
        words = [sys.executable, "-m", "wakelog", *command.split()]
        environ = {**mine, "HOME": str(tmp_path)}
        done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        shown = done.stdout.replace(str(tmp_path), "~")
        assert shown.startswith(said.removesuffix("…\n"))
        assert (shown != said) == said.endswith("…\n")
