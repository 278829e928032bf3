"""JSON: one document around the entries as they are stored (ST-8, LOG-8)."""

import json

from tests.laws.logs import bytes_of, store_of
from tests.transfer.copies import exported
from wakelog.forking import fork
from wakelog.stores.memory import MemoryStore
from wakelog.testing.builders import SessionBuilder


def test_the_document():
    story = SessionBuilder()
    first = story.user("a")
    story.reply("b")
    story.user("c", at=first.id)
    story.session.rename("A title")
    whole = json.loads(exported(story.store, story.session.name))
    assert list(whole) == ["format", "id", "name", "title", "state", "head", "active", "damage", "journals", "entries"]
    assert (whole["format"], whole["name"], whole["title"]) == ("wakelog/1", "crab_user_1", "A title")
    assert [json.loads(line) for line in bytes_of(story).splitlines()] == whole["entries"]
    assert whole["active"][-1] == whole["head"]


def test_bytes_are_kept():
    """Law 10: unknown keys, unusual numbers and unusual spacing stay as they were written."""
    line = b'{"type":"later", "id":"x1","n":123456789012345678901,"f":1.0e5,"\\u00e9":"\\u0041"}'
    content = exported(store_of(b'\xef\xbb\xbf{"type":"session","id":"s1"}\r\n' + line + b"\nrubbish\n"))
    assert line in content
    whole = json.loads(content)
    assert [hurt["kind"] for hurt in whole["damage"]] == ["unreadable"]
    assert [entry["id"] for entry in whole["entries"]] == ["s1", "x1"]


def test_a_fork_contains_what_it_inherited():
    story = SessionBuilder()
    first = story.user("a")
    child = fork(story.session)
    entries = json.loads(exported(child.store, child.name))["entries"]
    assert [entry["id"] for entry in entries] == [story.session.id, first.id, child.id]


def test_inherited_damage_names_its_log():
    """Law 9, LOG-16: a damaged line of the parent is not reported as one of the fork."""
    store = MemoryStore()
    story = SessionBuilder(store)
    story.user("a")
    story.user("b")
    child = fork(story.session)
    raw = bytes_of(story).split(b"\n")
    raw[1] = b"#" + raw[1][1:]
    store.replace(story.session.id, story.session.name, b"\n".join(raw))
    whole = json.loads(exported(child.store, child.name))
    found = [hurt for hurt in whole["damage"] if hurt["kind"] == "unreadable"]
    assert [hurt["session"] for hurt in found] == [story.session.name]
