"""VIEW-11: `audit`: every tool call of a session or a store, and the settings of each turn."""

import pytest

from tests.cli.payloads import PAYLOADS
from wakelog.cli.ui.safe_text import hostile_characters
from wakelog.forking import fork
from wakelog.log.content import BlobRef
from wakelog.log.entry import ContextEntry, InstructionSource
from wakelog.log.ids import digest_of
from wakelog.session import Session


@pytest.fixture
def branched(story):
    """A session with a call on the active branch, and one beside it."""
    prompt = story.user("list the files")
    beside = story.reply(calls=[("c1", "shell", {"command": "ls -l"})])
    story.result(beside, "c1", status="error")
    reply = story.reply(calls=[("c2", "read", {"path": "a.txt", "limit": 3})], at=prompt.id)
    story.session.move_head(reply.id)
    story.result(reply, "c2")
    return story


def test_calls_are_listed_by_turn(shell, branched):
    """VIEW-11: time, tool, input, status and who allowed it; calls on other branches are counted."""
    answer = shell("audit", "crab_user_1")
    heading, call, total = answer.out.splitlines()
    assert heading.startswith("turn 1  2026-01-01 10:")
    assert heading.endswith("list the files")
    assert call.split()[:5] == ["4", call.split()[1], "read", "a.txt", "ok"]
    assert call.endswith("who allowed it is unknown")
    assert total == "crab_user_1: 1 tool call (1 ok); 1 more on other branches (--all-branches)"


def test_inputs_are_whole_in_json(shell, branched):
    """VIEW-11: one object a line; the input as it is in the log."""
    call, total = shell("audit", "crab_user_1", "--json").rows
    assert (call["kind"], call["input"], call["onBranch"]) == ("call", {"path": "a.txt", "limit": 3}, True)
    assert (total["kind"], total["calls"], total["otherBranches"]) == ("session", 1, 1)


def test_filters(shell, branched):
    """VIEW-11: by tool, by status, with other branches, and at an entry."""

    def tools(*words):
        return [row["tool"] for row in shell("audit", "crab_user_1", *words, "--json").rows if row["kind"] == "call"]

    assert tools("--all-branches") == ["shell", "read"]
    assert tools("--all-branches", "--tool", "shell") == ["shell"]
    assert tools("--all-branches", "--status", "ok") == ["read"]
    assert tools("--all-branches", "--status", "ok", "--status", "error") == ["shell", "read"]
    assert tools("--at", "2") == ["shell"]
    assert tools("--status", "denied") == []
    assert shell("audit", "crab_user_1", "--status", "strange").code == 2


def test_a_store_lists_each_call_once(shell, branched):
    """VIEW-11: with `--all` every session; a call that a fork inherited belongs to its parent."""
    child = fork(branched.session)
    named = shell("audit", child.name, "--json").rows
    assert [(row["inherited"], row["tool"]) for row in named if row["kind"] == "call"] == [(True, "read")]
    assert "inherited" in shell("audit", child.name).out
    rows = shell("audit", "--all", "--json").rows
    assert [row["session"] for row in rows if row["kind"] == "call"] == ["crab_user_1"]
    assert sorted(row["session"] for row in rows if row["kind"] == "session") == sorted(["crab_user_1", child.name])


@pytest.mark.meddled
def test_a_store_with_damaged_and_unreadable_sessions(shell, branched, store):
    """Law 9: the others are listed; damage and what cannot be read are reported."""
    Session.create(store, agent="whale")
    Session.create(store, agent="newer")
    with open(store.folder.log_path("crab_user_1"), "ab") as file:
        file.write(b"rubbish\n")
    with open(store.folder.log_path("newer_user_1"), "wb") as file:
        file.write(b'{"v":99,"type":"session","id":"s","version":99}\n')
    answer = shell("audit", "--all", "--json")
    assert answer.code == 1
    assert {row["session"] for row in answer.rows} == {"crab_user_1", "whale_user_1"}
    assert "crab_user_1: line" in answer.err
    assert "format 99" in answer.err
    with open(store.folder.log_path("newer_user_1"), "wb") as file:
        file.write(b"")
    assert shell("audit", "--all").code == 4


def test_a_session_or_all(shell, branched):
    """A session or `--all`, and an entry only of a session."""
    for words in ((), ("crab_user_1", "--all"), ("--all", "--at", "2")):
        assert shell("audit", *words).code == 2


def test_the_settings_of_each_turn(shell, story):
    """VIEW-11: instructions with path, scope, digest, size and load error; tools and policy; then what changed."""
    loaded = InstructionSource(
        kind="instructions", path="/AGENTS.md", scope="project", hash="sha256:ab", bytes=9, truncated=True
    )
    failed = InstructionSource(kind="instructions", path="/r/AGENTS.md", scope="folder", error="Permission denied")
    blobs = story.store.blobs
    tools = blobs.put(b'[{"name": "shell"}, {"name": "read"}]', "application/json")
    context = ContextEntry(
        sources=(loaded, failed),
        system=blobs.put(b"Be brief.", "text/plain"),
        tools=tools,
        policy={"approval": "ask", "strategy": "full", "reasoning": "keep"},
        environment={"cwd": "/r", "network": "allowed"},
    )
    story.session.append(context)
    story.user("one")
    story.reply("yes")
    story.user("two")
    story.reply("yes")
    lost = BlobRef(digest=digest_of(b"lost"), bytes=4)
    story.session.append(ContextEntry(sources=(loaded,), tools=lost, policy={"approval": "auto"}))
    story.user("three")
    first, second, third, total = shell("audit", "crab_user_1", "--context", "--json").rows
    assert (first["approval"], first["strategy"], first["reasoning"], first["changed"]) == ("ask", "full", "keep", [])
    assert first["tools"]["names"] == ["shell", "read"]
    assert first["instructions"]["bytes"] == 9
    assert [(source["path"], source["scope"], source["truncated"], source["error"]) for source in first["sources"]] == [
        ("/AGENTS.md", "project", True, None),
        ("/r/AGENTS.md", "folder", False, "Permission denied"),
    ]
    assert second["changed"] == []
    changed = {each["what"]: (each["before"], each["after"]) for each in third["changed"]}
    assert changed["policy.approval"] == ("ask", "auto")
    assert changed["sources./r/AGENTS.md"] == ("Permission denied", None)
    assert changed["tools"] == (tools.digest, lost.digest)
    assert third["tools"]["names"] is None
    assert total["calls"] == 0

    text = shell("audit", "crab_user_1", "--context").out
    assert "/AGENTS.md (project), 9 B, truncated, sha256:ab" in text
    assert "/r/AGENTS.md (folder): Permission denied" in text
    assert "tools        shell, read" in text
    assert "unchanged" in text
    assert "policy.approval: ask -> auto" in text


def test_what_is_not_recorded_is_said(shell, story):
    """VIEW-11: a log without settings has unknown ones."""
    story.user("hi")
    text = shell("audit", "crab_user_1", "--context").out
    assert "model unknown" in text
    assert "instructions, tools and policy are not recorded" in text
    (turn, _) = shell("audit", "crab_user_1", "--context", "--json").rows
    assert turn["sources"] is turn["tools"] is turn["environment"] is turn["model"] is None


@pytest.mark.parametrize("payload", PAYLOADS)
def test_stored_text_is_hostile(shell, story, payload):
    """Law 13: tools, inputs, prompts, settings and names of people."""
    source = InstructionSource(path=payload, scope=payload, hash=payload, error=payload)
    for policy in ({payload: payload}, {"approval": payload}):
        story.session.append(ContextEntry(sources=(source,), environment={payload: payload}, policy=policy))
        story.user(payload)
        story.result(story.reply(payload, calls=[("c1", payload, {"command": payload})], model=payload), "c1")
    out = shell("audit", "crab_user_1", "--context").out
    assert hostile_characters().search(out.replace("\n", "")) is None
