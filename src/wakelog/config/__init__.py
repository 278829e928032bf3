"""Configuration of agents: values from TOML files, environment variables and command-line options.

Rule 1 (law 2, the log is the only state): configuration only creates the next `context` entry. Waking a session does
not read it.
Rule 2: every value has its place, and every mistake names its place; values that are left out are reported.
Rule 3: a project's file comes with a cloned repository and is hostile until the user's file trusts its folder.
Rule 4: no file contains a secret; a variable holds it, or a program prints it.
All modules are pure except `files`, which reads files and runs the program that prints a key.
Reading order: schema, validation, toml_lines, parsing, agent_plan, trust, layers, files.
"""

from wakelog.config.agent_plan import AgentPlan, agent_policy, plan_agent, provider_params, server_declaration
from wakelog.config.files import key_for, load_config, run_key_command
from wakelog.config.schema import (
    AgentConfig,
    Config,
    HookCommand,
    LoadedConfig,
    McpConfig,
    Mistake,
    Notice,
    Place,
    PriceConfig,
    ProviderConfig,
    Setting,
)

__all__ = [
    "AgentConfig",
    "AgentPlan",
    "Config",
    "HookCommand",
    "LoadedConfig",
    "McpConfig",
    "Mistake",
    "Notice",
    "Place",
    "PriceConfig",
    "ProviderConfig",
    "Setting",
    "agent_policy",
    "key_for",
    "load_config",
    "plan_agent",
    "provider_params",
    "run_key_command",
    "server_declaration",
]
