"""Files are found by their real paths and read without blocking; every problem with one is an error with its place."""

import os
import re

import pytest

from wakelog.config.files import FILE_MAX_BYTES, configured_store, load_config
from wakelog.errors import UsageError


@pytest.fixture
def desk(tmp_path):
    """A home folder, and a project with a folder in it."""
    made = Desk(tmp_path)
    (made.project / ".git").mkdir(parents=True)
    (made.project / "sub" / "deep").mkdir(parents=True)
    return made


class Desk:
    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "project"
        self.user = self.home / ".config" / "wakelog" / "config.toml"
        self.user.parent.mkdir(parents=True)
        self.environ = {"HOME": str(self.home)}

    def load(self, cwd=None, **environ):
        return load_config(str(cwd or self.project), {**self.environ, **environ})


def test_no_file_at_all(desk):
    loaded = desk.load()
    assert (loaded.mistakes, loaded.notices) == ((), ())
    assert [(source.path, source.found) for source in loaded.sources] == [(str(desk.user), False)]


def test_the_path_of_the_users_file(desk):
    """XDG, and one variable that wins over it."""
    elsewhere = desk.folder / "wakelog" / "config.toml"
    elsewhere.parent.mkdir()
    elsewhere.write_text("model = 'openai:xdg'")
    desk.user.write_text("model = 'openai:home'")
    (desk.home / "named.toml").write_text("model = 'openai:named'")
    assert desk.load().config.model == "openai:home"
    assert desk.load(XDG_CONFIG_HOME=str(desk.folder)).config.model == "openai:xdg"
    assert desk.load(WAKELOG_CONFIG="~/named.toml").config.model == "openai:named"
    assert desk.load(WAKELOG_CONFIG="/dev/null").config.model is None
    (mistake,) = desk.load(WAKELOG_CONFIG="/no/such.toml").mistakes
    assert str(mistake) == "/no/such.toml: /no/such.toml cannot be read: No such file or directory"


def test_from_the_top_of_the_repository_to_here(desk):
    for folder, keep in ((desk.folder, 1), (desk.project, 2), (desk.project / "sub", 3)):
        (folder / ".wakelog.toml").write_text(f"[agents.a]\nkeep = {keep}\ncompact_at = {keep}\n")
    (desk.project / "sub" / "deep" / ".wakelog.toml").write_text("[agents.a]\nkeep = 4")
    for folder, keep, compact_at in (("", 2, 2), ("sub", 3, 3), ("sub/deep", 4, 3)):
        agent = desk.load(desk.project / folder).config.agents["a"]
        assert (agent.keep, agent.compact_at) == (keep, compact_at)


def test_outside_of_git_only_the_current_folder_counts(desk):
    (desk.folder / ".wakelog.toml").write_text("model = 'openai:above'")
    (desk.home / ".wakelog.toml").write_text("[agents.a]\nkeep = 1")
    loaded = desk.load(desk.home)
    assert (loaded.config.model, loaded.config.agents["a"].keep) == (None, 1)


# ── trust ────────────────────────────────────────────────────────────────────────────────────────


def test_a_trusted_project(desk):
    (desk.project / "sub" / ".wakelog.toml").write_text("[mcp.x]\ncommand = ['x']")
    assert desk.load(desk.project / "sub").config.mcp == {}
    link = desk.home / "link"
    link.symlink_to(desk.project)
    for named in (desk.project, f"{desk.project}/", "~/link", desk.project / "sub"):
        desk.user.write_text(f"[trust]\nprojects = ['{named}']")
        assert list(desk.load(desk.project / "sub").config.mcp) == ["x"]
        assert list(desk.load(link / "sub").config.mcp) == ["x"]


def test_a_repository_inside_a_trusted_one_is_not_trusted(desk):
    """A clone in a trusted folder has another author."""
    desk.user.write_text(f"[trust]\nprojects = ['{desk.project}', '{desk.folder}']")
    clone = desk.project / "sub" / "deep"
    (clone / ".git").mkdir()
    (clone / ".wakelog.toml").write_text("[mcp.x]\ncommand = ['x']")
    loaded = desk.load(clone)
    assert loaded.config.mcp == {}
    assert len(loaded.notices) == 1


# ── the text of an agent ─────────────────────────────────────────────────────────────────────────


def test_a_system_file_is_read(desk):
    (desk.project / "system.md").write_text("You review.\n")
    (desk.project / ".wakelog.toml").write_text("[agents.a]\nsystem_file = 'system.md'")
    agent = desk.load(desk.project / "sub").config.agents["a"]
    assert (agent.system, agent.system_file) == ("You review.\n", str(desk.project / "system.md"))


def test_a_link_out_of_an_untrusted_project_is_not_followed(desk):
    (desk.home / "id_ed25519").write_text("PRIVATE")
    (desk.project / "system.md").symlink_to(desk.home / "id_ed25519")
    (desk.project / ".wakelog.toml").write_text("[agents.a]\nsystem_file = 'system.md'")
    loaded = desk.load()
    assert (loaded.config.agents["a"].system, len(loaded.notices), loaded.mistakes) == (None, 1, ())
    desk.user.write_text(f"[trust]\nprojects = ['{desk.project}']")
    assert desk.load().config.agents["a"].system == "PRIVATE"


def test_a_system_file_that_cannot_be_read(desk):
    desk.user.write_text("\n[agents.a]\nsystem_file = 'gone.md'\n[agents.b]\nsystem_file = 'odd.md'\n")
    (desk.user.parent / "odd.md").write_bytes(b"\xff")
    said = [str(mistake) for mistake in desk.load().mistakes]
    gone, odd = (desk.user.parent / name for name in ("gone.md", "odd.md"))
    assert said == [
        f"{desk.user}:3: {gone} cannot be read: No such file or directory",
        f"{desk.user}:5: {odd} cannot be read: it is not UTF-8",
    ]


# ── whatever a path turns out to be ──────────────────────────────────────────────────────────────


def test_a_file_that_is_not_text(desk):
    desk.user.write_bytes(b"# one\n# two \xff\n")
    assert [str(mistake) for mistake in desk.load().mistakes] == [f"{desk.user}:2: {desk.user} is not UTF-8"]
    desk.user.write_bytes(b"\xef\xbb\xbfmodel = 'openai:bom'\r\n")
    assert desk.load().config.model == "openai:bom"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_a_path_that_is_not_a_regular_file(desk, make):
    """A pipe is not waited for, and a device is not read for ever."""
    make(desk.project / ".wakelog.toml")
    (mistake,) = desk.load().mistakes
    assert "cannot be read: " in str(mistake)


def test_a_file_that_is_too_large(desk):
    (desk.project / ".wakelog.toml").write_text("#" * (FILE_MAX_BYTES + 1))
    (mistake,) = desk.load().mistakes
    assert str(mistake).endswith("it is larger than 128 KiB")


def test_an_unreadable_file(desk):
    desk.user.symlink_to(desk.user)
    (mistake,) = desk.load().mistakes
    assert "cannot be read: " in str(mistake)


# ── the store ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wrong",
    [
        "model = 'gpt-5'",
        "modl = 1",
        "agent = 'nobody'",
        "agents = 3",
        "[agents.a]\nsystem_file = 'gone'\nhooks = ['nosuch']",
        "[agents.a]\nsystem = 'x'\nsystem_file = 'y'",
        "[agents.'a b']\nkeep = 1",
        "[mcp.x]\ntimeout = 1\nargs = ['x']",
        "[mcp.x]\ncommand = ['x']\nbearer_env = 'X'",
        "[agents.a]\nmcp = ['nobody']\n[agents.b.approvals]\nnosuch = 'ask'",
    ],
)
def test_the_store_is_found_beside_other_errors(desk, monkeypatch, wrong):
    """Law 9: a command that only reads needs the store alone; other errors matter to commands that need the rest."""
    monkeypatch.chdir(desk.project)
    desk.user.write_text(wrong)
    assert desk.load().mistakes
    assert configured_store(desk.environ) is None
    desk.user.write_text(f"store = '/mine'\n{wrong}")
    assert configured_store(desk.environ) == "/mine"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("store = 3", "store must be text"),
        ("store = ''", "store must be text"),
        ("[store]\npath = '/mine'", "store must be text"),
        ("stroe = '/mine'", "did you mean store?"),
        ("model = 'demo'\n[agents.a]\nstore = '/mine'", "unknown key agents.a.store"),
        ("[trust]\nprojects = '/theirs'", "trust.projects must be"),
        ("store = /mine", "invalid TOML"),
        ("x = 1\n" + "".join(f"x{at} = 1\n" for at in range(100)), "the rest is not read"),
    ],
)
def test_an_unclear_store_is_an_error(desk, monkeypatch, wrong, said):
    """The sessions of another store than the intended one are never shown; one line says what is unclear."""
    monkeypatch.chdir(desk.project)
    desk.user.write_text(wrong)
    with pytest.raises(UsageError, match=re.escape(said)):
        configured_store(desk.environ)


def test_the_store_of_a_project(desk, monkeypatch):
    """The file of a trusted project may set another store than the user's; that of an untrusted one may not."""
    monkeypatch.chdir(desk.project)
    desk.user.write_text("store = '/mine'\n")
    theirs = desk.project / ".wakelog.toml"
    for wrong in ("store = 3", "not TOML"):
        theirs.write_text(wrong)
        desk.user.write_text("store = '/mine'\n")
        assert configured_store(desk.environ) == "/mine"
        desk.user.write_text(f"store = '/mine'\ntrust.projects = ['{desk.project}']")
        with pytest.raises(UsageError, match=re.escape(str(theirs))):
            configured_store(desk.environ)
    theirs.write_text("model = 'gpt-5'\n[trust]\nprojects = []")
    assert configured_store(desk.environ) == "/mine"
    theirs.write_text("store = '/theirs'\n[agents.a]\nstore = '/none'")
    assert configured_store(desk.environ) == "/theirs"
