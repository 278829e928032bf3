"""From the configuration to the parts of an agent."""

import msgspec
import pytest

from tests.config.layers import loaded
from tests.config.texts import keys_of
from wakelog.config.agent_plan import agent_policy, plan_agent, provider_params, server_declaration
from wakelog.config.schema import AgentConfig, McpConfig, PriceConfig, ProviderConfig
from wakelog.config.validation import PROVIDERS, TOOL_NAMES
from wakelog.decide.policy import Approval, HookSettings, Policy, Price
from wakelog.hooks import open_hook
from wakelog.providers import _PROVIDERS, split_model
from wakelog.tools.mcp.server import McpServer
from wakelog.tools.mcp.server import parse_server as mcp_server


def test_the_default_policy():
    """Tools that only read run at once, all others ask; instruction files are read; the rest is as for the library."""
    made = agent_policy(AgentConfig(hooks={"environment": False, "memory": False, "agents": False}))
    only_look: dict[str, Approval] = {"read": "auto", "list": "auto", "grep": "auto"}
    assert made == Policy(approval="ask", approvals=only_look, instructions=True)


@pytest.mark.parametrize(
    ("approval", "approvals", "read", "shell"),
    [
        ("ask", {}, "auto", "ask"),
        ("auto", {}, "auto", "auto"),
        ("deny", {}, "deny", "deny"),
        ("ask", {"read": "ask", "shell": "deny"}, "ask", "deny"),
        ("deny", {"read": "auto"}, "auto", "deny"),
    ],
)
def test_approvals(approval, approvals, read, shell):
    made = agent_policy(AgentConfig(approval=approval, approvals=approvals))
    assert (made.approval_of("read"), made.approval_of("shell")) == (read, shell)


def test_bounds():
    agent = AgentConfig(compact_at=9, keep=8, strategy="window:7", unknown="ask", reasoning="drop")
    made = agent_policy(agent, price=Price(input=1))
    assert made.reasoning == "drop"
    assert (made.compact_at, made.keep, made.strategy, made.unknown, made.price) == (
        9,
        8,
        "window:7",
        "ask",
        Price(input=1),
    )


def test_hooks_are_in_the_policy_with_all_their_options():
    """RUN-19: a wake opens them from the log alone."""
    text = (
        "[agents.a]\ndescription = 'reviews'\n[agents.a.hooks]\nmemory = false\n"
        "notes = ['cat', 'notes']\nslow = {command = ['slow'], timeout = 90}"
    )
    made = plan_agent(loaded(text).config, "a").policy.hooks
    assert made == (
        HookSettings(name="environment"),
        HookSettings(
            name="agents",
            options={"agents": [{"name": "a", "description": "reviews"}, {"name": "agent", "description": ""}]},
        ),
        HookSettings(name="notes", options={"command": ["cat", "notes"], "timeoutS": 10.0}),
        HookSettings(name="slow", options={"command": ["slow"], "timeoutS": 90}),
    )
    assert [open_hook(terms, {}, None).name for terms in made] == ["environment", "agents", "notes", "slow"]


def test_only_configured_parameters_are_sent_to_the_provider():
    assert provider_params(AgentConfig()) == {}
    said = AgentConfig(max_tokens=5, temperature=0, effort="low", thinking="drop", extra={"top_k": 3})
    assert provider_params(said, ProviderConfig(base_url="http://x/v1")) == {
        "maxTokens": 5,
        "temperature": 0,
        "effort": "low",
        "thinking": "drop",
        "endpoint": "http://x/v1",
        "extra": {"top_k": 3},
    }


@pytest.mark.parametrize(
    ("dollars", "micro"), [(0.3, 300_000), (1.25, 1_250_000), (15, 15_000_000), (0.075, 75_000), (1.005, 1_005_000)]
)
def test_prices_are_integer_millionths(dollars, micro):
    assert PriceConfig(input=dollars).exact == Price(input=micro)


def test_a_plan():
    text = (
        "model = 'openai:x'\n[agents.a]\nsystem = 'Be brief.'\ntools = ['read']\ninstructions = false\nmcp = ['s']\n"
        "[mcp.s]\nurl = 'http://s'\n[providers.openai]\nbase_url = 'http://o'\n[prices.'openai:x']\noutput = 2\n"
    )
    made = plan_agent(loaded(text).config, "a")
    assert (made.name, made.model, made.system, made.tools, made.policy.instructions) == (
        "a",
        "openai:x",
        "Be brief.",
        ("read",),
        False,
    )
    assert made.params == {"endpoint": "http://o"}
    assert made.policy.price == Price(output=2_000_000)
    assert [server["name"] for server in made.servers] == ["s"]


def test_an_unconfigured_agent_has_the_defaults():
    made = plan_agent(loaded("model = 'openai:x'").config, "stranger")
    assert (made.model, made.tools, made.policy.instructions, made.servers) == ("openai:x", None, True, ())


@pytest.mark.parametrize(
    "server",
    [
        McpConfig(command=("npx", "it"), env=("A",), cwd="/x", trusted=True, timeout=3),
        McpConfig(url="https://x/mcp", bearer_env="TOKEN"),
    ],
)
def test_servers_are_declared_as_the_tools_parse_them(server):
    """RUN-19: the value in the log starts the server again."""
    made = mcp_server(server_declaration("s", server))
    assert isinstance(made, McpServer)
    assert (made.command, made.url, made.trusted) == (server.command or (), server.url or "", server.trusted)
    assert (made.env, made.bearer_env, made.timeout_s) == (server.env, server.bearer_env or "", server.timeout)


def test_the_names_that_are_checked_are_those_that_exist():
    """The check knows the providers, tools and price keys that exist."""
    assert set(PROVIDERS) == set(_PROVIDERS)
    assert [split_model(f"{name}:x")[0] for name in PROVIDERS] == list(PROVIDERS)
    assert set(TOOL_NAMES) > {"read", "shell", "agent"}
    assert keys_of(Price) == keys_of(PriceConfig)
    assert msgspec.structs.fields(McpServer)


def test_memory_is_off_unless_it_is_switched_on():
    """VIEW-7: texts of other sessions reach the model only where a person has asked for it."""
    assert [hook.name for hook in agent_policy(AgentConfig()).hooks] == ["environment", "agents"]
    asked_for = agent_policy(AgentConfig(hooks={"memory": True}))
    assert [hook.name for hook in asked_for.hooks] == ["environment", "memory", "agents"]
