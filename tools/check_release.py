"""Check a built release: `python -m tools.check_release dist`, run by `make release`.

The wheel and the sdist are each installed into a fresh virtual environment in a temporary folder. There, outside of the
checkout, `wakelog --version` must print the version of the source, `wakelog demo` must succeed, and the package must be
the installed one. The extra `testing` must be enough to import every module of `wakelog.testing`.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent

_IMPORT_SUITES = """
import importlib, pkgutil, sys
import wakelog.testing
for module in pkgutil.walk_packages(wakelog.testing.__path__, "wakelog.testing."):
    importlib.import_module(module.name)
assert wakelog.__file__.startswith(sys.prefix), wakelog.__file__
"""


def find(dist: Path) -> list[Path]:
    """Return the wheel and the sdist of the version in pyproject.toml; exit unless they are the only files there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stem = f"{project['name']}-{project['version']}"
    expected = [dist / f"{stem}-py3-none-any.whl", dist / f"{stem}.tar.gz"]
    if sorted(dist.iterdir()) != sorted(expected):
        sys.exit(
            f"expected {[path.name for path in expected]} in {dist}, found {[path.name for path in dist.iterdir()]}"
        )
    return expected


def missing(wheel: Path, sdist: Path) -> list[str]:
    """Return source files that the wheel or the sdist lacks, and files of the wheel that are not in the source."""
    package = ROOT / "src" / "wakelog"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    source = {path.relative_to(ROOT / "src").as_posix() for path in files}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as tar:
        in_sdist = {name.partition("/")[2] for name in tar.getnames()}
    documents = {"README.md", "CHANGELOG.md", "LICENSE", "SECURITY.md", "pyproject.toml"}
    return [
        *(f"{name} is not in the wheel" for name in sorted(source - in_wheel)),
        *(f"{name} is in the wheel but not in the source" for name in sorted(in_wheel - source)),
        *(
            f"{name} is not in the sdist"
            for name in sorted(({f"src/{name}" for name in source} | documents) - in_sdist)
        ),
    ]


def check(file: Path, *, extras: str = "") -> None:
    """Install a file into a fresh environment and use it; exit if anything fails."""
    with tempfile.TemporaryDirectory(prefix="wakelog-release-") as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        bin_ = folder / "venv" / "bin"
        home = folder / "home"
        home.mkdir()
        # Nothing of this checkout or of the user's own configuration may be found.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "WAKELOG_", "XDG_"))}
        installing = kept | {"PATH": f"{bin_}:{os.environ['PATH']}"}
        environment = installing | {"HOME": str(home)}
        pip = [str(bin_ / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, f"{file.resolve()}{extras}"], home, installing)
        version = _run([str(bin_ / "wakelog"), "--version"], home, environment).strip()
        expected = file.name.removesuffix(".tar.gz").split("-")[1]
        if version != f"wakelog {expected}":
            sys.exit(f"{file.name}: `wakelog --version` prints {version!r}")
        _run([str(bin_ / "wakelog"), "demo"], home, environment)
        if extras:
            _run([str(bin_ / "python"), "-c", _IMPORT_SUITES], home, environment)
    print(f"{file.name}{extras}: installed; `wakelog --version` and `wakelog demo` work")


def _run(command: Sequence[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed with exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Check the files in the folder given as the only argument."""
    wheel, sdist = find(Path(sys.argv[1]))
    if found := missing(wheel, sdist):
        sys.exit("\n".join(found))
    check(wheel)
    check(wheel, extras="[testing]")
    check(sdist)


if __name__ == "__main__":
    main()
