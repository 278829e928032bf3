"""Parse units with systemd's own parser; nothing is started."""

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager

_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@contextmanager
def open_folder():
    """A folder that every user may read: systemd reads units as a user other than root."""
    folder = tempfile.mkdtemp(prefix="wakelog-units-")
    os.chmod(folder, 0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def complaints(*paths, scope):
    """Return the output of `systemd-analyze verify` for unit files; empty if they are valid."""
    with open_folder() as runtime:
        told = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", f"--{scope}", *map(str, paths)],
            env=os.environ | {"XDG_RUNTIME_DIR": runtime},
            capture_output=True,
            text=True,
            check=False,
        )
    return told.stdout + told.stderr + (f"exit status {told.returncode}" if told.returncode else "")


def understood(*units):
    """Return what systemd reads from units: for each its lines of `Key: value`, as a list of pairs."""
    with open_folder() as folder:
        for unit in units:
            with open(os.path.join(folder, unit.name), "w", encoding="utf-8") as file:
                file.write(unit.text)
        runtime = os.path.join(folder, "runtime")
        os.mkdir(runtime)
        os.chmod(runtime, 0o777)
        dump = _dump(folder, runtime, units[-1].name)
    return {unit.name: _pairs(dump, unit.name) for unit in units}


def _dump(folder, runtime, unit):
    binary = next(path for path in ("/usr/lib/systemd/systemd", "/lib/systemd/systemd") if os.path.exists(path))
    who = _NOBODY if os.geteuid() == 0 else ()
    places = {"SYSTEMD_UNIT_PATH": f"{folder}:", "XDG_RUNTIME_DIR": runtime, "HOME": runtime}
    told = subprocess.run(
        [*who, binary, "--user", "--test", f"--unit={unit}"],
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "SYSTEMD_LOG_TARGET": "console", **places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


def _pairs(dump, name):
    """Return the lines of one unit in a dump."""
    block = re.search(rf"^\t?-> Unit {re.escape(name)}:\n((?:\t\t.*\n)+)", dump, re.MULTILINE)
    assert block, dump
    return [tuple(line.strip("\t").split(": ", 1)) for line in block[1].splitlines() if ": " in line]


def words_of(pairs):
    """Return the command line of a service as words. A dump quotes it for a shell, so a shell splits it."""
    (line,) = [value for key, value in pairs if key == "Command Line"]
    printed = subprocess.run(["/bin/sh", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True)
    return printed.stdout.split("\0")[:-1]


def environment_of(pairs):
    """Return the environment of a service."""
    return dict(value.split("=", 1) for key, value in pairs if key == "Environment")
