"""`show`, `context`, `tree`, `usage`, `tail`: the same log, read in different ways (VIEW-1 to VIEW-4, VIEW-8)."""

import re

import msgspec
import pytest

from wakelog.app.addresses import Address
from wakelog.cli.commands.tail import _last_entries
from wakelog.cli.ui.transcripts import annotation_line
from wakelog.log.content import BlobRef, Prompt, Reply, Usage
from wakelog.log.entry import (
    ANNOTATION_TYPES,
    Activity,
    Attention,
    AttentionResolved,
    Body,
    ContextEntry,
    DamageNote,
    FaultReport,
    Head,
    Label,
    Message,
    ModelCall,
    ModelChange,
    Partial,
    Queued,
    Resumed,
    SendFailed,
    Sent,
    SessionArchived,
    SessionRenamed,
    Spawned,
    Terminated,
    ToolStarted,
    UnknownBody,
)
from wakelog.log.lines import EntryReader
from wakelog.session import Session


def test_show_prints_the_entries_as_stored(shell, story):
    """Law 10: raw bytes, a line each, all branches."""
    first = story.user("a")
    story.reply("b")
    story.user("c", at=first.id)
    assert shell("show", "crab_user_1", "--json").raw == (shell.store / "crab_user_1.jsonl").read_bytes()


def test_show_of_one_branch(shell, story):
    first = story.user("a")
    side = story.user("c", at=story.session.id)
    story.session.label(side.id, "aside")
    rows = shell("show", "crab_user_1", "--at", "aside", "--json").rows
    assert [row["id"] for row in rows if row["type"] == "message"] == [side.id]
    assert [row["type"] for row in rows] == ["session", "message", "label"]
    assert first.id in shell("show", "crab_user_1", "--json").out
    assert "1 other branch: wakelog tree crab_user_1" in shell("show", "crab_user_1").out


def test_show_active_puts_the_summary_in_front(shell, story):
    """VIEW-3: what follows the last compaction, with the compaction in front; without one, the branch."""
    story.user("a")
    kept = story.reply("b")
    assert [row["type"] for row in shell("show", "crab_user_1", "--active", "--json").rows] == [
        "session",
        "message",
        "message",
    ]
    story.session.compact("one", first_kept=kept.id)
    story.user("c")
    story.session.compact("two", first_kept=kept.id)
    rows = shell("show", "crab_user_1", "--active", "--json").rows
    assert [row.get("summary") or row["message"]["content"][0]["text"] for row in rows] == ["two", "b", "c"]
    shown = shell("show", "crab_user_1", "--active").out
    assert shown.index("two") < shown.index("     b\n") < shown.index("     c\n")


def test_show_as_text(shell, story):
    """A pipe gets every line of tool output; author and address are printed once per entry."""
    story.user("look")
    reply = story.reply("I will.", calls=[("t1", "bash", {"command": "ls -l"})])
    story.result(reply, "t1", "\n".join(f"file {number}" for number in range(30)), status="error")
    shown = shell("show", "crab_user_1").out
    assert "  1  user" in shown
    assert "ls -l" in shown
    assert "error" in shown
    assert "file 29" in shown
    assert shown.count("assistant") == 1


def test_show_counts_what_it_shows(shell, story):
    """VIEW-3: the heading counts the messages below it: those that a fork inherits, of one branch, or of its end."""
    first = story.user("a")
    story.reply("b")
    story.user("c")
    shell("fork", "crab_user_1", "--new-session")
    shell("fork", "crab_user_1", "--new-session", "--at", first.id)
    story.user("aside", at=first.id)
    for words, counted in (
        (("crab_user_1",), "3 messages"),
        (("crab_user_1", "--at", first.id), "1 message "),
        (("crab_user_2",), "3 messages"),
        (("crab_user_3",), "1 message "),
    ):
        assert f" {counted}" in shell("show", *words).out.splitlines()[1], words
        number = counted.split()[0]
        assert f"- messages: {number}\n" in shell("export", *words, "-f", "md").out, words
    assert [row["prompt"] for row in shell("ls", "--json").rows] == ["a"] * 3
    shell("append", "crab_user_2", "d")
    story.session.compact("folded", first_kept=story.session.branch().tip.id)
    assert " 4 messages" in shell("show", "crab_user_2").out
    assert " 1 message " in shell("show", "crab_user_1", "--active").out


def test_context_json(shell, story):
    """VIEW-9: model, provider, strategy, messages, digest; and the entry that each message came from."""
    prompt = story.user("a")
    story.session.append(ModelChange(model="m2", provider="p2"))
    reply = story.reply("b", model="m1")
    seen = shell("context", "crab_user_1", "--json").json
    assert list(seen) == ["model", "provider", "strategy", "messages", "entries", "tokens", "overLimit", "digest"]
    assert (seen["model"], seen["provider"], seen["strategy"]) == ("m2", "p2", "full")
    assert seen["entries"] == [prompt.id, reply.id]
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant"]
    assert seen["digest"].startswith("sha256:")
    assert shell("context", "crab_user_1", "--at", "1", "--json").json["entries"] == [prompt.id]
    assert shell("context", "crab_user_1", "--strategy", "window:1", "--json").json["strategy"] == "window:1"
    assert shell("context", "crab_user_1", "--strategy", "most").code == 2
    assert "2 messages" in shell("context", "crab_user_1").out


def test_context_says_by_how_much_a_budget_is_exceeded(shell, story):
    """VIEW-1: in the context now, in the request of a call, and in the list of entries."""
    story.user("x" * 400)
    call = story.session.append(ModelCall(reply_id="r", strategy="budget:60", over_limit=40))
    said = "exceeds budget:60 by 40 tokens"
    assert said in shell("context", "crab_user_1", "--strategy", "budget:60").out
    assert said in shell("context", "crab_user_1", "--at", call.id, "--exact").out
    assert shell("context", "crab_user_1", "--at", call.id, "--exact", "--json").json["overLimit"] == 40
    assert shell("context", "crab_user_1", "--strategy", "budget:100", "--json").json["overLimit"] == 0
    assert "40 over budget:60" in shell("tail", "crab_user_1").out


def test_context_counts_the_whole_request(shell, story):
    """VIEW-4: instructions, tools and injected text count as messages do; a long message has its size.

    Of a declared tool only what a request says of it counts, not the sub-agents that are stored with it.
    """
    four = BlobRef(digest="sha256:" + "0" * 64, bytes=4)
    declared = [{"name": "x", "description": "", "schema": {}, "replay": "safe", "agents": "a" * 90_000}]
    tools = story.store.blobs.put(msgspec.json.encode(declared), "application/json")
    story.session.append(ContextEntry(system=four, tools=tools))
    story.user("abcd\n" + "line\n" * 9)
    story.session.append(ModelCall(reply_id="r", injected=(four, four)))
    shown = shell("context", "crab_user_1").out
    assert "1 message · about 27 tokens · full" in shown
    assert "instructions  1 token\n" in shown
    assert "tools  11 tokens\n" in shown
    assert "injected at the last call  2 tokens\n" in shown
    assert "      abcd\n      line\n      line\n      … 7 more lines\n" in shown


def test_tree_json(shell, story):
    first = story.user("a")
    reply = story.reply("b", calls=[("t1", "bash", {"command": "ls"})])
    story.result(reply, "t1", "done")
    story.session.label(first.id, "start")
    tree = shell("tree", "crab_user_1", "--json").json
    assert list(tree) == ["head", "entries"]
    assert [entry["type"] for entry in tree["entries"]] == ["session", "message", "message", "message", "label"]
    assert [entry["parentId"] for entry in tree["entries"]][:3] == [None, story.session.id, first.id]
    assert [entry.get("role") for entry in tree["entries"]][1:4] == ["user", "assistant", "toolResult"]
    assert [entry["link"] for entry in tree["entries"]] == [True, True, True, True, False]
    assert tree["head"] == tree["entries"][3]["id"]


def test_tree_drawing(shell, story):
    """A chain stays in its column, a side branch gets its own, the active branch and the head are marked."""
    first = story.user("a")
    story.reply("old")
    story.user("older still")
    story.session.move_head(first.id)
    story.reply("new")
    story.session.label(first.id, "here")
    lines = [line.rsplit("  ", 1)[0] for line in shell("tree", "crab_user_1").out.splitlines()]
    assert [line[:8] for line in lines] == ["0 ● sess", "1 ● user", "2 ├─○ as", "3 │ ○ us", "5 ● assi"]
    assert lines[1].endswith("[here]")
    assert lines[4].endswith("◀ head")
    shell("head", "crab_user_1", "3")
    back = [line[:8] for line in shell("tree", "crab_user_1").out.splitlines()]
    assert back == ["0 ● sess", "1 ● user", "5 ├─○ as", "2 ● assi", "3 ● user"], (
        "the active branch goes on in its column"
    )


def test_a_deep_tree_is_drawn_without_recursion(shell, story):
    """A log may be deeper than any stack: forks within forks, thousands deep."""
    lines = (shell.store / "crab_user_1.jsonl").read_bytes()
    session = story.session.id
    for number in range(3_000):
        parent = session if number < 2 else f"n{number - 2}"
        body = (
            f'{{"type":"message","id":"n{number}","parentId":"{parent}","message":{{"role":"user","content":"x"}}}}\n'
        )
        lines += body.encode()
    (shell.store / "crab_user_1.jsonl").write_bytes(lines)
    answer = shell("tree", "crab_user_1")
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 3_001


def test_usage_counts_each_call_once(shell, story):
    """VIEW-8: a call shared by two branches is counted once; an unknown price makes the sum unknown."""
    first = story.user("a")
    story.reply("b", usage=Usage(input_tokens=10, output_tokens=1, cost_micros=5))
    story.user("c")
    story.reply("d", usage=Usage(input_tokens=3, cache_read_tokens=7, cost_micros=2))
    story.reply("e", at=first.id, usage=Usage(input_tokens=1, cost_micros=1))
    used = shell("usage", "crab_user_1", "--json").json
    branches = used.pop("branches")
    tokens = {"calls": 3, "input": 14, "output": 1, "cacheRead": 7, "cacheWrite": 0}
    assert {key: used[key] for key in tokens} == tokens
    assert (used["cost"], used["knownCost"], used["callsWithoutCost"], used["repliesWithoutUsage"]) == (8, 8, 0, 0)
    assert [(branch["calls"], branch["cost"], branch["alone"]["cost"]) for branch in branches] == [(2, 7, 7), (1, 1, 1)]
    story.reply("f", usage=Usage(input_tokens=1))
    used = shell("usage", "crab_user_1", "--json").json
    assert (used["cost"], used["knownCost"], used["callsWithoutCost"]) == (None, 8, 1)
    assert "$0.0000 and 1 call of unknown price" in shell("usage", "crab_user_1").out


def test_usage_says_what_is_not_known(shell, story):
    """VIEW-8: replies without figures are not "0 calls, $0", and a session without any says so."""
    assert shell("usage", "crab_user_1").out == "crab_user_1: no model calls\n"
    story.user("a")
    story.reply("b", usage=None)
    assert shell("usage", "crab_user_1").out == "crab_user_1: 1 reply without usage figures\n"
    story.reply("c", usage=Usage(input_tokens=1), model="none-such")
    out = shell("usage", "crab_user_1").out
    assert "1 call, 1 in, 0 out, 0 from cache, price unknown; 1 reply without usage figures" in out


def _reply(story, usage, provider, model):
    story.session.append(Message(message=Reply(content="b", usage=usage, provider=provider, model=model)))


def test_prices_are_applied_when_usage_is_shown_and_never_written(shell, story):
    """VIEW-8: the cost of a known model is found in the price table, whose date is shown; the log stays as it is."""
    story.user("a")
    spent = Usage(input_tokens=1_000_000, output_tokens=100_000, cache_read_tokens=1_000_000)
    _reply(story, spent, "anthropic", "claude-sonnet-4-5-20250929")
    before = (shell.store / "crab_user_1.jsonl").read_bytes()
    used = shell("usage", "crab_user_1", "--json").json
    assert used["cost"] == used["knownCost"] > 1_000_000
    assert re.search(r"prices of genai-prices [\d.]+, the newest from \d{4}-\d\d-\d\d", used["prices"])
    assert used["prices"] in shell("usage", "crab_user_1").out
    assert (shell.store / "crab_user_1.jsonl").read_bytes() == before


def test_configured_prices_are_applied_to_calls_without_a_cost(shell, story, mine):
    """VIEW-8: a price of the configuration holds for calls that other programs recorded, too."""
    story.user("a")
    _reply(story, Usage(input_tokens=2_000_000), "openai", "gpt-none")
    mine('[prices."openai:gpt-none"]\ninput = 1.5\n')
    assert shell("usage", "crab_user_1", "--json").json["cost"] == 3_000_000


def test_tail_prints_the_last_entries_in_the_order_of_the_log(shell, story):
    first = story.user("a")
    story.reply("b")
    story.user("c", at=first.id)
    stored = (shell.store / "crab_user_1.jsonl").read_bytes().splitlines(keepends=True)
    assert shell("tail", "crab_user_1", "-n", "2", "--json").raw == b"".join(stored[-2:])
    assert shell("tail", "crab_user_1", "-n", "0", "--json").raw == b""
    reader = EntryReader()
    assert _last_entries(Address(story.store, "crab_user_1", "crab_user_1"), reader, 0) == []
    assert reader.next_seq == 4, "what stands there already is not news to a follower"
    assert shell("tail", "crab_user_1", "--json").raw == b"".join(stored)
    story.session.label(first.id, "the start")
    assert shell("tail", "crab_user_1", "-n", "1").out == "  4  label  the start\n\n"
    assert "4 ┊ label  the start" in shell("tree", "crab_user_1", "--annotations").out


@pytest.mark.parametrize("foreign", [b'{"type":"message","id":"f1","message":{"role":"user","content":"by hand"}}\n'])
def test_tail_of_lines_without_numbers(shell, story, foreign):
    """Lines without seq are counted from the beginning."""
    story.user("a")
    log = shell.store / "crab_user_1.jsonl"
    log.write_bytes(log.read_bytes() + foreign)
    assert shell("tail", "crab_user_1", "-n", "1", "--json").raw == foreign
    assert "  2  user" in shell("tail", "crab_user_1", "-n", "1").out


ANNOTATIONS: list[tuple[Body, str]] = [
    (Label(target_id="x", label="named"), "label  named"),
    (Head(target_id="x"), "head  x"),
    (SessionRenamed(title="T"), "session_renamed  T"),
    (SessionArchived(), "session_archived  archived"),
    (Queued(message=Prompt(content="wait")), "queued  wait"),
    (Queued(), "queued"),
    (Queued(message=Prompt(content="now"), mode="steer"), "queued  steer: now"),
    (Queued(mode="cancel"), "queued  cancel the turn"),
    (Queued(mode="compact"), "queued  compact"),
    (Queued(message=Prompt(content="names"), mode="compact"), "queued  compact: names"),
    (Attention(reason="look"), "attention  look"),
    (Attention(reason="approve", reply_id="r", tool_call_id="t1"), "attention  approve t1"),
    (AttentionResolved(attention_id="a", decision="yes"), "attention_resolved  yes"),
    (AttentionResolved(attention_id="a", decision="result", result="3"), "attention_resolved  result: 3"),
    (Activity(holder="w", event="left"), "activity  left w"),
    (ModelCall(call_id="c", reply_id="r", model="m"), "call  reply m"),
    (Sent(reply_id="r", channel="terminal"), "sent  to terminal"),
    (SendFailed(reply_id="r", channel="bot", attempt=2), "send_failed  to bot, attempt 2"),
    (
        SendFailed(reply_id="r", channel="bot", error=FaultReport(kind="OSError", message="gone")),
        "send_failed  to bot, attempt 1: gone",
    ),
    (ToolStarted(reply_id="r", tool_call_id="t", name="bash"), "tool_started  bash"),
    (ToolStarted(reply_id="r", tool_call_id="t", name="bash", attempt=2), "tool_started  bash, attempt 2"),
    (Spawned(child_session="s", reply_id="r", tool_call_id="t"), "spawned  s"),
    (DamageNote(bytes=7), "damage  torn, 7 bytes"),
    (Terminated(reason="done"), "terminated  done"),
    (Resumed(reply_id="r"), "resumed  from the beginning"),
    (Resumed(reply_id="r", strategy="resume", prior_chars=9), "resumed  from character 9 on"),
    (Partial(reply_id="r", content="so far"), "partial  6 characters: so far"),
    (Partial(reply_id="r", error=FaultReport(kind="empty", message="it was empty")), "partial  it was empty"),
    (UnknownBody(type="new\x1b", id="x"), "new␛"),
]


@pytest.mark.parametrize(("annotation", "line"), ANNOTATIONS, ids=[line for _, line in ANNOTATIONS])
def test_annotations_in_a_few_words(annotation, line):
    assert annotation_line(annotation) == line


def test_no_annotation_is_forgotten():
    assert {annotation.type for annotation, _ in ANNOTATIONS} >= ANNOTATION_TYPES


def test_context_shows_the_input_of_tools(shell, story):
    """VIEW-1: the model sees the name and the input of a call."""
    story.user("look")
    reply = story.reply("yes", calls=[("t1", "grep", {"pattern": "\x1b[2Jparser", "path": "src"})])
    story.result(reply, "t1", "found")
    out = shell("context", "crab_user_1").out
    assert '[grep] {"path":"src","pattern":"' in out
    assert "parser" in out
    assert "\x1b" not in out


def test_usage_of_all_sessions_counts_a_copied_call_once(shell, store, story):
    """ST-9: agents that copy history when they fork give both sessions the same reply."""
    story.user("a")
    copied = story.reply("b", usage=Usage(input_tokens=10, cost_micros=5))
    other = Session.create(store, agent="whale")
    other.append(msgspec.structs.replace(copied.value, parent_id=other.id, seq=None, v=None))
    other.append(Message(message=Reply(content="c", usage=Usage(input_tokens=1, cost_micros=1))))
    used = shell("usage", "--all", "--json").json
    assert (used["calls"], used["input"], used["cost"]) == (2, 11, 6)
    assert {each["name"]: each["calls"] for each in used["sessions"]} == {"crab_user_1": 1, "whale_user_1": 2}
    assert "total: 2 calls" in shell("usage", "--all").out
    assert "1 repeated call not counted" in shell("usage", "--all").out
    assert [shell("usage").code, shell("usage", "crab_user_1", "--all").code] == [2, 2]


def test_show_counts_redacted_secrets_by_kind(shell, story):
    """LOG-20: as text below the heading, with --json as a line after the entries; nothing without a mark."""
    story.user("hello")
    assert "redacted" not in shell("show", "crab_user_1").out
    first = story.user("ADMIN_TOKEN=q7Zk2Vw9Xr4Tb8Lm3Np6 and q7Zk2Vw9Xr4Tb8Lm3Np6")
    story.user(f"ghp_{'a1B2c3D4e5F6' * 3} and [redacted: jwt]", at=first.id)
    counts = {"assignment": 2, "github-token": 1, "jwt": 1}
    shown = shell("show", "crab_user_1").out
    assert "4 secrets redacted: 2 assignment, 1 github-token, 1 jwt\n" in shown
    assert shell("show", "crab_user_1", "--json").rows[-1] == {"type": "redacted", "counts": counts}
    at_first = shell("show", f"crab_user_1:{first.seq}").out
    assert "2 secrets redacted: 2 assignment\n" in at_first
