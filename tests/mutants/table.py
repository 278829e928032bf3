"""All mutants, and the laws and requirements that at least one of them must break."""

from tests.mutants.in_aider import IN_AIDER
from tests.mutants.in_anthropic import IN_ANTHROPIC
from tests.mutants.in_blobs import IN_BLOBS
from tests.mutants.in_catalogs import IN_CATALOGS
from tests.mutants.in_channels import IN_CHANNELS
from tests.mutants.in_chat import IN_CHAT
from tests.mutants.in_claude_code import IN_CLAUDE_CODE
from tests.mutants.in_cli import IN_CLI
from tests.mutants.in_codex import IN_CODEX
from tests.mutants.in_crabtalk import IN_CRABTALK
from tests.mutants.in_damage import IN_DAMAGE
from tests.mutants.in_databases import IN_DATABASES
from tests.mutants.in_decide import IN_DECIDE
from tests.mutants.in_doubt import IN_DOUBT
from tests.mutants.in_efferent import IN_EFFERENT
from tests.mutants.in_gemini import IN_GEMINI
from tests.mutants.in_goose import IN_GOOSE
from tests.mutants.in_handoff import IN_HANDOFF
from tests.mutants.in_http_provider import IN_DOORS
from tests.mutants.in_imports import IN_IMPORTS
from tests.mutants.in_leases import IN_LEASES
from tests.mutants.in_log import IN_LOG
from tests.mutants.in_mcp import IN_MCP
from tests.mutants.in_message_lists import IN_MESSAGE_LISTS
from tests.mutants.in_openai import IN_OPENAI
from tests.mutants.in_opencode import IN_OPENCODE
from tests.mutants.in_pi import IN_PI
from tests.mutants.in_pi_writer import IN_PI_WRITER
from tests.mutants.in_processes import IN_PROCESSES
from tests.mutants.in_projections import IN_PROJECTIONS
from tests.mutants.in_providers import IN_PROVIDERS
from tests.mutants.in_recording import IN_RECORDING
from tests.mutants.in_redaction import IN_REDACTION
from tests.mutants.in_replay import IN_REPLAYING
from tests.mutants.in_runtime import IN_RUNTIME
from tests.mutants.in_seed_logs import IN_SEED_LOGS
from tests.mutants.in_session import IN_SESSION
from tests.mutants.in_state import IN_STATE
from tests.mutants.in_stores import IN_STORES
from tests.mutants.in_tools import IN_TOOLS
from tests.mutants.in_tree import IN_TREE
from tests.mutants.in_watcher import IN_WATCHER

MUTANTS = (
    *(*IN_LOG, *IN_TREE, *IN_PROJECTIONS, *IN_DECIDE, *IN_REDACTION, *IN_DAMAGE, *IN_WATCHER),
    *(*IN_STORES, *IN_DATABASES, *IN_DOUBT, *IN_CATALOGS, *IN_BLOBS, *IN_SESSION, *IN_STATE),
    *(*IN_PROVIDERS, *IN_DOORS, *IN_ANTHROPIC, *IN_OPENAI, *IN_TOOLS, *IN_MCP, *IN_CHANNELS),
    *(*IN_RUNTIME, *IN_LEASES, *IN_PROCESSES, *IN_REPLAYING, *IN_RECORDING, *IN_CLI, *IN_CHAT),
    *(*IN_CLAUDE_CODE, *IN_CODEX, *IN_OPENCODE, *IN_PI, *IN_PI_WRITER, *IN_GEMINI, *IN_GOOSE),
    *(*IN_IMPORTS, *IN_HANDOFF, *IN_AIDER, *IN_MESSAGE_LISTS, *IN_EFFERENT, *IN_CRABTALK, *IN_SEED_LOGS),
)
# Laws and requirements with at least one mutant: their tests were seen to fail.
MUST_BREAK = (
    *(f"law {number}" for number in range(1, 15)),
    *(f"LOG-{number}" for number in (1, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20)),
    *(f"TREE-{number}" for number in range(1, 7)),
    *(f"VIEW-{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)),
    *(f"RUN-{number}" for number in (1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 21, 22, 23, 25, 26)),
    *(f"ST-{number}" for number in (1, 2, 3, 4, 5, 6, 7, 9, 10)),
)
