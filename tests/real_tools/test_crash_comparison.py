"""The crash comparison: every agent is killed and resumed, wakelog among them; what wakelog promises is checked.

What the other agents do is recorded, not judged: only the rig is checked, so that a record means what it says.
"""

import pytest

from tests.loopback import ModelServer
from tests.real_tools.crash_comparison import COMPARED, LAST_WORD, PROMPT, crash_in_stream, crash_in_tool
from tests.real_tools.running import RealTool


def marked(*names):
    """Return tools as parameters; wakelog is always run."""
    return [pytest.param(name, marks=pytest.mark.real_tools(*([name] if name != "wakelog" else []))) for name in names]


@pytest.fixture
def compared(request):
    return COMPARED[request.getfixturevalue("name")]


@pytest.fixture
def server(compared):
    with ModelServer(without_tools=not compared.has_tools) as running:
        yield running


@pytest.fixture
def tool(compared, server, tmp_path):
    real = RealTool(compared, tmp_path / compared.name, server.url)
    yield real
    real.close()


@pytest.mark.parametrize("name", marked(*(name for name in COMPARED if COMPARED[name].has_tools)))
def test_killed_while_a_tool_runs(name, server, tool, held_command, record_crash):
    crash = crash_in_tool(tool, server, held_command)
    record_crash(crash)
    assert held_command.effects[0] == "begun"
    if crash.has_session:
        assert any(kind == "user" and "What happened?" in text for kind, text in crash.told)
    if name == "wakelog":
        assert crash.on_disk == ("prompt", "text", "call")
        assert (crash.call_is_told, crash.ran_again) == (True, False)
        assert "unknown" in crash.outcome


@pytest.mark.parametrize("name", marked(*COMPARED))
def test_killed_in_mid_stream(name, server, tool, record_crash):
    crash = crash_in_stream(tool, server)
    record_crash(crash)
    if name == "wakelog":
        assert crash.on_disk == ("prompt", "text")
        assert any(kind == "user" and PROMPT in text for kind, text in crash.told)
        assert LAST_WORD in tool.run_with("show", "@latest").stdout
