"""Install the pinned tools below `.tools/` of the checkout, each once, also when several processes ask at once."""

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.real_tools.pinned import PinnedTool

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".tools"
INSTALL_LIMIT_S = 3600


def node_folder() -> Path:
    """Return the folder of the newer Node that the Makefile installs."""
    found = sorted((ROOT / ".node").glob("node_modules/node-linux-*/bin/node"))
    assert found, "the newer Node is missing: `make test-tools` installs it"
    return found[0].parent


def installed(tool: PinnedTool) -> Path:
    """Return the folder of a tool. It is installed if it is not there in the pinned version."""
    folder, package = TOOLS / tool.name, " ".join(tool.npm) or tool.pip
    TOOLS.mkdir(exist_ok=True)
    with _locked(TOOLS / f"{tool.name}.lock"):
        mark = folder / ".installed"
        if not mark.exists() or mark.read_text() != package:
            folder.mkdir(exist_ok=True)
            _install(tool, folder)
            assert (folder / tool.program).exists(), f"{package} has no {tool.program}"
            mark.write_text(package)
    return folder


def _install(tool: PinnedTool, folder: Path) -> None:
    if tool.npm:
        options = ["--no-save", "--no-audit", "--no-fund", "--loglevel=error"]
        _run(["npm", "install", "--prefix", str(folder), *options, *tool.npm_options, *tool.npm])
    else:
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", tool.pip])


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
