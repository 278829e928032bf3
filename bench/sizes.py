"""How much more than its content a log takes on disk."""

import os
from collections.abc import Iterator

from bench.made import Words
from bench.measure import Figure
from wakelog.log.content import Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import Message
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

GROUP = "Size"
TURNS = 200


def stored(folder: str, words: Words) -> Iterator[Figure]:
    """200 turns of a prompt, a 4 KB reply with a tool call, and its 8 KB result, said through a session."""
    session = Session.create(JsonlStore(folder), agent="size")
    content = 0
    for _ in range(TURNS):
        said = _turn(session, words)
        content += sum(len(text.encode()) for text in said)
    (path,) = (entry.path for entry in os.scandir(folder) if entry.name.endswith(".jsonl"))
    size = os.path.getsize(path)
    yield Figure(
        group=GROUP,
        what="bytes stored / bytes of content",
        workload=f"{TURNS} turns of a 4 KB reply and an 8 KB tool result through `Session.append`; the index apart",
        floor="the texts alone",
        goal="≤ 1.3",
        ratio=size / content,
        limit=1.3,
        measured=f"{size / 1e6:.2f} MB : {content / 1e6:.2f} MB",
    )


def _turn(session: Session, words: Words) -> tuple[str, ...]:
    prompt, command, reply, result = words.text(100), words.text(80), words.text(4_096), words.text(8_192)
    session.append(Message(message=Prompt(content=(Text(text=prompt),))))
    call = ToolCall(id="call_1", name="bash", input={"command": command})
    entry = session.append(Message(message=Reply(content=(Text(text=reply), call), model="example")))
    answer = ToolResult(tool_call_id="call_1", tool_name="bash", reply_id=entry.id, content=(Text(text=result),))
    session.append(Message(message=answer))
    return prompt, command, reply, result
