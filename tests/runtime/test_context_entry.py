"""LOG-14: instruction files are found, read, named in the log and limited in size.

A hostile repository gains nothing.
"""

import os

import pytest

from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy
from wakelog.log.entry import ContextEntry
from wakelog.log.ids import digest_of
from wakelog.providers import open_provider
from wakelog.reading import read_log
from wakelog.runtime.context_entry import (
    FILE_MAX_BYTES,
    ModelInForce,
    load_instructions,
    user_instructions,
    with_environment,
)
from wakelog.stores.memory import MemoryStore


@pytest.fixture
def repo(tmp_path):
    folder = tmp_path / "repo"
    (folder / ".git").mkdir(parents=True)
    (folder / "a" / "b").mkdir(parents=True)
    return folder


def test_files_are_read_from_the_most_general_to_the_most_specific(repo, tmp_path):
    """Each file has its scope, digest and size; files that do not exist are not listed."""
    own = tmp_path / "own.md"
    own.write_text("Be kind.")
    (repo / "AGENTS.md").write_text("Use tabs.\n")
    (repo / "a" / "b" / "AGENTS.md").write_text("Use spaces.")
    (tmp_path / "AGENTS.md").write_text("Outside of the repository.")
    loaded = load_instructions(str(repo / "a" / "b"), user_file=str(own))
    assert [(source.path, source.scope, source.bytes) for source in loaded.sources] == [
        (str(own), "user", 8),
        (str(repo / "AGENTS.md"), "project", 10),
        (str(repo / "a" / "b" / "AGENTS.md"), "folder", 11),
    ]
    assert loaded.sources[1].hash == digest_of(b"Use tabs.\n")
    assert loaded.combined_with("You are brief.") == "\n\n".join(
        [
            "You are brief.",
            f"Instructions from {own}:\n\nBe kind.",
            f"Instructions from {repo / 'AGENTS.md'}:\n\nUse tabs.",
            f"Instructions from {repo / 'a' / 'b' / 'AGENTS.md'}:\n\nUse spaces.",
        ]
    )


def test_outside_of_a_repository_only_the_folder_itself_is_read(tmp_path):
    """Without git the root of the project is unknown: folders above the working folder are not read."""
    (tmp_path / "AGENTS.md").write_text("Above.")
    (tmp_path / "in").mkdir()
    assert load_instructions(str(tmp_path / "in")).sources == ()
    assert load_instructions(str(tmp_path)).text.endswith("Above.")


def test_a_long_file_is_truncated_with_a_notice(repo):
    """The size of instructions is limited."""
    (repo / "AGENTS.md").write_text("é" * FILE_MAX_BYTES)
    loaded = load_instructions(str(repo))
    (source,) = loaded.sources
    assert (source.truncated, source.bytes) == (True, 2 * FILE_MAX_BYTES)
    assert loaded.text.endswith("[cut off: 32,768 of 65,536 bytes]")
    assert "\ufffd" not in loaded.text


def test_a_link_out_of_the_repository_is_left_out(repo, tmp_path):
    """Law 13: a cloned repository cannot send the user's files to a model."""
    secret = tmp_path / "secret"
    secret.write_text("the key")
    (repo / "AGENTS.md").symlink_to(secret)
    (repo / "a" / "AGENTS.md").symlink_to(repo / "inside.md")
    (repo / "inside.md").write_text("Inside is fine.")
    loaded = load_instructions(str(repo / "a"))
    assert [source.error for source in loaded.sources] == ["it points out of the repository", None]
    assert "the key" not in loaded.text
    assert "Inside is fine." in loaded.text


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_pipe_or_folder_is_reported_and_not_read(repo, kind):
    """A pipe is not waited for, and a folder is not text."""
    path = repo / "AGENTS.md"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    (source,) = load_instructions(str(repo)).sources
    assert source.error


def test_a_run_records_its_instruction_files(repo, tmp_path, monkeypatch):
    """LOG-14: the sources are in the log, the text in the blob of the instructions.

    A changed file makes a new entry.
    """
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (repo / "AGENTS.md").write_text("Use tabs.")
    store = MemoryStore()
    agent = Agent(model="demo", system="You are brief.\n", policy=Policy(instructions=True))
    session = agent.begin(store, cwd=str(repo))
    (record,) = records(store, session)
    assert [source.path for source in record.sources] == [str(repo / "AGENTS.md")]
    assert b"Use tabs." in store.blobs.get(record.system)
    assert record.environment["cwd"] == str(repo)
    assert agent.enter(session) is None
    (repo / "AGENTS.md").write_text("Use spaces.")
    assert agent.enter(session) is not None
    assert b"Use spaces." in store.blobs.get(records(store, session)[-1].system)


def records(store, session):
    entries = read_log(store, session.name).entries
    return [entry.value for entry in entries if isinstance(entry.value, ContextEntry)]


def test_the_path_of_the_users_own_file():
    """The XDG variable, or its default."""
    assert user_instructions({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}) == "/c/wakelog/AGENTS.md"
    assert user_instructions({"HOME": "/h"}) == "/h/.config/wakelog/AGENTS.md"


def test_instructions_of_the_agent_stay_before_those_of_the_files(repo):
    """LOG-14: at the next run the files are read again after the agent's own instructions, and never added twice."""
    (repo / "AGENTS.md").write_text("")
    (repo / "a" / "AGENTS.md").write_text("Use tabs.")
    loaded = load_instructions(str(repo / "a"))
    assert [source.bytes for source in loaded.sources] == [0, 9]
    assert loaded.system_part(loaded.combined_with("Be brief.")) == "Be brief."
    assert loaded.system_part(loaded.combined_with("")) == ""
    for own in ("Be brief.\n", "Be brief.\n\n\n"):
        assert loaded.system_part(own) == loaded.system_part(loaded.combined_with(own)) == own


def test_a_file_created_later_is_read_by_the_next_run(repo):
    """LOG-14: whether files are read is a setting: a session that found none reads the new one at its next run."""
    store, agent = MemoryStore(), Agent(model="demo", policy=Policy(instructions=True))
    session = agent.begin(store, cwd=str(repo))
    assert records(store, session)[0].sources == ()
    (repo / "AGENTS.md").write_text("Use tabs.")
    assert [source.scope for source in agent.enter(session).value.sources] == ["project"]
    assert Agent(model="demo").enter(session).value.sources == ()


@pytest.mark.parametrize("cwd", ["/a\0b", "/nowhere/at/all"])
def test_a_folder_name_no_system_can_have(cwd):
    """Law 13: a log may name any folder."""
    assert isinstance(load_instructions(cwd).sources, tuple)


# ── environment ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("params", "level"),
    [
        ({}, "default"),
        ({"effort": "low"}, "low"),
        ({"effort": "low", "extra": {"reasoning": {"effort": "high"}}}, "high"),
        ({"effort": "low", "extra": {"reasoning_effort": None}}, "default"),
        ({"extra": {"output_config": {"effort": "medium"}}}, "medium"),
        ({"effort": "low", "extra": {"reasoning": "high"}}, "low"),
        ({"effort": "low", "extra": "high"}, "low"),
    ],
)
def test_the_reasoning_level_is_that_of_the_request(params, level):
    """VIEW-12: what `extra` merges into a request takes precedence over `effort`."""
    assert environment_with(params)["reasoning"] == level


@pytest.mark.parametrize(
    ("extra", "mode"),
    [
        ({"web_search_options": {}}, "web_search_options"),
        ({"web_search_options": None}, None),
        ({"tools": [{"type": "file_search"}, {"type": "web_search_preview"}]}, "web_search_preview"),
        ({"tools": [{"type": 3}, 7]}, None),
        ({"tools": 7}, None),
    ],
)
def test_the_search_mode_is_that_of_the_request(extra, mode):
    """VIEW-12: a request that lets the provider search the web says so; where there is no such setting, nothing."""
    environment = environment_with({"extra": extra})
    assert environment.get("searchMode") == mode
    assert ("searchMode" in environment) == (mode is not None)


def environment_with(params):
    before = ContextEntry(params=params, environment={"searchMode": "old", "capabilities": {}, "absentServers": []})
    model = ModelInForce.of(open_provider, "scripted", "/no/such/file")
    entry = with_environment(before, cwd="", model=model)
    assert entry.environment["absentServers"] == []
    assert "capabilities" not in entry.environment
    return entry.environment
