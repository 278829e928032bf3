"""The session that is handed to every real tool, the rows that a tool sends of it, and sessions taken from a tool."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tests.loopback import ModelRequest, ModelServer, Row, Say
from tests.loopback.rows import call_text
from tests.real_tools.running import RealTool
from wakelog.app.agent import Agent
from wakelog.exchange.account import ImportedSession
from wakelog.exchange.exporting import session_to_write
from wakelog.exchange.places import usual_files
from wakelog.exchange.sync import import_files
from wakelog.exchange.writing import SessionToWrite
from wakelog.log.content import Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import Compaction, Message
from wakelog.ports.stores import Store
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.tools.function_tool import FunctionTool, tool

SUMMARY = "Summary: the number 17 was agreed on."
CONTINUED = "Continued by wakelog."
CALL_ID = "toolu_0123456789"
# Texts that tools put into messages of the user: their own context, never what a person said.
_INJECTED = re.compile(
    r"\s*<(environment|environment_context|system-reminder|session_context|info-msg|<<BEGIN_OPENCLAW_INTERNAL_CONTEXT)\b"
)
_INFO = re.compile(r"<info-msg>.*?</info-msg>\s*|^\[\w{3} [-\d]{10} [:\d]{5} \w+\] |\n\nRuntime: agent=.*", re.DOTALL)


def example_session(cwd: Path | str, shell: str = "bash", *, store: Store | None = None) -> SessionToWrite:
    """Return a session with a summarised turn, a tool call with its result, a compaction, and a later turn."""
    session = Session.create(
        store or MemoryStore(), agent="crab", cwd=str(cwd), title="An example", provider="anthropic", model="claude-x"
    )

    def say(message: Prompt | Reply | ToolResult) -> str:
        return session.append(Message(message=message)).id

    model: dict[str, Any] = {"provider": "anthropic", "model": "claude-x"}
    say(Prompt(content="Let us agree on a number."))
    say(Reply(content="Seventeen.", stop_reason="stop", **model))
    kept = say(Prompt(content="Now say hello to the shell."))
    call = ToolCall(id=CALL_ID, name=shell, input={"command": "echo hello"})
    asking = say(Reply(content=(Text(text="I greet it."), call), stop_reason="tools", **model))
    answer = Text(text="hello from the shell")
    say(ToolResult(content=(answer,), tool_call_id=CALL_ID, tool_name=shell, reply_id=asking, status="ok"))
    say(Reply(content="It greeted back.", stop_reason="stop", **model))
    session.append(Compaction(summary=SUMMARY, first_kept_entry_id=kept, tokens_before=1200))
    say(Prompt(content="Thank you, größte Hilfe! 世界"))
    say(Reply(content="You are welcome.", stop_reason="stop", **model))
    return session_to_write(session.store, session.name)


def example_rows(shell: str = "bash", call_id: str = CALL_ID) -> list[Row]:
    """Return the rows of the example that come behind the summary, as a request has to contain them."""
    return [
        Row("user", "Now say hello to the shell."),
        Row("assistant", "I greet it."),
        Row("call", call_text(shell, {"command": "echo hello"}), call_id),
        Row("result", "hello from the shell", call_id),
        Row("assistant", "It greeted back."),
        Row("user", "Thank you, größte Hilfe! 世界"),
        Row("assistant", "You are welcome."),
    ]


def spoken_rows(request: ModelRequest) -> list[Row]:
    """Return the rows of a request without system prompts and without context that the tool itself adds."""
    rows = [Row(row.kind, _INFO.sub("", row.text), row.id) for row in request.conversation]
    return [row for row in rows if not (row.kind == "user" and (_INJECTED.match(row.text) or not row.text.strip()))]


def without_ids(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return kinds and texts alone, for tools that give calls new ids."""
    return [(row.kind, row.text) for row in rows]


def import_sessions(store: Store, tool: RealTool) -> list[ImportedSession]:
    """Import all sessions of a tool from its usual place."""
    files = usual_files({"HOME": str(tool.home)}).get(tool.pinned.name, [])
    assert files, f"{tool.pinned.title} has written no session"
    done = list(import_files(store, files))
    assert [file.status for file in done] == ["imported"] * len(done), done
    return [session for file in done for session in file.sessions]


class Continued(NamedTuple):
    """A session of a tool that was continued by wakelog."""

    session: Session
    request: ModelRequest
    """What the model was told last."""
    ran: list[str]
    """The commands that wakelog ran."""

    @property
    def statuses(self) -> list[str]:
        """How the tool calls of the session ended."""
        return [row.status or "" for row in self.session.transcript() if row.kind == "call"]


def continue_with_wakelog(server: ModelServer, store: Store, imported: ImportedSession, shell: str) -> Continued:
    """Run the next turn of an imported session with wakelog, which has a tool with the name of the tool's shell.

    wakelog first ends a turn that was interrupted, so there may be two requests; each is answered alike.
    """
    ran: list[str] = []

    def run_command(command: str) -> str:
        """Runs a command."""
        ran.append(command)
        return "ran"

    offered: FunctionTool = tool(name=shell, replay="never")(run_command)
    server.forget_script()
    server.play([Say(CONTINUED)], [Say(CONTINUED)])
    with mock.patch.dict(os.environ, {"ANTHROPIC_API_KEY": "not-a-key"}):
        agent = Agent("anthropic:claude-sonnet-4-5", tools=[offered], params={"endpoint": server.url})
        done = agent.run_sync(store, "What happened?", session=imported.session)
    server.forget_script()
    assert done.text == CONTINUED, done
    return Continued(done.session, server.turns[-1], ran)
