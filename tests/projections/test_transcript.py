"""The session as people read it: one row for each message and action (VIEW-8)."""

from wakelog.log.content import BlobRef, Image, Note, Prompt, Reply, Text, Thinking
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Cancelled,
    ContextEntry,
    Custom,
    Failed,
    FaultReport,
    InstructionSource,
    Message,
    ModelChange,
    Partial,
    Queued,
    Setting,
)
from wakelog.projections.transcript import transcript
from wakelog.testing.builders import SessionBuilder


def rows(story):
    return transcript(story.session.branch())


def test_calls_include_their_results():
    """A tool call and its result are one row; results without a displayed call are rows of their own."""
    story = SessionBuilder()
    story.user("go")
    reply = story.reply("looking", calls=[("t1", "bash", {"command": "ls"}), ("t2", "read", {})])
    story.result(reply, "t2", "two", status="error")
    shown = rows(story)[1:]
    assert [(row.kind, row.name, row.status, row.text) for row in shown] == [
        ("prompt", "", "", "go"),
        ("reply", "example", "", "looking"),
        ("call", "bash", "open", ""),
        ("call", "read", "error", "two"),
    ]
    assert shown[2].input == {"command": "ls"}


def test_every_kind_of_row():
    story = SessionBuilder()
    for body in (
        Message(message=Reply(content=(Thinking(thinking="hm"), Text(text="so"), Image(mime_type="image/png")))),
        Message(message=Note(content="noted", custom_type="x")),
        Message(message=Prompt(content="bare")),
        ModelChange(model="m2"),
        Setting(key="k", value=3),
        Cancelled(reason="stop"),
        Failed(reason="call", error=FaultReport(kind="x", message="busy")),
        Custom(custom_type="y", data={"a": 1}),
    ):
        story.session.append(body)
    story.session.compact("all of it")
    assert [(row.kind, row.name, row.text, row.status) for row in rows(story)] == [
        ("session", "crab", "", ""),
        ("thinking", "", "hm", ""),
        ("reply", "", "so", ""),
        ("reply", "", "[image image/png]", ""),
        ("note", "x", "noted", ""),
        ("prompt", "", "bare", ""),
        ("change", "model", "m2", ""),
        ("change", "k", "", ""),
        ("ended", "", "stop", "cancelled"),
        ("ended", "", "call: busy", "failed"),
        ("note", "y", "", ""),
        ("fold", "", "all of it", ""),
    ]


def test_labels():
    """The last label of an entry is on its first row; an empty label removes it."""
    story = SessionBuilder()
    first, second = story.user("one"), story.user("two")
    for entry, text in ((first, "a"), (first, "b"), (second, "c"), (second, "")):
        story.session.label(entry.id, text)
    assert [row.labels for row in rows(story)] == [(), ("b",), ()]


def test_unfinished_work():
    """A call shows its progress, an interrupted reply its text; queued messages come last."""
    story = SessionBuilder()
    asked = story.user("go")
    reply = story.reply("", calls=[("t1", "bash", {}), ("t2", "bash", {}), ("t3", "bash", {}), ("t4", "bash", {})])
    story.started(reply, "t1")
    for call in ("t2", "t3"):
        raised = story.session.append(Attention(reason="approve", reply_id=reply.id, tool_call_id=call), at=reply.id)
    story.session.append(AttentionResolved(attention_id=raised.id, decision="approve"), at=reply.id)
    story.session.append(Partial(reply_id="never-came", content="half a"), at=asked.id)
    story.session.append(Partial(reply_id=reply.id, content="came later"), at=asked.id)
    story.session.append(Queued(message=Prompt(content="hurry"), mode="steer"))
    story.session.append(Queued(mode="cancel"))
    story.session.append(Queued(mode="compact", message=Prompt(content="mind the names")))
    assert [(row.kind, row.status, row.text) for row in rows(story)[1:]] == [
        ("prompt", "", "go"),
        ("cut", "", "half a"),
        ("call", "begun", ""),
        ("call", "waiting", ""),
        ("call", "decided", ""),
        ("call", "open", ""),
        ("queued", "steer", "hurry"),
    ]


def test_a_context_entry_names_its_changes():
    story = SessionBuilder()
    blob = BlobRef(digest="sha256:" + "0" * 64, bytes=3)
    story.session.append(ContextEntry())
    story.session.append(
        ContextEntry(sources=(InstructionSource(path="A.md"),), system=blob, tools=blob, policy={"approval": "ask"})
    )
    assert [row.text for row in rows(story)[1:]] == ["no tools", "A.md, instructions, tools, approval ask"]
