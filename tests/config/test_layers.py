"""The most specific value wins: user, project from the outside in, variables, options; each value with its place."""

import pytest

from tests.config.layers import ROOT, USER, loaded, place
from wakelog.config.schema import DEFAULT, AgentConfig, LoadedConfig
from wakelog.errors import UsageError


def test_without_any_settings():
    made = loaded()
    assert (made.config.model, made.config.agent, made.config.store, made.config.redact) == (
        None,
        "agent",
        None,
        "assignments",
    )
    assert made.config.agents == {"agent": AgentConfig()}
    assert made.place_of("model") == DEFAULT
    assert (made.mistakes, made.notices) == ((), ())


def test_the_most_specific_wins():
    user = "model = 'openai:user'\nstore = '/user'"
    files = (user, "model = 'openai:outer'", "\nmodel = 'openai:inner'")
    places = [(files[:1], f"{USER}:1"), (files[:2], f"{ROOT}/.wakelog.toml:1"), (files, f"{ROOT}/sub/.wakelog.toml:2")]
    for texts, where in places:
        assert place(loaded(*texts), "model") == where
    said = loaded(*files, environ={"WAKELOG_MODEL": "demo", "WAKELOG_STORE": "/e"}, options={"--store": "/o"})
    assert (said.config.model, place(said, "model")) == ("demo", "$WAKELOG_MODEL")
    assert (said.config.store, place(said, "store")) == ("/o", "--store")


def test_an_empty_value_replaces_too():
    made = loaded("[agents.a.extra]\nx = {y = 1}", "[agents.a.extra]\nx = {}", trusted=True)
    assert made.config.agents["a"].extra == {"x": {}}


def test_tables_are_merged_and_lists_are_not():
    made = loaded(
        "[agents.a]\ntools = ['read', 'list']\nkeep = 7\n[agents.a.extra]\nx = 1\ny = 1",
        "[agents.a]\ntools = ['read']\n[agents.a.extra]\ny = 2",
        trusted=True,
    )
    agent = made.config.agents["a"]
    assert (agent.tools, agent.keep, agent.extra) == (("read",), 7, {"x": 1, "y": 2})


@pytest.mark.parametrize(
    ("user", "project", "kept"),
    [
        ("[agents.a]\nsystem = 'x'", "[agents.a]\nsystem_file = 'f'", (None, f"{ROOT}/f")),
        ("[agents.a]\nsystem_file = 'f'", "[agents.a]\nsystem = 'x'", ("x", None)),
    ],
)
def test_two_keys_for_one_setting(user, project, kept):
    """The more specific file also replaces the other key."""
    agent = loaded(user, project).config.agents["a"]
    assert (agent.system, agent.system_file) == kept


def test_a_server_moves_elsewhere():
    made = loaded("[mcp.x]\ncommand = ['a']", "[mcp.x]\nurl = 'http://b'", trusted=True)
    assert (made.config.mcp["x"].command, made.config.mcp["x"].url) == (None, "http://b")
    assert made.mistakes == ()


def test_an_option_wins_over_the_model_of_an_agent():
    user = "model = 'openai:all'\n[agents.a]\nmodel = 'openai:a'\n[agents.b]"
    models = {name: agent.model for name, agent in loaded(user).config.agents.items()}
    assert models == {"a": "openai:a", "b": "openai:all", "agent": "openai:all"}
    assert place(loaded(user), "agents", "b", "model") == f"{USER}:1"
    said = loaded(user, options={"--model": "demo"})
    assert {agent.model for agent in said.config.agents.values()} == {"demo"}
    assert place(said, "agents", "a", "model") == "--model"


def test_variables():
    """An empty variable sets nothing, and an error names the variable."""
    assert loaded("model = 'openai:x'", environ={"WAKELOG_MODEL": ""}).config.model == "openai:x"
    for said, meant in {"off": "off", "0": "off", "no": "off", "1": "keys", "TRUE": "keys", "Keys": "keys"}.items():
        assert loaded(environ={"WAKELOG_REDACT": said}).config.redact == meant
    for word in ("assignments", "strict"):
        assert loaded(environ={"WAKELOG_REDACT": word}).config.redact == word
    assert loaded(environ={"WAKELOG_STORE": "/odd/\udcff"}).config.store == "/odd/\udcff"
    (mistake,) = loaded(environ={"WAKELOG_REDACT": "maybe"}).mistakes
    assert str(mistake) == "$WAKELOG_REDACT: redact must be keys, assignments, strict or off"


# ── names that lead nowhere ──────────────────────────────────────────────────────────────────────


def test_an_unconfigured_agent():
    (mistake,) = loaded("agent = 'reviwer'\n[agents.reviewer]").mistakes
    assert str(mistake) == f'{USER}:1: unknown agent "reviwer"; did you mean reviewer?'
    (mistake,) = loaded(environ={"WAKELOG_AGENT": "x"}).mistakes
    assert str(mistake) == '$WAKELOG_AGENT: unknown agent "x"; no agent is configured'
    assert loaded(options={"--agent": "anybody"}).mistakes == ()


def test_an_agent_that_only_a_project_describes():
    assert loaded("agent = 'reviewer'", "[agents.reviewer]").mistakes == ()


def test_an_unconfigured_server():
    (mistake,) = loaded("[agents.a]\nmcp = ['serch']\n[mcp.search]\nurl = 'http://x'").mistakes
    assert str(mistake) == f'{USER}:2: unknown server "serch"; did you mean search?'


def test_an_unknown_tool():
    """Without a server only the built-in tools exist; with one, its tools are known when it is asked."""
    (mistake,) = loaded("[agents.a.approvals]\nshel = 'deny'").mistakes
    assert str(mistake) == f'{USER}:2: unknown tool "shel"; did you mean shell?'
    server = "[mcp.x]\nurl = 'http://x'\n[agents.a]\nmcp = ['x']\napprovals.mcp__x__find = 'auto'"
    assert loaded(server).mistakes == ()
    (mistake,) = loaded(server.replace("mcp__x__find", "mcp_x__find")).mistakes
    assert str(mistake) == f'{USER}:5: unknown tool "mcp_x__find"; did you mean mcp__x__TOOL?'
    (mistake,) = loaded(server.replace("mcp__x__find", "shel")).mistakes
    assert str(mistake) == f'{USER}:5: unknown tool "shel"; did you mean shell?'


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ("", "1: server x has neither command nor url; set one of them"),
        # Reported once: the other error is only a consequence of this one.
        ('command = "x"', '2: mcp.x.command must be a program and its arguments, as ["program", "argument"], not text'),
        (
            "command = ['a']\nbearer_env = 'B'",
            "3: bearer_env has no effect: server x is a program; pass the variable with env",
        ),
        (
            "url = 'http://x'\nenv = ['B']",
            "3: env has no effect: server x is a url; remove it; bearer_env names the variable that holds its key",
        ),
        (
            "url = 'http://x'\ncwd = '/'",
            "3: cwd has no effect: server x is a url; remove it; bearer_env names the variable that holds its key",
        ),
    ],
)
def test_a_server_with_missing_or_conflicting_keys(server, says):
    (mistake,) = loaded(f"[mcp.x]\n{server}").mistakes
    assert str(mistake) == f"{USER}:{says}"


def test_an_unknown_key_of_a_server_does_not_hide_a_missing_command():
    """Both errors are reported: neither is the reason for the other."""
    assert [mistake.path for mistake in loaded("[mcp.x]\nzzz = 1").mistakes] == [("mcp", "x"), ("mcp", "x", "zzz")]


def test_an_invalid_configuration_is_refused():
    made = loaded("modl = 'x'\nstor = 'y'\nredact = false")
    with pytest.raises(UsageError) as error:
        made.require_valid()
    assert error.value.message == f"{USER}:1: unknown key modl; did you mean model?; 1 more: see `wakelog config check`"
    assert made.config.redact is False
    assert LoadedConfig().require_valid() == LoadedConfig().config
