"""Stand-alone search program behind the `grep` tool; as a process it can be stopped whatever its pattern does.

Rule 1: it is started by its path (`python -I -S grep_program.py JSON`) and uses only the standard library.
Rule 2: symbolic links are not followed, so the search stays below its root. Files are sorted by name in each folder.
Rule 3: a cut at the limit of hits, and the numbers of links to files, large files and unreadable files, are reported in
brackets at the end. Binary files, special files and `.git` are skipped without a note.
Exit status 0, also if nothing was found; 1 with one line if it cannot search.
"""

import fnmatch
import json
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

FILE_MAX_BYTES = 16 * 1024 * 1024
_LINE_CHARS = 400
_PROBE_BYTES = 8192
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def main(search: dict[str, Any]) -> int:
    """Print the hits, then the notes; return the exit status."""
    try:
        pattern = re.compile(search["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        return _failed(f"not a regular expression: {error}")
    if not os.path.exists(search["root"]):
        return _failed("cannot search: there is no such file or folder")
    missed: Counter[str] = Counter()
    hits = _hits(pattern, search["root"], search["glob"], missed)
    shown = 0
    for name, number, text in hits:
        if shown == search["hits"]:
            _print(f"[only the first {shown} hits are shown: narrow the pattern or the path]")
            break
        where = "/".join(part for part in (search["shown"], _one_line(os.fsencode(name))) if part)
        _print(f"{where}:{number}: {text}")
        shown += 1
    if not shown:
        _print("[no line matches]")
    for why, count in sorted(missed.items()):
        _print(f"[{count} not searched: {why}]")
    return 0


def _hits(
    pattern: re.Pattern[str], root: str, glob: str | None, missed: Counter[str]
) -> Iterator[tuple[str, int, str]]:
    """Yield each matching line: its file relative to the root, its number, its text."""
    for name in _files(root, missed):
        if glob is not None and not _matches(name or os.path.basename(root), glob):
            continue
        content = _content(os.path.join(root, name) if name else root, missed)
        for number, line in enumerate(content.removesuffix(b"\n").split(b"\n") if content else (), 1):
            text = line.decode("utf-8", "replace").removesuffix("\r")
            if pattern.search(text):
                yield name, number, _one_line(text.encode())


def _files(root: str, missed: Counter[str]) -> Iterator[str]:
    """Yield the files below the root, sorted by name in each folder; the empty name if the root is a file."""
    if not os.path.isdir(root):
        yield ""
        return

    def unreadable(_: OSError) -> None:
        missed["folder that cannot be read"] += 1

    for folder, folders, files in os.walk(root, onerror=unreadable):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(files):
            yield os.path.relpath(os.path.join(folder, name), root)


def _content(path: str, missed: Counter[str]) -> bytes:
    """Return the bytes of a text file, empty for others; links, large and unreadable files are counted in `missed`."""
    try:
        with open(os.open(path, _OPEN_FLAGS), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return b""
            if found.st_size > FILE_MAX_BYTES:
                missed[f"larger than {FILE_MAX_BYTES:,} bytes"] += 1
                return b""
            content = file.read()
    except IsADirectoryError:
        return b""
    except OSError as error:
        missed["link" if os.path.islink(path) else error.strerror or str(error)] += 1
        return b""
    return b"" if b"\0" in content[:_PROBE_BYTES] else content


def _matches(name: str, glob: str) -> bool:
    """Return whether a glob matches: without a slash the file's name, with one its path below the root."""
    if "/" not in glob:
        return fnmatch.fnmatchcase(os.path.basename(name), glob)
    return fnmatch.fnmatchcase(name, glob) or fnmatch.fnmatchcase(name, glob.removeprefix("**/"))


def _one_line(raw: bytes) -> str:
    """Return text as one printable line of bounded length, so that it cannot imitate another line."""
    text = raw.decode("utf-8", "backslashreplace")
    clean = "".join(sign if sign.isprintable() or sign == "\t" else ascii(sign)[1:-1] for sign in text)
    return clean if len(clean) <= _LINE_CHARS else f"{clean[:_LINE_CHARS]} […]"


def _failed(line: str) -> int:
    _print(" ".join(line.split()))
    return 1


def _print(line: str) -> None:
    sys.stdout.buffer.write(f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
