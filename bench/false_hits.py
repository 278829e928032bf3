"""False hits of redaction on ordinary text, and planted secrets that it leaves, by mode.

    python -m bench.false_hits [--show] [--write-figures] [FOLDER …]

The texts: this repository, the standard library of the running Python, and made transcripts; with folders, or those of
$WAKELOG_SAMPLES, these as well. What is redacted in text without secrets is a false hit. Files that hold made-up
secrets on purpose, such as test certificates, are labelled in `LABELLED`; hits in them are counted apart. The planted
secrets are those of `tests/redaction/assignments_made.py`, each kind with several values, as text and as JSON.

`--show` prints each false hit of the default; `--write-figures` writes the tables into `docs/reliability.md`. Exits
with 1 if the default has more than one false hit in 10 MB, or `strict` leaves a planted secret.
"""

import argparse
import datetime as dt
import fnmatch
import json
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from bench.made_transcripts import Transcripts
from tests.redaction.assignments_made import made, random_value, secret
from tests.redaction.secrets_made import Chance
from wakelog.decide.policy import RedactMode
from wakelog.redaction.redactor import redact

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "reliability.md"
LIMIT_PER_10_MB = 1
MODES: tuple[RedactMode, ...] = ("keys", "assignments", "strict")
MADE_CHARS = 10_000_000
_FOLDERS = ("src", "tests", "docs", "bench", "examples", "tools")
_SUFFIXES = (
    ".py .pyi .txt .md .rst .toml .cfg .ini .json .jsonl .yaml .yml .js .ts .html .css .c .h .sh .xml .conf .pem"
)
_TEXTS = frozenset(_SUFFIXES.split())
_FILE_MAX = 5_000_000
_BEGIN, _END = "<!-- redaction: written by `make false-hits` -->", "<!-- end of redaction -->"

LABELLED: dict[str, tuple[str, ...]] = {
    "this repository": (
        *("tests/redaction/*", "tests/test_assignments.py", "tests/test_secrets.py", "tests/loopback/localhost.pem"),
        *("tests/cli/commands/test_config.py", "tests/cli/commands/test_service.py", "tests/config/test_parsing.py"),
        *("tests/exchange/test_files.py", "tests/stores/faults/test_refusals.py", "tests/recording/test_recording.py"),
        *("tests/providers/test_*.py", "tests/stores/postgres/test_errors.py", "docs/decisions/033-assignments.md"),
        *("tests/cli/commands/test_import_sessions.py", "tests/cli/commands/test_show.py"),
        *("tests/cli/commands/test_verify.py", "tests/test_known_secrets.py", "tests/tools/test_marked_text.py"),
    ),
    # Certificates with their keys, and tests of programs that handle passwords and cookies.
    "the standard library": (
        *("test/certdata/*", "test/*.pem", "test/test_urllib*.py", "test/test_xmlrpc.py", "test/test_http*.py"),
        *("test/test_netrc.py", "test/test_smtplib.py", "test/test_nntplib.py", "test/test_urlparse.py"),
        *("distutils/tests/*", "test/test_zipfile.py"),
    ),
}
"""The files that hold made-up secrets on purpose, by corpus."""

# The name of a text, and the text.
_Texts = Iterable[tuple[str, str]]


class Counted(msgspec.Struct, frozen=True):
    """The counts of a corpus: its size, and for each mode the hits, false ones and those in labelled files."""

    corpus: str
    chars: int
    false: dict[RedactMode, int]
    labelled: dict[RedactMode, int]
    shown: tuple[str, ...] = ()

    @property
    def megabytes(self) -> float:
        """The size in millions of characters."""
        return self.chars / 1e6

    @property
    def is_precise(self) -> bool:
        """Whether the default has at most one false hit in 10 MB."""
        return self.false["assignments"] <= max(1, self.chars // 10_000_000) * LIMIT_PER_10_MB

    @property
    def row(self) -> str:
        """The counts as a row of the table."""
        hits = " | ".join(f"{self.false[mode]:,} ({self.labelled[mode]:,})" for mode in MODES)
        return f"| {self.corpus} | {self.megabytes:.1f} | {hits} |"


class Planted(msgspec.Struct, frozen=True):
    """How many kinds of planted secrets a mode leaves."""

    values: str
    kinds: int
    left: dict[RedactMode, tuple[str, ...]]

    @property
    def row(self) -> str:
        """The counts as a row of the table."""
        found = " | ".join(f"{self.kinds - len(self.left[mode])} of {self.kinds}" for mode in MODES)
        return f"| {self.values} | {found} |"


def counted(corpus: str, texts: _Texts, modes: Sequence[RedactMode] = MODES) -> Counted:
    """Count the hits in the texts of a corpus."""
    chars, shown = 0, []
    false, labelled = dict.fromkeys(MODES, 0), dict.fromkeys(MODES, 0)
    for name, text in texts:
        chars += len(text)
        is_labelled = any(fnmatch.fnmatch(name, pattern) for pattern in LABELLED.get(corpus, ()))
        for mode in modes:
            found = redact(text, mode)
            (labelled if is_labelled else false)[mode] += len(found.hits)
            if found.hits and not is_labelled and mode == "assignments":
                shown += [f"{name}: {line}" for line in _changed_lines(text, found.text)]
    return Counted(corpus, chars, false, labelled, tuple(shown))


def _changed_lines(text: str, redacted: str) -> Iterator[str]:
    for line, after in zip(text.splitlines(), redacted.splitlines(), strict=False):
        if line != after:
            at = next((at for at, pair in enumerate(zip(line, after, strict=False)) if pair[0] != pair[1]), 0)
            yield line[max(0, at - 60) : at + 90].strip()


def planted(values: str, value_of: Callable[[Chance, str], str], rounds: int = 5) -> Planted:
    """Count the kinds of planted secrets that are left by each mode."""
    kinds: dict[str, None] = {}
    left: dict[RedactMode, dict[str, None]] = {mode: {} for mode in MODES}
    for kind, text, value in made(rounds, value_of):
        kinds[kind] = None
        for mode in MODES:
            said = (redact(text, mode).text, redact(json.dumps({"content": f"out\n{text}\n"}), mode).text)
            if any(value[:8] in each for each in said):
                left[mode][kind] = None
    return Planted(values, len(kinds), {mode: tuple(found) for mode, found in left.items()})


def files_below(folder: Path, *, every: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the text files of a folder with their paths in it; with `every`, whatever their names are."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        is_text = (every or path.suffix in _TEXTS) and not {"__pycache__", "site-packages"}.intersection(inside.parts)
        if is_text and not path.is_symlink() and path.is_file() and path.stat().st_size <= _FILE_MAX:
            yield inside.as_posix(), path.read_text(encoding="utf-8", errors="replace")


def repository() -> Iterator[tuple[str, str]]:
    """Yield the texts of this repository."""
    for folder in _FOLDERS:
        yield from ((f"{folder}/{name}", text) for name, text in files_below(ROOT / folder, every=folder != "tools"))


def standard_library() -> Iterator[tuple[str, str]]:
    """Yield the texts of the standard library of the running Python."""
    return files_below(Path(sysconfig.get_path("stdlib")))


def transcripts(chars: int = MADE_CHARS, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield made transcripts."""
    return ((f"text {number}", text) for number, text in enumerate(Transcripts(seed).texts(chars)))


def corpora(folders: Sequence[Path]) -> dict[str, _Texts]:
    """Return the texts that are counted, by the name of the corpus."""
    samples = [text for folder in folders for text in files_below(folder, every=True)]
    return {
        "this repository": repository(),
        "the standard library": standard_library(),
        "made transcripts": transcripts(),
        **({"recorded sessions of other agents": samples} if samples else {}),
    }


def table(corpora: Sequence[Counted], kinds: Sequence[Planted], day: str) -> str:
    """Return the figures as two tables."""
    names = " | ".join(f"`{mode}`" for mode in MODES)
    head = f"| text without secrets ({day}) | MB | {names} |\n{'|---' * 5}|\n"
    counts = "\n".join(each.row for each in corpora)
    found = "\n".join(each.row for each in kinds)
    return f"{head}{counts}\n\n| planted secrets | {names} |\n{'|---' * 4}|\n{found}\n"


def write(text: str, path: Path = DOCUMENT) -> None:
    """Replace the tables in a document."""
    before, rest = path.read_text(encoding="utf-8").split(_BEGIN)
    after = rest.split(_END)[1]
    path.write_text(f"{before}{_BEGIN}\n{text}{_END}{after}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return 1 if the default has too many false hits or `strict` leaves a secret."""
    parser = argparse.ArgumentParser(prog="python -m bench.false_hits", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="recorded sessions that hold no secrets")
    parser.add_argument("--show", action="store_true", help="print each false hit of the default")
    parser.add_argument("--write-figures", action="store_true", help="write the tables into docs/reliability.md")
    asked = parser.parse_args(arguments)
    named = [Path(folder) for folder in os.environ.get("WAKELOG_SAMPLES", "").split(os.pathsep) if folder]
    found = [counted(name, texts) for name, texts in corpora([*asked.folders, *named]).items()]
    kinds = [planted("as people write them", secret), planted("24 random letters and digits", random_value)]
    text = table(found, kinds, dt.datetime.now(dt.UTC).date().isoformat())
    print(text)
    for line in (line for each in found for line in each.shown) if asked.show else ():
        print(line)
    if asked.write_figures:
        write(text)
    return 0 if all(each.is_precise for each in found) and not any(each.left["strict"] for each in kinds) else 1


if __name__ == "__main__":
    sys.exit(main())
