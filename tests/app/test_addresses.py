"""How sessions and entries are addressed (docs/cli.md), and what a path may not do (law 9, ST-2)."""

import json
import os
import stat

import pytest

from wakelog.forking import fork

_AT = "2026-03-01T09:00:0{}.000Z"


def _said(number, **message):
    entry = {"type": "message", "id": f"q{number}", "parentId": f"q{number - 1}", "timestamp": _AT.format(number)}
    return {**entry, "message": message}


# A log as another program writes it: no seq, no seal, short ids.
_CALL = {"type": "toolCall", "id": "c1", "name": "sh", "input": {"command": "make"}}
_LINES = [
    {"type": "session", "id": "q1", "timestamp": _AT.format(1), "cwd": "/srv/app", "version": 1},
    _said(2, role="user", content=[{"type": "text", "text": "Does it build?"}]),
    _said(3, role="assistant", stopReason="toolUse", content=[_CALL], model="any", usage={"inputTokens": 90}),
    _said(
        4,
        role="toolResult",
        toolCallId="c1",
        toolName="sh",
        isError=True,
        content=[{"type": "text", "text": "no rule"}],
    ),
]
FOREIGN = b"".join(json.dumps(line).encode() + b"\n" for line in _LINES)


def text_of(answer):
    return answer.rows[-1]["message"]["content"][0]["text"]


def test_a_session_by_id_name_prefix_and_latest(shell, story):
    story.user("first")
    shell("new", "--agent", "dove", "--id", "dddd-1111")
    shell("append", "dddd-1111", "second")
    for typed in (story.session.id, "crab_user_1", "crab", story.session.id[:20]):
        assert text_of(shell("show", typed, "--json")) == "first"
    for typed in ("dddd-1111", "dove_user_1", "dov", "dddd", "@latest"):
        assert text_of(shell("show", typed, "--json")) == "second"


def test_an_ambiguous_prefix_is_refused(shell):
    for _ in range(2):
        shell("new", "--agent", "crab")
    answer = shell("show", "crab")
    assert answer.code == 2
    assert "crab_user_1" in answer.err
    assert "crab_user_2" in answer.err
    assert shell("show", "crab_user_1").code == 0


def test_latest_is_the_first_session_of_the_list(shell):
    assert shell("show", "@latest").code == 3
    for agent in ("a", "b"):
        shell("new", "--agent", agent)
    shell("append", "a_user_1", "x")
    assert shell("ls", "--all", "--json").rows[0]["name"] == "a_user_1"
    assert shell("show", "@latest", "--json").rows[0]["agent"] == "a"


def test_latest_is_never_a_sub_agent(shell):
    """ST-1: a sub-agent writes last while its parent waits, and is not what a person means by the latest session."""
    assert shell("run", "--yes", "--model", "demo", "ask an agent to list .").code == 0
    newest, *_ = (row["name"] for row in shell("ls", "--all", "--json").rows)
    assert newest == "agent_user_1"
    assert shell("append", "agent_user_2", "wait").code == 0
    assert shell("ls", "--all", "--json").rows[0]["name"] == "agent_user_2"
    assert shell("show", "@latest", "--json").rows[0]["number"] == 1
    os.unlink(shell.store / "agent_user_1.jsonl")
    only = shell("show", "@latest")
    assert (only.code, "there are only sessions of sub-agents" in only.err) == (3, True)


def test_names_of_any_script_can_be_typed(shell):
    """ST-2: whole, by a prefix, decomposed, as a path, with an entry; an invalid name is refused in one line."""
    name = shell("new", "--agent", "бот", "--sender", "ё-王").out.strip()
    assert name == "бот_ё-王_1"
    assert shell("append", name, "hello").code == 0
    path = str(shell.store / f"{name}.jsonl")
    for typed in (name, "бот", "бот_ё", "бот_\u0435\u0308-王_1", path, f"{name}:1"):
        assert text_of(shell("show", typed, "--json")) == "hello"
    assert shell("ls", "--all", "--sender", "ё-王", "--json").rows[0]["name"] == name
    for typed in ("бот\u202e_1", "бот 1", "Бот_1", "ж" * 500):
        refused = shell("show", typed)
        assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_an_entry_by_id_number_label_and_prefix(shell, story):
    first = story.user("a")
    story.reply("b")
    story.session.label(first.id, "the start")
    for typed in (first.id, "1", "the start", first.id[:-1]):
        assert shell("context", "crab_user_1", "--at", typed, "--json").json["entries"] == [first.id]
        assert shell("context", f"crab_user_1:{typed}", "--json").json["entries"] == [first.id]
    assert shell("context", "crab_user_1:1", "--at", "2").code == 2
    unclear = shell("context", "crab_user_1", "--at", first.id[:4])
    assert (unclear.code, "matches 4 entries: 0, 1, 2, 3; name one of them" in unclear.err) == (2, True)
    assert shell("context", "crab_user_1", "--at", "99").code == 3
    assert shell("context", "crab_user_1", "--at", "crab_user_1:1").code == 0


def test_a_label_may_contain_a_colon(shell, story):
    first = story.user("a")
    story.reply("b")
    story.session.label(first.id, "todo: look")
    assert shell("context", "crab_user_1", "--at", "todo: look", "--json").json["entries"] == [first.id]


def test_the_address_of_an_annotation_means_its_node(shell, story):
    first = story.user("a")
    story.reply("b")
    label = story.session.label(first.id, "x")
    assert shell("context", "crab_user_1", "--at", label.id, "--json").json["entries"] == [first.id]


def test_an_id_wins_over_a_number(shell):
    """Ids of other programs may be digits; an exact match wins."""
    (shell.folder / "n.jsonl").write_bytes(
        b'{"type":"session","id":"2"}\n'
        b'{"type":"message","id":"9","message":{"role":"user","content":"nine"}}\n'
        b'{"type":"message","id":"7","message":{"role":"user","content":"seven"}}\n'
    )
    assert shell("context", "n.jsonl", "--at", "9", "--json").json["entries"] == ["9"]
    assert shell("context", "n.jsonl", "--at", "1", "--json").json["entries"] == ["9"]
    assert shell("context", "n.jsonl", "--at", "2", "--json").json["entries"] == []


def test_inherited_entries_have_addresses_that_work(shell, story):
    """TREE-4: the address that the tree of a fork shows for an entry can be typed."""
    first = story.user("a")
    story.reply("b")
    child = fork(story.session)
    shown = [line.split()[0] for line in shell("tree", child.name).out.splitlines()]
    assert shown == ["^0", "^1", "^2", "0"]
    assert shell("context", child.name, "--at", "^1", "--json").json["entries"] == [first.id]
    assert shell("show", f"{child.name}:^1").out.splitlines()[-2].split()[0] == "^1"
    assert shell("head", child.name, "^1", "--json").json["targetId"] == first.id
    assert shell("head", child.name).out == "^1\n"
    assert shell("show", child.name, "--at", "^9").code == 3


# ── paths ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lone(shell):
    """A log of another program, alone in a read-only folder."""
    folder = shell.folder / "theirs"
    folder.mkdir()
    (folder / "log.jsonl").write_bytes(FOREIGN)
    return folder / "log.jsonl"


def test_a_log_of_others_opens_as_it_stands(shell, lone):
    """LOG-6: three messages in order, one failed result, nothing pending, no damage."""
    seen = shell("context", str(lone), "--json")
    assert seen.code == 0
    assert [message["role"] for message in seen.json["messages"]] == ["user", "assistant", "toolResult"]
    assert seen.json["messages"][2]["isError"] is True
    assert shell("verify", str(lone), "--json").json == {
        "ok": True,
        "entries": 4,
        "damage": [],
        "broken": [],
        "unsealed": 0,
        "noted": [],
        "blobs": 0,
        "lost": [],
        "head": "",
        "anchored": None,
        "since": None,
    }
    assert "sh  make" in shell("show", str(lone)).out


def test_a_copy_of_a_foreign_log_can_be_appended_to(shell, lone):
    copy = shell.folder / "copy.jsonl"
    copy.write_bytes(FOREIGN)
    assert shell("append", "copy.jsonl", "And now?").code == 0
    assert copy.read_bytes().startswith(FOREIGN)
    assert len(shell("context", "./copy.jsonl", "--json").json["messages"]) == 4
    assert shell("verify", "copy.jsonl").code == 0


READERS = [
    ("show",),
    ("show", "--json"),
    ("show", "--active"),
    ("tree",),
    ("context",),
    ("tail",),
    ("verify",),
    ("doctor",),
    ("usage",),
    ("head",),
    ("export", "-f", "md"),
    ("export", "-f", "json"),
    ("export", "-f", "jsonl"),
]


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_reading_a_path_writes_nothing_beside_it(shell, lone, words):
    """Law 9: reading never writes, neither to the log nor next to it."""
    before = sorted(os.listdir(lone.parent)), lone.read_bytes(), lone.stat().st_mtime_ns
    os.chmod(lone.parent, stat.S_IRUSR | stat.S_IXUSR)
    answer = shell(words[0], str(lone), *words[1:])
    assert answer.code == 0
    assert answer.raw
    os.chmod(lone.parent, stat.S_IRWXU)
    assert (sorted(os.listdir(lone.parent)), lone.read_bytes(), lone.stat().st_mtime_ns) == before
    assert not shell.store.exists()


def test_links_are_resolved(shell, lone):
    """A link to a log is that log: an append goes to the file that the link names."""
    (shell.folder / "link.jsonl").symlink_to(lone)
    assert shell("context", "link.jsonl", "--json").code == 0
    shell("append", "link.jsonl", "more")
    assert lone.read_bytes().count(b"\n") == 5
    assert os.path.islink(shell.folder / "link.jsonl")


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("../../../etc/passwd", 3),
        ("/etc/passwd", 2),
        ("/no/such/file.jsonl", 3),
        ("./missing.jsonl", 3),
        ("..", 2),
        ("../", 2),
        ("/", 2),
        (".", 2),
        ("~", 2),
        ("-", 2),
        ("a\0b", 2),
        ("./a\0b.jsonl", 2),
        ("a" * 5_000, 2),
        ("./" + "a" * 5_000 + ".jsonl", 3),
        ("/".join(["a"] * 3_000) + ".jsonl", 3),
        (".hidden.jsonl", 3),
        ("by-id/../../x.jsonl", 3),
        ("crab user", 2),
        ("", 2),
        (":", 2),
        ("x:", 2),
        (":x", 2),
        ("@nothing", 2),
        ("..%2f..%2fx", 2),
    ],
)
def test_invalid_addresses_are_refused(shell, typed, code):
    """ST-2, law 13: one line, an exit code, no traceback; nothing is created."""
    for command in ("show", "append"):
        words = (command, typed, "text") if command == "append" else (command, typed)
        answer = shell(*words) if not typed.startswith("-") else shell(command, "--", *words[1:])
        assert answer.code == code
        assert answer.err.startswith("wakelog: ")
        assert answer.err.count("\n") == 1
    assert not shell.store.exists()


def test_a_store_may_be_named_in_either_place(shell):
    """`--store` on `wakelog`, on the command, in the environment, or nowhere; the most specific wins."""
    for folder in ("one", "two"):
        shell("--store", folder, "new", "--agent", folder)
    assert shell("ls", "--all", "--store", "one", "--json").rows[0]["agent"] == "one"
    assert shell("--store", "one", "ls", "--all", "--store", "two", "--json").rows[0]["agent"] == "two"
    assert shell("--store", "jsonl:two", "ls", "--all", "--json").rows[0]["agent"] == "two"
    assert shell("ls", "--all", "--json").rows == []


def test_the_default_store(shell, monkeypatch):
    monkeypatch.delenv("WAKELOG_STORE")
    name = shell("new").out.strip()
    assert (shell.folder / "data" / "wakelog" / "sessions" / f"{name}.jsonl").is_file()
    monkeypatch.setenv("XDG_DATA_HOME", "")
    shell("new")
    assert (shell.folder / ".local" / "share" / "wakelog" / "sessions").is_dir()


def test_an_unknown_store_scheme_is_refused(shell):
    assert shell("ls", "--store", "ftp://somewhere").code == 2
