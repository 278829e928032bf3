"""False hits of redaction: lines of installed text, without secrets, that are redacted all the same.

    python -m bench.false_hits [FOLDER …]

Prints, for each tree and for all of them, how many lines there are, how many contain a word that names a secret, in how
many of these a value was redacted, and the share of both; `--show` prints the redacted lines, too. Tests are left out:
they contain made-up passwords on purpose, and a made-up password is redacted like a real one.
"""

import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from wakelog.redaction.redactor import redact

LIMIT = 0.01
_NAMES = re.compile(
    r"pass(?:word|wd|phrase)?|pwd|secret|credential|token|api.?key|access.?key|private.?key|_key\b|\bauth\b",
    re.IGNORECASE,
)
_TEXTS = frozenset(
    (
        *(
            ".py",
            ".pyi",
            ".txt",
            ".md",
            ".rst",
            ".toml",
            ".cfg",
            ".ini",
            ".json",
            ".yaml",
            ".yml",
            ".js",
            ".ts",
            ".html",
        ),
        *(".css", ".c", ".h", ".sh", ".xml", ".conf", ".env", ".tex"),
    )
)
_LEFT_OUT = frozenset(("test", "tests", "testing", "idle_test", "__pycache__"))
_FILE_MAX = 2_000_000


class Counted(msgspec.Struct, frozen=True):
    """The counts of a tree."""

    tree: str
    files: int = 0
    lines: int = 0
    named: int = 0
    hit: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.tree}: {self.files:,} files, {self.lines:,} lines, {self.named:,} of them with a name of a secret, "
            f"{len(self.hit):,} redacted: {self.per_line:.4%} of all lines, {self.per_named:.3%} of those with a name"
        )

    @property
    def per_line(self) -> float:
        """The share of all lines."""
        return len(self.hit) / max(1, self.lines)

    @property
    def per_named(self) -> float:
        """The share of the lines with a name of a secret."""
        return len(self.hit) / max(1, self.named)

    def plus(self, other: "Counted") -> "Counted":
        """Return the sum of both."""
        sums = (self.files + other.files, self.lines + other.lines, self.named + other.named)
        return Counted(self.tree, *sums, self.hit + other.hit)


def counted(tree: str, paths: Iterable[Path]) -> Counted:
    """Count the lines of files that only the rule for assignments redacts; each line is examined on its own."""
    found = Counted(tree)
    for path in paths:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        named = [line for line in lines if _NAMES.search(line)]
        hit = tuple(line.strip()[:200] for line in named if _is_hit(line))
        found = found.plus(Counted("", 1, len(lines), len(named), hit))
    return found


def _is_hit(line: str) -> bool:
    return len(redact(line).hits) > len(redact(line, "keys").hits)


def texts_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a tree that are text and not tests."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path.suffix in _TEXTS and not _LEFT_OUT.intersection(inside) and _is_fit(path):
            yield path


def _is_fit(path: Path) -> bool:
    return not path.is_symlink() and path.is_file() and path.stat().st_size <= _FILE_MAX


def installed() -> dict[str, list[Path]]:
    """Return the trees of this machine: the standard library, installed packages, documents."""
    library, packages = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))
    shared = Path("/usr/share")
    return {
        "the standard library of Python": [path for path in texts_below(library) if "site-packages" not in path.parts],
        "installed packages": list(texts_below(packages)),
        "/usr/share": list(texts_below(shared)) if shared.is_dir() else [],
    }


def main(arguments: list[str]) -> int:
    """Print the figures; return 1 if more lines with a name are redacted than the limit allows."""
    folders = [Path(argument) for argument in arguments if not argument.startswith("-")]
    trees = {str(folder): list(texts_below(folder)) for folder in folders} or installed()
    total = Counted("all together")
    for tree, paths in trees.items():
        found = counted(tree, paths)
        print(found)
        for line in found.hit if "--show" in arguments else ():
            print("   ", line)
        total = total.plus(found)
    print(total)
    return 0 if total.per_named <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
