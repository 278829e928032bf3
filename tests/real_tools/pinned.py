"""The pinned agents: what is installed, the settings that point each at a model server, and its commands.

Nothing here is more than these tests need: no updates, no telemetry, no approvals, one prompt a run.
"""

import contextlib
import json
import platform
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from tests.loopback import Call, Say, Shell
from tests.loopback.model_answers import Piece

FAKE_KEY = "not-a-key"
MODEL = "scripted-model"
NODE_ARCHITECTURE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class PinnedTool:
    """One agent. `name` is that of its format, in `wakelog export --to` if sessions can be written in it."""

    name = ""
    title = ""
    version = ""
    """As the tool calls itself; the package may have another version."""
    npm: tuple[str, ...] = ()
    """The packages to install: the tool, and what runs it if that is not the Node of the tests."""
    pip = ""
    program = ""
    """The executable, below the folder where the tool is installed."""
    module = ""
    """In place of a program: a Python module that runs in the interpreter of the tests."""
    runs_on_node = False
    """Whether the program is a script for the newer Node that the tests bring."""
    npm_options: tuple[str, ...] = ()
    interpreter = ""
    """What runs the program if it is a script: an executable among its packages, below the folder of the tool."""
    child = ""
    """How a process of the tool is called that it starts in a process group of its own."""
    data_folder = ""
    """Where the tool keeps sessions, below its home folder: the folder that paths of a written session begin at."""
    wire = ""
    has_tools = True

    def settings(self, url: str) -> Mapping[str, str]:
        """Return settings files, below the home folder, that point the tool at a model server."""
        return {}

    def environment(self, url: str) -> Mapping[str, str]:
        """Return the variables that the tool gets beside `HOME` and `PATH`."""
        return {}

    def arguments(self, prompt: str, session: str | None) -> list[str]:
        """Return the arguments of one prompt without a terminal, in a new session or in one that exists."""
        raise NotImplementedError

    def find_session(self, home: Path) -> str | None:
        """Return the id of the only session below a home folder, as `arguments` takes it; None if there is none."""
        raise NotImplementedError

    def run_command(self, text: str, command: str) -> list[list[Piece]]:
        """Return the answers of the model that say a text and let the tool run a shell command."""
        return [[Say(text), Shell(command)]]


def _only_file(folder: Path, pattern: str) -> Path | None:
    found = sorted(folder.glob(pattern))
    assert len(found) <= 1, found
    return found[0] if found else None


def _only_row(database: Path, query: str) -> str | None:
    if not database.exists():
        return None
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        rows = connection.execute(query).fetchall()
    assert len(rows) <= 1, rows
    return str(rows[0][0]) if rows else None


class Pi(PinnedTool):
    """pi: a tree of entries in JSON lines."""

    name, title, version = "pi", "pi", "0.87.1"
    npm = ("@earendil-works/pi-coding-agent@0.87.1",)
    program = "node_modules/.bin/pi"
    runs_on_node = True
    data_folder = ".pi/agent"
    wire = "anthropic"

    def settings(self, url: str) -> Mapping[str, str]:
        cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {"id": MODEL, "name": MODEL, "reasoning": False, "input": ["text", "image"], "cost": cost}
        limits = {"contextWindow": 200_000, "maxTokens": 8_000}
        provider = {
            "baseUrl": url,
            "api": "anthropic-messages",
            "apiKey": FAKE_KEY,
            "models": [{**model, **limits}],
        }
        return {".pi/agent/models.json": json.dumps({"providers": {"scripted": provider}})}

    def environment(self, url: str) -> Mapping[str, str]:
        return {"PI_OFFLINE": "1"}

    def arguments(self, prompt: str, session: str | None) -> list[str]:
        chosen = ["--session", session] if session else []
        return ["--provider", "scripted", "--model", MODEL, *chosen, "-p", prompt]

    def find_session(self, home: Path) -> str | None:
        found = _only_file(home, ".pi/agent/sessions/*/*.jsonl")
        return str(found) if found else None


class Gemini(PinnedTool):
    """Gemini CLI: a log of operations in JSON lines."""

    name, title, version = "gemini", "Gemini CLI", "0.61.0"
    npm = ("@google/gemini-cli@0.61.0",)
    program = "node_modules/.bin/gemini"
    runs_on_node = True
    data_folder = ".gemini"
    wire = "gemini"

    def settings(self, url: str) -> Mapping[str, str]:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {
                "disableAutoUpdate": True,
                "enableAutoUpdate": False,
                "sessionRetention": {"enabled": False},
            },
        }
        return {".gemini/settings.json": json.dumps(settings)}

    def environment(self, url: str) -> Mapping[str, str]:
        return {"GEMINI_API_KEY": FAKE_KEY, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}

    def arguments(self, prompt: str, session: str | None) -> list[str]:
        chosen = ["-r", session] if session else []
        return ["--yolo", "-m", "gemini-2.5-flash", *chosen, "-p", prompt]

    def find_session(self, home: Path) -> str | None:
        return "latest" if _only_file(home, ".gemini/tmp/*/chats/session-*.jsonl") else None


class ClaudeCode(PinnedTool):
    """Claude Code: a graph of records in JSON lines."""

    name, title, version = "claude-code", "Claude Code", "2.1.325"
    npm = ("@anthropic-ai/claude-code@2.1.325",)
    program = "node_modules/.bin/claude"
    data_folder = ".claude"
    wire = "anthropic"

    def environment(self, url: str) -> Mapping[str, str]:
        return {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": FAKE_KEY,
            "ANTHROPIC_MODEL": "claude-sonnet-4-5",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def arguments(self, prompt: str, session: str | None) -> list[str]:
        chosen = ["--resume", session] if session else []
        return ["-p", "--allowedTools", "Bash", *chosen, "--", prompt]

    def find_session(self, home: Path) -> str | None:
        found = _only_file(home, ".claude/projects/*/*.jsonl")
        return found.stem if found else None


class Codex(PinnedTool):
    """Codex: rollouts in JSON lines."""

    name, title, version = "codex", "Codex", "0.166.0"
    npm = ("@openai/codex@0.166.0",)
    program = "node_modules/.bin/codex"
    runs_on_node = True
    data_folder = ".codex"
    wire = "responses"

    def settings(self, url: str) -> Mapping[str, str]:
        lines = [
            f'model = "{MODEL}"',
            'model_provider = "scripted"',
            "check_for_update_on_startup = false",
            "[model_providers.scripted]",
            'name = "scripted"',
            f'base_url = "{url}/v1"',
            'wire_api = "responses"',
            'env_key = "SCRIPTED_KEY"',
            "request_max_retries = 0",
            "stream_max_retries = 0",
            "[analytics]",
            "enabled = false",
            "[feedback]",
            "enabled = false",
            "[features]",
            "apps = false",
            "plugins = false",
        ]
        return {".codex/config.toml": "\n".join([*lines, ""])}

    def environment(self, url: str) -> Mapping[str, str]:
        return {"SCRIPTED_KEY": FAKE_KEY}

    def arguments(self, prompt: str, session: str | None) -> list[str]:
        chosen = ["resume", session] if session else []
        return ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", *chosen, prompt]

    def find_session(self, home: Path) -> str | None:
        found = _only_file(home, ".codex/sessions/**/rollout-*.jsonl")
        return found.stem[-36:] if found else None


class OpenCode(PinnedTool):
    """OpenCode: a SQLite database."""

    name, title, version = "opencode", "OpenCode", "1.18.33"
    npm = ("opencode-ai@1.18.33",)
    program = "node_modules/.bin/opencode"
    data_folder = ".local/share/opencode"
    wire = "chat"

    def settings(self, url: str) -> Mapping[str, str]:
        model = {"name": MODEL, "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": {"baseURL": f"{url}/v1", "apiKey": FAKE_KEY},
            "models": {MODEL: model},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "model": f"scripted/{MODEL}",
            "small_model": f"scripted/{MODEL}",
            "permission": "allow",
            "enabled_providers": ["scripted"],
            "provider": {"scripted": provider},
        }
        return {".config/opencode/opencode.json": json.dumps(settings)}

    def environment(self, url: str) -> Mapping[str, str]:
        off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return {f"OPENCODE_DISABLE_{name}": "1" for name in off}

    def arguments(self, prompt: str, session: str | None) -> list[str]:
        chosen = ["-s", session] if session else []
        return ["run", *chosen, prompt]

    def find_session(self, home: Path) -> str | None:
        return _only_row(home / ".local/share/opencode/opencode.db", "SELECT id FROM session")


class Goose(PinnedTool):
    """Goose: a SQLite database. The package brings an older version of the command line."""

    name, title, version = "goose", "Goose", "1.34.0"
    npm = ("@aaif/goose@0.20.1",)
    program = "node_modules/@aaif/goose-binary-linux-x64/bin/goose"
    data_folder = ".local/share/goose"
    wire = "chat"

    def settings(self, url: str) -> Mapping[str, str]:
        lines = [
            "GOOSE_PROVIDER: openai",
            f"GOOSE_MODEL: {MODEL}",
            "GOOSE_MODE: auto",
            "GOOSE_TELEMETRY_ENABLED: false",
            "GOOSE_DISABLE_SESSION_NAMING: true",
            "extensions: {developer: {enabled: true, type: builtin, name: developer, timeout: 300}}",
        ]
        return {".config/goose/config.yaml": "\n".join([*lines, ""])}

    def environment(self, url: str) -> Mapping[str, str]:
        return {
            "OPENAI_HOST": url,
            "OPENAI_BASE_PATH": "v1/chat/completions",
            "OPENAI_API_KEY": FAKE_KEY,
            "GOOSE_DISABLE_KEYRING": "1",
        }

    def arguments(self, prompt: str, session: str | None) -> list[str]:
        chosen = ["--resume", "--session-id", session] if session else []
        return ["run", *chosen, "-t", prompt]

    def find_session(self, home: Path) -> str | None:
        return _only_row(home / ".local/share/goose/sessions/sessions.db", "SELECT id FROM sessions")


class Aider(PinnedTool):
    """Aider: a chat history in Markdown. It offers no tools, and a session is the history in the project folder."""

    name, title, version = "aider", "Aider", "0.86.2"
    pip = "aider-chat==0.86.2"
    program = "bin/aider"
    wire = "chat"
    has_tools = False

    def environment(self, url: str) -> Mapping[str, str]:
        return {
            "OPENAI_API_BASE": f"{url}/v1",
            "OPENAI_API_KEY": FAKE_KEY,
            "AIDER_CHECK_UPDATE": "false",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }

    def arguments(self, prompt: str, session: str | None) -> list[str]:
        """Return the arguments; a session is the path of a history, and any other text the history in the project."""
        history = ["--chat-history-file", session] if session and Path(session).is_absolute() else []
        restored = ["--restore-chat-history"] if session else []
        quiet = ["--no-show-model-warnings", "--yes-always", "--no-git", "--analytics-disable", "--no-pretty"]
        return ["--model", f"openai/{MODEL}", *quiet, *history, *restored, "--message", prompt]

    def find_session(self, home: Path) -> str | None:
        return "history" if (home.parent / "project" / ".aider.chat.history.md").exists() else None


class OpenClaw(PinnedTool):
    """OpenClaw: records of pi in a SQLite database. One session of the main agent goes on in every run."""

    name, title, version = "openclaw", "OpenClaw", "2026.9.6"
    npm = ("openclaw@2026.9.6", f"node-linux-{NODE_ARCHITECTURE}@24.21.0")
    # Its scripts refuse the Node that npm itself runs on.
    npm_options = ("--ignore-scripts",)
    program = "node_modules/openclaw/openclaw.mjs"
    interpreter = f"node_modules/node-linux-{NODE_ARCHITECTURE}/bin/node"
    child = "openclaw-agent"
    data_folder = ".openclaw"
    wire = "chat"

    def settings(self, url: str) -> Mapping[str, str]:
        cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {"id": MODEL, "name": MODEL, "reasoning": False, "input": ["text"], "cost": cost}
        provider = {
            "baseUrl": f"{url}/v1",
            "apiKey": FAKE_KEY,
            "api": "openai-completions",
            "models": [{**model, "contextWindow": 200_000, "maxTokens": 8_000}],
        }
        settings = {
            "models": {"mode": "replace", "providers": {"scripted": provider}},
            "agents": {"defaults": {"model": {"primary": f"scripted/{MODEL}"}, "skipBootstrap": True}},
            "gateway": {"mode": "local"},
            "update": {"checkOnStart": False},
        }
        return {".openclaw/openclaw.json": json.dumps(settings)}

    def arguments(self, prompt: str, session: str | None) -> list[str]:
        return ["agent", "--local", "--agent", "main", "--message", prompt]

    def find_session(self, home: Path) -> str | None:
        database = home / ".openclaw/agents/main/agent/openclaw-agent.sqlite"
        return _only_row(database, "SELECT session_key FROM session_nodes")


class Efferent(PinnedTool):
    """efferent: a SQLite database. Only sub-agents of the main agent run commands."""

    name, title, version = "efferent", "efferent", "0.6.1"
    npm = ("efferent@0.6.1", "bun@1.4.4")
    program = "node_modules/efferent/dist/efferent.js"
    interpreter = "node_modules/.bin/bun"
    data_folder = ".efferent"
    wire = "chat"

    def settings(self, url: str) -> Mapping[str, str]:
        return {".efferent/auth.json": json.dumps({"ollama": {"type": "local", "baseUrl": url}})}

    def environment(self, url: str) -> Mapping[str, str]:
        return {"EFFERENT_MODEL": f"ollama:{MODEL}"}

    def arguments(self, prompt: str, session: str | None) -> list[str]:
        chosen = ["--resume", session] if session else []
        return ["--mode", "json", "--allow-bash", *chosen, prompt]

    def find_session(self, home: Path) -> str | None:
        return _only_row(home / ".efferent/efferent.db", "SELECT id FROM conversations")

    def run_command(self, text: str, command: str) -> list[list[Piece]]:
        task = {"name": "Run it", "folder": ".", "task": "Run the command", "agent": "coordinator"}
        waiting = Call("wait_for_agents", {"timeoutSeconds": 300})
        return [[Say(text), Call("run_agent", task)], [Shell(command)], [waiting]]


PINNED: Mapping[str, PinnedTool] = {
    tool.name: tool
    for tool in (
        *(Pi(), Gemini(), ClaudeCode(), Codex(), OpenCode(), Goose(), Aider()),
        *(Efferent(), OpenClaw()),
    )
}
"""All tools, the ones that are cheapest to install first."""
