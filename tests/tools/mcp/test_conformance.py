"""The client scenarios of the protocol's conformance suite that apply to wakelog.

The others test what we do not do: asking people on behalf of a server (elicitation), and OAuth. The suite and the
Node it needs come from `make test`; a machine without them fails here and says so.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.processes import environment

MODULES = Path(__file__).parents[3] / ".node" / "node_modules"
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"


@pytest.mark.parametrize(("scenario", "checks"), [("initialize", 1), ("tools_call", 1), ("sse-retry", 3)])
def test_a_client_scenario_passes(scenario, checks, tmp_path):
    assert SUITE.exists(), "the conformance suite of MCP is not here: `make .node/.ready` fetches it"
    (node,) = MODULES.glob("node-linux-*/bin/node")
    client = shlex.join([sys.executable, "-m", "tests.tools.mcp.conforming"])
    command = [node, SUITE, "client", "--command", client, "--scenario", scenario, "--output-dir", tmp_path]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=1_800, check=False)
    (report,) = tmp_path.glob("*/checks.json")
    found = [check["status"] for check in json.loads(report.read_text()) if check["status"] != "INFO"]
    assert (done.returncode, found) == (0, ["SUCCESS"] * checks), done.stdout + done.stderr
