"""Laws 2 and 6, RUN-19: agents with MCP tools whose workers are killed, and woken from the log alone."""

import asyncio
import os

import pytest

from tests.kernel.watching import Watched as Worker
from tests.kernel.watching import until
from tests.patience import PATIENCE_S
from tests.tools.mcp.serving import plain
from tests.tools.mcp.waker import Place
from tests.tools.test_commands_shell import Watched
from wakelog.decide import wording
from wakelog.decide.decisions import Idle
from wakelog.log.content import ToolResult
from wakelog.log.entry import Message, ToolStarted
from wakelog.reading import read_log
from wakelog.runtime.user_actions import request_cancel

MODULE = "tests.tools.mcp.waker"


def _values(place, kind):
    return [entry.value for entry in read_log(place.store, "s").entries if isinstance(entry.value, kind)]


def _result(place):
    (result,) = [value.message for value in _values(place, Message) if isinstance(value.message, ToolResult)]
    return result


def test_an_agent_calls_a_tool(tmp_path):
    place = Place(tmp_path)
    place.begin(plain(trusted=True), "folder")
    report = asyncio.run(place.wake())
    assert (report.decision, report.text) == (Idle(), "Seen.")
    assert (_result(place).text, _result(place).effective_status) == (os.path.realpath(tmp_path), "ok")


@pytest.mark.parametrize(("trusted", "runs", "settled"), [(True, 2, "ok"), (False, 1, "unknown")])
def test_a_kill_while_a_tool_runs(tmp_path, trusted, runs, settled):
    """Law 6: a read-only tool of a trusted server runs again; the same tool of another is never run twice.

    Law 2, RUN-19: the second wake is another process with no configuration. The server of the first does not outlive
    it, although its worker had no time to end it.
    """
    place = Place(tmp_path)
    place.begin(plain(trusted=trusted), "stall")
    with Worker(tmp_path, module=MODULE) as worker:
        (server,) = until(lambda: place.touched)
        orphan = Watched([server])
        worker.process.kill()
        assert orphan.all_end()
    assert [value.replay for value in _values(place, ToolStarted)] == ["safe" if trusted else "never"]
    assert asyncio.run(place.wake()).decision == Idle()
    assert len(place.touched) == runs
    assert len(set(place.touched)) == runs
    assert _result(place).effective_status == settled
    assert _result(place).text == ("looked" if trusted else wording.UNKNOWN)


def test_a_cancel_ends_the_turn_though_the_server_does_not_answer(tmp_path):
    """RUN-12: the call is settled."""
    place = Place(tmp_path)
    session = place.begin(plain(), "hang")
    with Worker(tmp_path, module=MODULE) as worker:
        (server,) = until(lambda: place.touched)
        gone = Watched([server])
        request_cancel(session)
        assert worker.process.wait(PATIENCE_S) == 0
        assert gone.all_end()
    assert _result(place).effective_status == "interrupted"
    assert len(place.touched) == 1


def test_a_call_to_a_server_that_was_removed(tmp_path):
    """RUN-7: the call is settled with an error, and the turn completes."""
    place = Place(tmp_path)
    program = tmp_path / "program"
    program.symlink_to(plain().command[0])
    place.begin(plain().__class__(name="plain", command=(str(program), *plain().command[1:])), "folder")
    program.unlink()
    assert asyncio.run(place.wake()).text == "Seen."
    assert _result(place).effective_status == "error"
    assert f"cannot start {program}: No such file or directory" in _result(place).text
