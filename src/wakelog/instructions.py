"""Instruction files: AGENTS.md from the repository root down to the working folder, and the user's own file.

They are read when a run begins, the most general first, so that the nearest takes precedence. For each file the log
keeps the path, digest, size and, if it could not be read, the reason; the text goes into the blob of the instructions
(LOG-14).
Rule 1: repositories are untrusted. A file is read only if it is a regular file inside the repository; other files are
recorded and left out.
Rule 2: long files are truncated, with a note in the text, so that a file cannot fill the context.
"""

import os
import stat
from collections.abc import Iterator, Mapping

import msgspec

from wakelog.decide.policy import Policy
from wakelog.log.content import BlobRef
from wakelog.log.digest import digest_of
from wakelog.log.entry import Source
from wakelog.ports import Blobs
from wakelog.projects import config_folder, folders_down, without_waiting
from wakelog.redaction.redactor import redact

FILE_NAME = "AGENTS.md"
FILE_MAX_BYTES = 32 * 1024
_HEADING = "Instructions from {path}:\n\n"
_BETWEEN = "\n\n"


class Instructions(msgspec.Struct, frozen=True):
    """The combined text of the instruction files, and their sources."""

    text: str = ""
    sources: tuple[Source, ...] = ()

    def behind(self, system: str) -> str:
        """Return the agent's system prompt followed by the text of the files."""
        return _BETWEEN.join(part for part in (system, self.text) if part)

    def system_part(self, system: str) -> str:
        """Return the part of combined instructions before the text of the files."""
        places = [system.find(_HEADING.format(path=source.path)) for source in self.sources]
        begins = min((place for place in places if place >= 0), default=len(system))
        return system[:begins].removesuffix(_BETWEEN) if begins < len(system) else system


def load_instructions(cwd: str, *, user_file: str | None = None) -> Instructions:
    """Read the instruction files in force in a folder."""
    found = [_read(path, scope, root) for path, scope, root in _places(cwd, user_file)]
    told = [(source, text) for source, text in found if source is not None]
    texts = [_HEADING.format(path=source.path) + text for source, text in told if text]
    return Instructions(_BETWEEN.join(texts), tuple(source for source, _ in told))


def store_instructions(
    blobs: Blobs, cwd: str, system: str, policy: Policy
) -> tuple[BlobRef | None, tuple[Source, ...]]:
    """Store the system prompt and, if the policy allows, the files' text as a blob; return it and the sources."""
    loaded = load_instructions(cwd, user_file=user_instructions(os.environ)) if policy.instructions else Instructions()
    text = loaded.behind(system)
    safe = redact(text, policy.redact).text
    return blobs.put(safe.encode(), "text/plain") if safe else None, loaded.sources


def user_instructions(environ: Mapping[str, str]) -> str:
    """Return the path of the user's own instruction file."""
    return os.path.join(config_folder(environ), FILE_NAME)


def _places(cwd: str, user_file: str | None) -> Iterator[tuple[str, str, str | None]]:
    """Yield each path to read, its scope, and the folder it must be inside of (None: any)."""
    if user_file is not None:
        yield user_file, "user", None
    root, *below = folders_down(cwd)
    yield os.path.join(root, FILE_NAME), "project", root
    for folder in below:
        yield os.path.join(folder, FILE_NAME), "folder", root


def _read(path: str, scope: str, root: str | None) -> tuple[Source | None, str]:
    """Return a file's source record and text; (None, "") if the file does not exist."""
    try:
        if root is not None and not _is_inside(path, root):
            return _unread(path, scope, "it points out of the repository"), ""
        with open(path, "rb", opener=without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return _unread(path, scope, "it is not a plain file"), ""
            size, raw = os.fstat(file.fileno()).st_size, file.read(FILE_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    except OSError as error:
        return _unread(path, scope, error.strerror or str(error)), ""
    cut = size > FILE_MAX_BYTES
    source = Source(kind="instructions", path=path, scope=scope, hash=digest_of(raw), bytes=size, truncated=cut)
    text = raw.decode(errors="replace" if not cut else "ignore").strip()
    return source, f"{text}\n[cut off: {FILE_MAX_BYTES:,} of {size:,} bytes]" if cut else text


def _unread(path: str, scope: str, why: str) -> Source:
    return Source(kind="instructions", path=path, scope=scope, error=why)


def _is_inside(path: str, root: str) -> bool:
    return os.path.commonpath((os.path.realpath(path), root)) == root
