"""`config show` prints where each value comes from, `config check` what is wrong; file content is escaped."""

import pytest

from tests.cli.payloads import PAYLOADS
from tests.cli.ui.test_safe_text import rest


@pytest.fixture(autouse=True)
def _no_model(shell, monkeypatch):
    """Remove the model that other tests set."""
    monkeypatch.delenv("WAKELOG_MODEL")


@pytest.fixture
def mine(shell):
    """Write the user's own file."""
    path = shell.folder / "config" / "wakelog" / "config.toml"
    path.parent.mkdir(parents=True)

    def write(text):
        path.write_text(text)
        return path

    return write


@pytest.fixture
def project(shell):
    """Write the project's file."""

    def write(text):
        path = shell.folder / ".wakelog.toml"
        path.write_text(text)
        return path

    return write


def shown(answer):
    """Return the rows of an answer by their key, without ignored ones."""
    return {row["key"]: row for row in answer.rows if row["taken"]}


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


def test_every_value_and_its_place(shell, mine, project, monkeypatch):
    path = mine("redact = false\n[agents.agent]\nkeep = 7\n[prices.'openai:x']\ninput = 0.3\n")
    theirs = project("\nmodel = 'openai:x'\n")
    monkeypatch.setenv("WAKELOG_STORE", "/from/a/variable")
    rows = shown(shell("config", "show", "--json"))
    assert rows["redact"] == {
        "key": "redact",
        "value": False,
        "from": "file",
        "name": str(path),
        "line": 1,
        "taken": True,
    }
    assert (rows["agents.agent.keep"]["value"], rows["agents.agent.keep"]["line"]) == (7, 3)
    assert (rows["model"]["name"], rows["model"]["line"]) == (str(theirs), 2)
    assert (rows["agents.agent.model"]["value"], rows["agents.agent.model"]["line"]) == ("openai:x", 2)
    assert (rows["store"]["value"], rows["store"]["name"]) == ("/from/a/variable", "WAKELOG_STORE")
    assert (rows["agents.agent.approvals.read"]["value"], rows["agents.agent.approvals.read"]["from"]) == (
        "auto",
        "default",
    )
    assert rows['prices."openai:x".input']["value"] == 0.3
    option = shown(shell("config", "--store", "/from/an/option", "--json"))["store"]
    assert (option["value"], option["from"], option["name"]) == ("/from/an/option", "option", "--store")


def test_the_default_store(shell, monkeypatch):
    monkeypatch.delenv("WAKELOG_STORE")
    row = shown(shell("config", "--json"))["store"]
    assert (row["value"], row["from"]) == (str(shell.folder / "data" / "wakelog" / "sessions"), "default")


def test_as_text(shell, mine):
    path = mine("model = 'openai:x'\n")
    lines = shell("config").out.splitlines()
    assert lines[0].split() == ["KEY", "VALUE", "FROM"]
    assert lines[1].split() == ["model", '"openai:x"', f"{path}:1"]
    assert all(line.rstrip() == line for line in lines)


def test_an_ignored_setting_is_shown_and_reported_once(shell, project):
    path = project("model = 'openai:x'\nstore = '/evil'\n[mcp.x]\ncommand = ['evil']\n")
    answer = shell("config", "--json")
    assert [row["key"] for row in answer.rows if not row["taken"]] == ["store", "mcp.x.command"]
    assert shown(answer)["store"]["value"] == str(shell.store)
    assert answer.err.count("\n") == 1
    assert f"{path} is not trusted; settings left out: store (line 2), mcp.x.command (line 4); " in answer.err
    assert f"{path}:2, left out" in shell("config").out


def test_an_error_is_left_out_and_reported(shell, mine):
    mine("modl = 'x'\nredact = false")
    answer = shell("config", "show", "--json")
    assert (answer.code, shown(answer)["redact"]["value"]) == (0, False)
    assert answer.err == "wakelog: 1 mistake, left out here; `wakelog config check` explains\n"


def test_no_secret_is_shown(shell, mine, monkeypatch):
    """LOG-13: keys are not looked up, and a store's password is hidden."""
    told = shell.folder / "told"
    mine(f"[providers.openai]\nkey_command = ['touch', '{told}']\n[providers.anthropic]\nkey_env = 'MINE'\n")
    monkeypatch.setenv("MINE", "hunter2hunter2")
    monkeypatch.setenv("WAKELOG_STORE", "postgresql://me:hunter2hunter2@host/db?password=hunter2")
    for words in (("config",), ("config", "--json"), ("config", "check"), ("config", "check", "--json")):
        answer = shell(*words)
        assert answer.code == 0, answer.err
        assert "hunter2" not in answer.out + answer.err
    assert not told.exists()
    assert '"MINE"' in shell("config").out


# ── check ────────────────────────────────────────────────────────────────────────────────────────


def test_a_valid_configuration(shell, mine, project):
    assert (
        shell("config", "check").out
        == f"no configuration file exists; yours would be {shell.folder}/config/wakelog/config.toml\n"
    )
    path, theirs = mine("redact = true"), project("model = 'demo'")
    answer = shell("config", "check")
    assert (answer.code, answer.out) == (0, f"no mistakes in {path}, {theirs}\n")


def test_every_error_of_every_file(shell, mine, project):
    path, theirs = mine("modl = 1\n\n[agents.a]\nkeep = 'x'\n"), project("a = = b")
    answer = shell("config", "check")
    assert answer.code == 2
    assert answer.out.splitlines() == [
        f"{path}:1: unknown key modl; did you mean model?",
        f"{path}:4: agents.a.keep must be a whole number, 0 or more, not text",
        f'{theirs}:1:5: invalid TOML: Invalid value; put text in quotes: key = "text"',
        f"3 mistakes in {path}, {theirs}",
    ]
    found = shell("config", "check", "--json")
    assert (found.code, found.json["ok"]) == (2, False)
    assert [(each["line"], each["column"]) for each in found.json["mistakes"]] == [(1, None), (4, None), (1, 5)]


def test_a_missing_folder(shell, mine, monkeypatch):
    path = mine("redact = true")
    gone = shell.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert shell("config", "check").out == f"no mistakes in {path}\n"
    monkeypatch.chdir(shell.folder)


def test_an_unknown_word(shell):
    assert shell("config", "chekc").code == 2


# ── hostile text ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_text_is_escaped(shell, project, payload):
    """Law 13: in keys, values and messages, on a terminal and in JSON."""
    text = '"' + "".join(f"\\U{ord(sign):08X}" for sign in payload) + '"'
    project(f"{text} = 1\nmodel = {text}\nagents.agent.system = {text}\nagents.agent.extra.{text} = {text}\n")
    assert shown(shell("config", "--json"))["agents.agent.system"]["value"] == payload
    for words in (("config",), ("config", "check")):
        answer = shell(*words)
        assert answer.code in (0, 2)
        assert answer.out
        assert rest(answer.out + answer.err) == []
        assert rest(shell(*words, "--json").out) == []


def test_hostile_names_of_files(shell, monkeypatch):
    """The name of a folder may contain any bytes."""
    folder = shell.folder / "\udcff\x1b[31m"
    folder.mkdir()
    (folder / ".wakelog.toml").write_text("modl = 1\nstore = 'x'")
    monkeypatch.chdir(folder)
    for words in (("config",), ("config", "check")):
        for answer in (shell(*words), shell(*words, "--json")):
            assert answer.code in (0, 2), answer.err
            assert rest(answer.out + answer.err) == []


def test_the_configured_store(shell, mine, monkeypatch):
    """Every command uses it. An unclear one is reported, and no other store is used instead."""
    monkeypatch.delenv("WAKELOG_STORE")
    mine("store = '~/elsewhere'\n[agents.a]\nkeep = 'wrong, and nothing to a store'\n")
    assert shell("new").code == 0
    assert [path.name for path in (shell.folder / "elsewhere").glob("*.jsonl")] == ["agent_user_1.jsonl"]
    assert shell("ls", "--all", "--json").json["name"] == "agent_user_1"
    mine("stroe = '~/elsewhere'\n")
    answer = shell("ls")
    assert (answer.code, answer.err.count("did you mean store?")) == (2, 1)
    mine("model = 'gpt-5'\n")
    assert (shell("ls").code, shell("run", "Hi.").code) == (0, 2)
    mine("")
    (shell.folder / ".wakelog.toml").write_text("nosuch = 1\nstore = 'theirs'\n")
    assert (shell("ls").code, shell("ls", "--json").rows) == (0, [])
