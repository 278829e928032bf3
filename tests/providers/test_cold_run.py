"""A cold `wakelog run` loads the HTTP client and no vendor SDK."""

import os
import re
import subprocess
import sys

import pytest

from tests.loopback import Answer, Loopback
from tests.providers.wire_formats import KEY, RIGS

NEVER = {"anthropic", "mcp", "openai", "pydantic", "pydantic_core"}


@pytest.mark.parametrize("name", RIGS)
def test_no_sdk_is_loaded(name, tmp_path):
    """Start-up: the SDKs and their types take seconds to import; a run needs `httpx2` alone."""
    rig = RIGS[name]
    vendor = rig.way.vendor
    with Loopback() as server:
        server.play(Answer(rig.whole))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "WAKELOG_STORE": str(tmp_path / "store"),
            vendor.key_variables[0]: KEY,
            vendor.url_variable: f"{server.url}{rig.path}",
        }
        command = [sys.executable, "-X", "importtime", "-m", "wakelog", "run", "--model", f"{name}:m", "Hello."]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert (done.stdout, len(server.asked)) == ("Hi\n", 1)
    loaded = {
        module.partition(".")[0] for module in re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE)
    }
    assert {"httpx2", "wakelog"} <= loaded
    assert not loaded & NEVER
