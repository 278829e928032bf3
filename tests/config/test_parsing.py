"""A wrong key is reported with its line and the nearest right one; every other error with its line and what to do."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.config.texts import keys_of
from wakelog.config.parsing import MISTAKES_MAX, parse_config
from wakelog.config.schema import AgentConfig, Config, McpConfig, PriceConfig, ProviderConfig, TrustConfig

FILE = "/here/config.toml"


def mistakes(text, role="user"):
    """Return the errors as they are printed, without the name of the file."""
    return [str(mistake).removeprefix(f"{FILE}:") for mistake in parse_config(text, FILE, role).mistakes]


def only(text, role="user"):
    (mistake,) = mistakes(text, role)
    return mistake


def values(text):
    reading = parse_config(text, FILE, home="/home/me")
    assert reading.mistakes == ()
    return {".".join(setting.path): setting.value for setting in reading.settings if setting.value != {}}


# ── wrong keys ───────────────────────────────────────────────────────────────────────────────────

# Each table, how it is opened, its keys, and for each key a valid value.
TABLES = {
    "": Config,
    "[agents.one]": AgentConfig,
    "[mcp.one]": McpConfig,
    "[providers.openai]": ProviderConfig,
    '[prices."openai:x"]': PriceConfig,
    "[trust]": TrustConfig,
}
PLACES = [(header, key) for header, struct in TABLES.items() for key in keys_of(struct)]
OF_TABLES = {"agents", "mcp", "providers", "prices", "trust", "approvals", "extra", "hooks"}


@st.composite
def slips(draw):
    """A key with one typing error: a letter lost, doubled, wrong, too many, or two in the wrong order."""
    header, key = draw(st.sampled_from([place for place in PLACES if len(place[1]) > 2]))
    at = draw(st.integers(0, len(key) - 1))
    letter = draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz_"))
    slip = draw(
        st.sampled_from(
            [
                key[:at] + key[at + 1 :],
                key[:at] + letter + key[at + 1 :],
                key[:at] + letter + key[at:],
                key[:at] + key[at : at + 2][::-1] + key[at + 2 :],
            ]
        )
    )
    return header, key, slip


@settings(max_examples=300, deadline=None)
@given(slips(), st.integers(0, 5), st.integers(0, 5))
def test_a_typing_error(slip, above, between):
    """The line is the one of the error, and the intended word is named."""
    header, key, typed = slip
    assume(typed not in keys_of(TABLES[header]))
    value = "{}" if key in OF_TABLES and (header != "[agents.one]" or key != "mcp") else "1"
    text = "# a comment\n" * above + f"{header}\n" + "\n" * between + f"{typed} = {value}\n"
    line = above + between + 2
    assert only(text).startswith(f"{line}: unknown key ")
    assert only(text).endswith(f"did you mean {key}?")


def test_words_of_other_programs():
    assert only('[agents.one]\nwindow = "full"') == "2: unknown key agents.one.window; did you mean strategy?"
    assert only('[providers.openai]\nendpoint = "x"').endswith("did you mean base_url?")


def test_the_suggestion_is_of_the_same_kind():
    """A table is suggested for a table, and a key for a key."""
    assert only("[agentz.one]").endswith("did you mean agents?")
    assert only("agentz = 'one'").endswith("did you mean agent?")


def test_a_word_without_similar_ones_lists_all():
    assert only("zzz = 1").endswith(
        "use one of agent, agents, mcp, model, prices, providers, redact, store, trust, trusted_owners"
    )


def test_the_table_of_one_agent_in_place_of_all():
    assert only("[agent.one]\nmodel = 1").endswith("not a table; did you mean [agents.…]?")


def test_messages_are_short():
    long = "x" * 50_000
    texts = (f"{long} = 1", f"[agents.a.extra]\n{long} = 1979-05-27", f"model = '{long}:x'", f"agents.{long}.keep = 1")
    assert all(len(only(text)) < 400 for text in texts)


def test_the_number_of_errors_is_bounded():
    """A hostile file yields no more than a hundred of them."""
    found = mistakes("".join(f"k{number} = 1\n" for number in range(5_000)))
    assert len(found) == MISTAKES_MAX + 1
    assert found[-1] == "100: stopped after 100 mistakes; the rest is not read"


# ── wrong values ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model = 1", "1: model must be PROVIDER:NAME, or demo, not a number"),
        ('model = "claude"', "1: model must be PROVIDER:NAME, or demo"),
        ('model = "antropic:x"', '1: unknown provider "antropic"; did you mean anthropic?'),
        (
            'model = "nobody:x"',
            '1: unknown provider "nobody"; use one of anthropic, openai, openai-chat, scripted, demo',
        ),
        ("redact = 1", "1: redact must be keys, assignments, strict or off, not a number"),
        ('agents = "x"', "1: agents must be a table, not text"),
        ("agents.one = 1", "1: agents.one must be a table, not a number"),
        ('agents."a b" = {}', '1: "a b" is not a valid name; use at most 64 letters, digits, - and _'),
        ("[agents.a]\nmax_tokens = 0", "2: agents.a.max_tokens must be a whole number, 1 or more"),
        (
            "[agents.a]\nmax_tokens = true",
            "2: agents.a.max_tokens must be a whole number, 1 or more, not true or false",
        ),
        ("[agents.a]\ntemperature = 3", "2: agents.a.temperature must be a number from 0 to 2"),
        ("[agents.a]\ntemperature = nan", "2: agents.a.temperature must be a number from 0 to 2"),
        (
            '[agents.a]\neffort = "hihg"',
            '2: agents.a.effort must be low, medium or high, not "hihg"; did you mean high?',
        ),
        ('[agents.a]\nstrategy = "window:0"', "2: agents.a.strategy must be full, window:MESSAGES or budget:TOKENS"),
        ('[agents.a]\ntools = [\n"read",\n"lst"]', '4: unknown tool "lst"; did you mean list?'),
        ("[agents.a]\ntools = 'read'", "2: agents.a.tools must be a list of names, not text"),
        ("[agents.a]\ntools = [1]", "2: agents.a.tools must be a list of names"),
        (
            "[agents.a.approvals]\nshell = true",
            "2: agents.a.approvals.shell must be auto, ask or deny, not true or false",
        ),
        (
            "[agents.a]\nextra.x = 1979-05-27",
            "2: agents.a.extra.x must be a JSON value (no dates, no infinite numbers)",
        ),
        ("[agents.a.hooks]\nmemroy = true", '2: unknown built-in hook "memroy"; did you mean memory?'),
        ("[agents.a.hooks]\nx = []", "2: the command has no program: its first element is missing or empty"),
        (
            "[agents.a.hooks]\nx = {comand = ['a']}",
            (
                "2: agents.a.hooks.x must be true, false, a program and its arguments, "
                "or a table of `command` and `timeout`"
            ),
        ),
        (
            "[agents.a]\nhooks = ['memory',\n'mine']",
            '3: unknown hook "mine"; use environment, memory or agents, or define your own in [agents.a.hooks]',
        ),
        ("[mcp.x]\nurl = 'ftp://x'", "2: mcp.x.url must be a URL, http:// or https://, without a login"),
        (
            "[mcp.x]\ncommand = 'npx server'",
            '2: mcp.x.command must be a program and its arguments, as ["program", "argument"], not text',
        ),
        (
            "[mcp.x]\ncommand = ['a\\u0000']".replace("'", '"'),
            '2: mcp.x.command must be a program and its arguments, as ["program", "argument"]',
        ),
        (
            "[mcp.x]\ncommand = ['a']\nurl = 'http://b'",
            "3: mcp.x.command and url exclude each other; remove one of them",
        ),
        ("[mcp.x]\nenv = {A = 'b'}", "2: mcp.x.env must be a list of variable names, not a table"),
        ("[mcp.x]\ntimeout = 0", "2: mcp.x.timeout must be a number of seconds, more than 0"),
        (
            "[providers.opanai]",
            '1: provider "opanai" has no address or key to configure; did you mean openai?',
        ),
        ("[prices.gpt]", "1: the name of a price must be PROVIDER:NAME"),
        ("[prices.'opnai:x']", '1: unknown provider "opnai"; did you mean openai?'),
        (
            "[prices.'openai:x']\ninput = '1'",
            '2: prices."openai:x".input must be dollars per million tokens, 0 or more, not text',
        ),
        (
            "[prices.'openai:x']\ninput = inf",
            '2: prices."openai:x".input must be dollars per million tokens, 0 or more',
        ),
        ("[trust]\nprojects = ['src']", '2: "src" is not an absolute path; begin it with / or ~'),
    ],
)
def test_wrong_values(text, says):
    assert only(text) == says


def test_a_project_cannot_trust_itself():
    assert only("\n[trust]\nprojects = ['/']", "project").startswith("2: a project cannot trust itself")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = 1\nb = = 2", "2:5: invalid TOML: Invalid value"),
        ("a = 1\na = 2\n", "2:6: invalid TOML: Cannot overwrite a value"),
        ("a = 1\n\n[b", "3: invalid TOML: "),
        ("x = 1" + "0" * 5_000, "1: invalid TOML: Exceeds the limit"),
        ("a = " + "[" * 3_000, " invalid TOML, or nested too deeply"),
        ("[agents.a.extra]\nx = " + "[" * 480 + "]" * 480, ""),
        ("[agents.a.extra]\n" + ".".join("x" * 60_000) + " = 1", "2: invalid TOML, or nested too deeply"),
        ("\n[" + " . ".join(['"\\""'] * 9_000) + "]", "2: invalid TOML, or nested too deeply"),
    ],
)
def test_invalid_toml(text, place):
    """A syntax error with its line and column; hostile depth and length are reported in the same way."""
    found = mistakes(text)
    assert [each for each in found if not each.startswith(place)] == []
    assert len(found) <= 1


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("model = demo", 'put text in quotes: key = "text"'),
        ("a = 1\na = 2", "it is set twice: remove one of them"),
        ("[agents.a]\n[agents.a]", "it is set twice: remove one of them"),
        ("a = {x = 1, x = 2}", "it is set twice: remove one of them"),
        ('a = "C:\\home"', "put this text in single quotes"),
        ("a = [1, 2", "close the open [ or {"),
        ("model: demo", "each line is key = value or [table]; text is in quotes"),
        ("a = " + "[" * 3_000, "each line is key = value or [table]; text is in quotes"),
        (".".join("x" * 60_000) + " = 1", "each line is key = value or [table]; text is in quotes"),
    ],
)
def test_the_hint_for_invalid_toml(text, cure):
    """One line says what is wrong and what to do."""
    assert only(text, "project").endswith(f"; {cure}")


def test_a_long_text_is_not_depth():
    """Dots are counted in keys, not in values."""
    assert values(f"[agents.a]\nsystem = '{'a.b' * 200}'") == {"agents.a.system": "a.b" * 200}


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────

KEY = "sk-" + "ab12" * 8


@pytest.mark.parametrize(
    "text",
    [
        f"[providers.openai]\napi_key = '{KEY}'",
        "[providers.openai]\nkey = 'anything'",
        f"[providers.openai]\nkey_env = '{KEY}'",
        f"[mcp.x]\ncommand = ['server', '--token', '{KEY}']",
        f"[mcp.x]\nurl = 'https://x/mcp?api_key={KEY[3:]}'",
        "[mcp.x]\nbearer_token = 'anything'",
        "[mcp.x]\npassword = 'anything'",
        f"[agents.a]\nextra.headers.deep = [{{x = 'Bearer {KEY[3:]}'}}]",
        f"[agents.a]\nsystem = 'The key is {KEY}.'",
        "x = 1\nstore = 'postgresql://me:hunter2hunter2@host/db'".removeprefix("x = 1"),
        f"[mcp.x]\ncommand = ['server', 'AKIA{'Q7' * 8}']",
        f"[agents.a.hooks]\nmine = ['curl', '-H', 'Authorization: Bearer {KEY[3:]}']",
    ],
)
def test_a_secret_in_a_file_is_refused_and_not_repeated(text):
    """Secrets come from the environment or a program; the message says so, and does not repeat the secret."""
    said = only(text)
    assert said.startswith("2: ")
    assert "secret" in said
    assert "key_env" in said
    assert "key_command" in said
    assert all(word not in said for word in (KEY, KEY[3:], "anything", "hunter2"))


@pytest.mark.parametrize("text", ["[providers.openai]\nkey_env = 'a-b'", "[mcp.x]\nbearer_env = 'tok en'"])
def test_a_name_that_may_be_a_secret_is_not_repeated(text):
    assert only(text).endswith("must be the name of an environment variable")


def test_typing_errors_are_not_taken_for_secrets():
    assert only("[agents.a]\nmax_token = 1").endswith("did you mean max_tokens?")


# ── what is right ────────────────────────────────────────────────────────────────────────────────


def test_every_toml_style_gives_the_same_values():
    """Tables, dotted keys and inline tables are equal."""
    table = values("[agents.a]\nmodel = 'demo'\n[agents.a.approvals]\nshell = 'deny'\n[agents.a.extra]\nx = {y = 1}")
    dotted = values("agents.a.model = 'demo'\nagents.a.approvals.shell = 'deny'\nagents.a.extra.x.y = 1")
    inline = values("agents = {a = {model = 'demo', approvals = {shell = 'deny'}, extra = {x = {y = 1}}}}")
    assert table == dotted == inline
    assert table == {"agents.a.model": "demo", "agents.a.approvals.shell": "deny", "agents.a.extra.x": {"y": 1}}


def test_paths_are_relative_to_the_folder_of_the_file():
    """The meaning of a file does not depend on the current folder."""
    assert values("store = 'sessions'") == {"store": "/here/sessions"}
    assert values("store = 'sqlite:../my.db'") == {"store": "sqlite:/my.db"}
    assert values("store = '~/s'") == {"store": "/home/me/s"}
    assert values("store = 'postgresql://host/db'") == {"store": "postgresql://host/db"}
    assert values("model = 'scripted:replies.jsonl'") == {"model": "scripted:/here/replies.jsonl"}
    assert values("[agents.a]\nsystem_file = 'a.md'") == {"agents.a.system_file": "/here/a.md"}
    assert values("[mcp.x]\ncommand = ['a']\ncwd = '~'")["mcp.x.cwd"] == "/home/me"


def test_hooks_by_name_switch_the_others_off():
    assert values("[agents.a]\nhooks = ['memory']") == {
        "agents.a.hooks.environment": False,
        "agents.a.hooks.memory": True,
        "agents.a.hooks.agents": False,
    }


def test_places_are_exact():
    reading = parse_config("[agents.a]\n\nmodel = 'demo'\r\n[agents.b]\r\nkeep = 1", FILE)
    assert [(setting.path[-1], setting.place.line, setting.place.exact) for setting in reading.settings] == [
        ("a", 1, True),
        ("model", 3, True),
        ("b", 4, True),
        ("keep", 5, True),
    ]
