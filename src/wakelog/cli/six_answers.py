"""Last part of the demo: six questions about an agent run, answered from its log alone."""

import inspect
from collections import Counter

from wakelog.cli.draw import beginning
from wakelog.cli.output import put
from wakelog.cli.safe import first_line, visible
from wakelog.cli.stage import Stage
from wakelog.cli.times import plural, size
from wakelog.log.content import BlobRef, ToolResult
from wakelog.log.entry import Activity, Call, ContextEntry, Entry, Message, ToolStarted
from wakelog.projections.context import build_context
from wakelog.reading import Log, read_log
from wakelog.stores import open_store


def six_answers(stage: Stage, session: str) -> None:
    """Print the questions and their answers."""
    stage.chapter("Six questions, answered from that log", "What whoever runs an agent should be able to say of it.")
    log = read_log(open_store(stage.sessions), session)
    _question(1, "Which types of entry did the harness write?")
    _types(log)
    _question(2, "What stands in the log, and what in blobs?")
    _blobs(log)
    _question(3, "How was the context built?")
    _context(log)
    _question(4, "What does a new chat do to the log?")
    stage.run("run", "Hello", "--model", "demo", "--agent", "demo", "--sender", "you", "--quiet")
    stage.run("ls")
    put("  Nothing is deleted: the new chat is a session of its own.")
    _question(5, "Which tools may run twice, and did any?")
    _tools(log)
    _question(6, "Where did it crash, and how did it recover?")
    _crash(log)


def _question(number: int, text: str) -> None:
    put(f"\n{number}. {text}")


def _types(log: Log) -> None:
    counts = Counter(entry.type for entry in log.entries)
    put("  " + ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))


def _blobs(log: Log) -> None:
    inline = sum(len(entry.raw) for entry in log.entries)
    put(f"  In the log: {plural(len(log.entries), 'entry', 'entries')}, {size(inline)}.")
    for entry in log.entries:
        for what, blob in _named(entry):
            put(f"  In a blob:  {what}, {size(blob.bytes)}, {blob.digest[:19]}…")


def _named(entry: Entry) -> list[tuple[str, BlobRef]]:
    value = entry.value
    if isinstance(value, ContextEntry):
        found = [("the instructions", value.system), ("the tools as declared", value.tools)]
        return [(what, blob) for what, blob in found if blob is not None]
    if isinstance(value, Message) and isinstance(value.message, ToolResult) and value.message.blob is not None:
        return [(f"the whole output of {visible(value.message.tool_name)}", value.message.blob)]
    return []


def _context(log: Log) -> None:
    calls = [entry.value for entry in log.entries if isinstance(entry.value, Call)]
    strategies = sorted({call.strategy for call in calls})
    put(f"  {plural(len(calls), 'call')}, strategy {', '.join(strategies)}. The function:\n")
    for line in inspect.getsource(build_context).rstrip().splitlines():
        put(f"    {line}")


def _tools(log: Log) -> None:
    for entry in log.entries:
        if not isinstance(entry.value, ToolStarted):
            continue
        started = entry.value
        how = {"safe": "may run again", "receipt": "is asked what it did", "never": "never runs twice"}[started.replay]
        put(f"  {visible(started.name)}: {how}; attempt {started.attempt}; {_result(log, started)}")


def _result(log: Log, started: ToolStarted) -> str:
    for entry in log.entries:
        match entry.value:
            case Message(message=ToolResult(reply_id=started.reply_id, tool_call_id=started.tool_call_id) as result):
                return f"result: {result.settled}"
    return "no result"


def _crash(log: Log) -> None:
    """Print the entries around the crashes: model calls, interrupted and completed replies, tool starts and results."""
    holder = ""
    for entry in log.entries:
        value = entry.value
        if isinstance(value, Activity):
            died = value.event == "attached" and holder
            holder = value.holder if value.event == "attached" else ""
            if died:
                put("  " + " " * 12 + "  (the worker was killed here)")
        if entry.type in ("activity", "call", "partial", "resumed", "tool_started", "sent") or isinstance(
            value, Message
        ):
            put(f"  {value.timestamp[11:23]}  {_in_a_word(entry)}")


def _in_a_word(entry: Entry) -> str:
    value = entry.value
    if isinstance(value, Activity):
        return f"{value.event}: {visible(value.holder)}"
    if isinstance(value, Message):
        said = value.message
        word = f" {said.settled}" if isinstance(said, ToolResult) else ""
        return f"{said.__struct_config__.tag}{word}: {beginning(first_line(said.text), 60)}"
    return entry.type
