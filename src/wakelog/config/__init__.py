"""What a person or a project wants of agents, written down before a run: TOML files, variables, options.

Rule 1 (law 2): configuration only makes the next `context` entry. Whoever wakes a session reads none of it.
Rule 2: every value knows its place, and every mistake is named with it; what is left out is said.
Rule 3: a project's file comes with a cloned repository and is hostile until the user's own file trusts its folder.
Rule 4: no secret stands in a file: a variable holds it, or a program prints it.
Everything here is pure but `finding`, which looks at files, and runs the program that prints a key.
Read in this order: values, scanner, shape, names, reading, nesting, plans, trust, checking, resolving, keys, finding.
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
