"""LOG-14: instruction files are found, read, named in the log, and bounded; a hostile repository gains nothing."""

import os

import pytest

from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy
from wakelog.log.entry import ContextEntry
from wakelog.log.ids import digest_of
from wakelog.reading import read_log
from wakelog.runtime.context_entry import FILE_MAX_BYTES, load_instructions, user_instructions
from wakelog.stores.memory import MemoryStore


@pytest.fixture
def repo(tmp_path):
    folder = tmp_path / "repo"
    (folder / ".git").mkdir(parents=True)
    (folder / "a" / "b").mkdir(parents=True)
    return folder


def test_from_the_root_to_the_folder_and_the_users_own(repo, tmp_path):
    """The most general first; each with its scope, its digest and its size; what is not there is not spoken of."""
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


def test_outside_of_a_repository_only_the_folder_itself(tmp_path):
    """Without git nobody knows where a project begins: the folders above are somebody else's."""
    (tmp_path / "AGENTS.md").write_text("Above.")
    (tmp_path / "in").mkdir()
    assert load_instructions(str(tmp_path / "in")).sources == ()
    assert load_instructions(str(tmp_path)).text.endswith("Above.")


def test_what_is_too_long_is_cut_and_said_to_be(repo):
    """A bound on everything."""
    (repo / "AGENTS.md").write_text("é" * FILE_MAX_BYTES)
    loaded = load_instructions(str(repo))
    (source,) = loaded.sources
    assert (source.truncated, source.bytes) == (True, 2 * FILE_MAX_BYTES)
    assert loaded.text.endswith("[cut off: 32,768 of 65,536 bytes]")
    assert "\ufffd" not in loaded.text


def test_a_file_that_leads_elsewhere_is_left_out(repo, tmp_path):
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
def test_what_is_no_file_is_named(repo, kind):
    """Nobody waits for a pipe, and a folder is no text."""
    path = repo / "AGENTS.md"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    (source,) = load_instructions(str(repo)).sources
    assert source.error


def test_a_run_begins_with_them(repo, tmp_path, monkeypatch):
    """LOG-14: the sources stand in the log, the text in the blob of the instructions; a changed file is a new entry."""
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


def test_where_the_users_own_lies():
    """XDG, with its default."""
    assert user_instructions({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}) == "/c/wakelog/AGENTS.md"
    assert user_instructions({"HOME": "/h"}) == "/h/.config/wakelog/AGENTS.md"


def test_own_words_are_told_from_the_files(repo):
    """LOG-14: at the next run the files are read anew behind the agent's own words, and never twice."""
    (repo / "AGENTS.md").write_text("")
    (repo / "a" / "AGENTS.md").write_text("Use tabs.")
    loaded = load_instructions(str(repo / "a"))
    assert [source.bytes for source in loaded.sources] == [0, 9]
    assert loaded.system_part(loaded.combined_with("Be brief.")) == "Be brief."
    assert loaded.system_part(loaded.combined_with("")) == ""
    for own in ("Be brief.\n", "Be brief.\n\n\n"):
        assert loaded.system_part(own) == loaded.system_part(loaded.combined_with(own)) == own


def test_one_that_comes_later(repo):
    """LOG-14: whether files are read is agreed: a session that found none finds the one there is at its next run."""
    store, agent = MemoryStore(), Agent(model="demo", policy=Policy(instructions=True))
    session = agent.begin(store, cwd=str(repo))
    assert records(store, session)[0].sources == ()
    (repo / "AGENTS.md").write_text("Use tabs.")
    assert [source.scope for source in agent.enter(session).value.sources] == ["project"]
    assert Agent(model="demo").enter(session).value.sources == ()


@pytest.mark.parametrize("cwd", ["/a\0b", "/nowhere/at/all"])
def test_a_folder_that_no_system_has(cwd):
    """Law 13: a log may name any folder."""
    assert isinstance(load_instructions(cwd).sources, tuple)
