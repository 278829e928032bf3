"""The session as people read it: one row for each thing said or done (VIEW-8)."""

from wakelog.log.content import Image, Note, Prompt, Reply, Text, Thinking
from wakelog.log.entry import Cancelled, Custom, Failed, FaultReport, Message, ModelChange, Setting
from wakelog.testing.builders import Story
from wakelog.views.transcript import transcript


def rows(story):
    return transcript(story.session.branch())


def test_calls_hold_their_results():
    """A tool call and its result are one row; results that answer nothing shown are rows of their own."""
    story = Story()
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
    story = Story()
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
    """The last label of an entry stands on its first row; an empty one takes it away."""
    story = Story()
    first, second = story.user("one"), story.user("two")
    for entry, text in ((first, "a"), (first, "b"), (second, "c"), (second, "")):
        story.session.label(entry.id, text)
    assert [row.labels for row in rows(story)] == [(), ("b",), ()]
