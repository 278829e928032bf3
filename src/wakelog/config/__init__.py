"""Configuration of agents: values from TOML files, environment variables and command-line options.

Rule 1 (law 2, the log is the only state): configuration only creates the next `context` entry. Waking a session does
not read it.
Rule 2: every value has its place, and every mistake names its place; values that are left out are reported.
Rule 3: a project's file comes with a cloned repository and is hostile until the user's file trusts its folder.
Rule 4: no file contains a secret; a variable holds it, or a program prints it.
All modules are pure except `finding`, which reads files and runs the program that prints a key.
Reading order: values, scanner, shape, names, reading, nesting, plans, trust, checking, resolving, keys, finding.
"""

from wakelog.config.finding import load_config, run_key_command
from wakelog.config.keys import key_for
from wakelog.config.plans import Plan, params_of, plan_of, policy_of, server_of
from wakelog.config.values import (
    AgentConfig,
    Config,
    HookCommand,
    Loaded,
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
    "Config",
    "HookCommand",
    "Loaded",
    "McpConfig",
    "Mistake",
    "Notice",
    "Place",
    "Plan",
    "PriceConfig",
    "ProviderConfig",
    "Setting",
    "key_for",
    "load_config",
    "params_of",
    "plan_of",
    "policy_of",
    "run_key_command",
    "server_of",
]
