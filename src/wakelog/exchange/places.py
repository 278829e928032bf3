"""Where other agents keep their sessions: the usual folders of each tool, and session files below a folder.

Only names and folders are looked at here. What a file is, is decided by its content (`detection.py`).
"""

import fnmatch
import glob
import os
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from wakelog.folders import home_folder

# Files that may be sessions. Others are not opened when a folder is searched.
_NAMES = (
    *("*.jsonl", "*.jsonl.zst", "*.jsonl.reset.*", "*.jsonl.deleted.*", "*.json", "*.db", "*.sqlite", "*.crmem"),
    *("*.chat.history.md", "*.llm.history", "meta"),
)
# An index of OpenClaw, which names the files beside it.
_NOT_NAMES = frozenset({"sessions.json"})
# Folders of tools that hold no sessions, or copies of them in another form.
_NO_SESSIONS = frozenset({"node_modules", ".git", "file-history", "snapshot", "tool-results", "blobs", "log", "logs"})


class Place(msgspec.Struct, frozen=True):
    """A tool's own folder: which variable moves it, where it is by default, and the patterns of its session files."""

    tool: str
    variable: str
    default: str
    patterns: tuple[str, ...]

    def folder(self, environ: Mapping[str, str]) -> str:
        """Return the folder: the one that the variable names, else the default below the home folder."""
        return environ.get(self.variable) or os.path.join(home_folder(environ), self.default)

    def files(self, environ: Mapping[str, str]) -> Iterator[str]:
        """Yield the files that match, sorted, for each pattern. Links below the folder are not followed."""
        folder = os.path.realpath(self.folder(environ))
        for pattern in self.patterns:
            found = sorted(glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True))
            yield from (file for file in found if os.path.realpath(file) == file)


PLACES = (
    Place("claude-code", "CLAUDE_CONFIG_DIR", ".claude", ("projects/*/*.jsonl",)),
    Place(
        "codex",
        "CODEX_HOME",
        ".codex",
        ("sessions/**/rollout-*.jsonl*", "sessions/rollout-*.json", "archived_sessions/rollout-*.jsonl*"),
    ),
    Place("pi", "PI_CODING_AGENT_DIR", ".pi/agent", ("sessions/*/*.jsonl",)),
    Place(
        "opencode",
        "OPENCODE_DATA_DIR",
        ".local/share/opencode",
        ("opencode*.db", "storage/session/*/ses_*.json", "project/*/storage/session/info/*.json"),
    ),
    Place(
        "openclaw",
        "OPENCLAW_STATE_DIR",
        ".openclaw",
        (
            *("agents/*/sessions/*.jsonl", "agents/*/sessions/*.jsonl.reset.*", "agents/*/sessions/*.jsonl.deleted.*"),
            "agents/*/agent/openclaw-agent.sqlite",
        ),
    ),
    Place("gemini-cli", "GEMINI_DIR", ".gemini", ("tmp/*/chats/session-*.json*", "tmp/*/logs.json")),
    Place("goose", "GOOSE_DATA_DIR", ".local/share/goose", ("sessions/sessions.db", "sessions/*.jsonl")),
    Place("efferent", "EFFERENT_DIR", ".efferent", ("efferent.db", "smith.db")),
    Place("crabtalk", "CRABTALK_HOME", ".crabtalk", ("store.crmem", "sessions/*.jsonl", "sessions/*/meta")),
)


def usual_files(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the session files of each tool that has any in its usual place."""
    moved = _with_data_folders(environ)
    found = {place.tool: list(place.files(moved)) for place in PLACES}
    return {tool: files for tool, files in found.items() if files}


def folder_of(tool: str, environ: Mapping[str, str]) -> str | None:
    """Return the folder where a tool keeps its data; None for a tool without one."""
    moved = _with_data_folders(environ)
    return next((place.folder(moved) for place in PLACES if place.tool == tool), None)


def _with_data_folders(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with a variable for each folder that is moved by a variable of a folder above it."""
    moved = dict(environ)
    data = environ.get("XDG_DATA_HOME")
    if data and os.path.isabs(data):
        moved |= {"OPENCODE_DATA_DIR": os.path.join(data, "opencode"), "GOOSE_DATA_DIR": os.path.join(data, "goose")}
    if root := environ.get("GOOSE_PATH_ROOT"):
        moved["GOOSE_DATA_DIR"] = os.path.join(root, "data")
    if home := environ.get("GEMINI_CLI_HOME"):
        moved["GEMINI_DIR"] = os.path.join(home, ".gemini")
    if home := environ.get("EFFERENT_HOME"):
        moved["EFFERENT_DIR"] = os.path.join(home, ".efferent")
    return moved


def session_files(paths: Iterable[str]) -> Iterator[str]:
    """Yield the files among paths, and the possible session files below the folders among them, without links."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if name not in _NO_SESSIONS)
            for name in sorted(names):
                file = os.path.join(folder, name)
                if _may_be_session(name) and not os.path.islink(file):
                    yield file


def _may_be_session(name: str) -> bool:
    return name not in _NOT_NAMES and any(fnmatch.fnmatchcase(name, pattern) for pattern in _NAMES)
