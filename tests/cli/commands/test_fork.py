"""`head` and `fork`: where a session continues (TREE-2 to TREE-4)."""

from wakelog.log.entry import SessionHeader


def test_head_shows_and_moves(shell, story):
    """TREE-3: the head is in the log, so it stays where it was put even if nothing follows."""
    first = story.user("a")
    last = story.reply("b")
    assert (shell("head", "crab_user_1").out, last.seq) == ("2\n", 2)
    moved = shell("head", "crab_user_1", "1", "--json")
    assert (moved.json["type"], moved.json["targetId"]) == ("head", first.id)
    assert "moves the head back" in moved.err
    assert shell("head", "crab_user_1", "--json").json == {"head": first.id}
    assert shell("head", f"crab_user_1:{last.id}").code == 0
    assert shell("head", "crab_user_1").out == "2\n"


def test_fork_moves_the_head_and_the_next_append_branches(shell, story):
    """TREE-2: the old branch stays readable and can become active again."""
    first = story.user("a")
    old = story.reply("b")
    answer = shell("fork", "crab_user_1", "--at", first.id)
    assert answer.code == 0
    assert "next entry follows" in answer.err
    shell("append", "crab_user_1", "c")
    tree = shell("tree", "crab_user_1", "--json").json
    children = [entry["text"] for entry in tree["entries"] if entry["parentId"] == first.id and entry["link"]]
    assert children == ["b", "c"]
    assert [
        row["message"]["content"][0]["text"] for row in shell("show", f"crab_user_1:{old.id}", "--json").rows[1:3]
    ] == [
        "a",
        "b",
    ]


def test_fork_needs_an_entry(shell, story):
    assert shell("fork", "crab_user_1").code == 2


def test_fork_into_a_new_session(shell, store, story):
    """TREE-4: a back-link to session and entry, and two independent sessions from there."""
    first = story.user("a")
    story.reply("b")
    made = shell("fork", "crab_user_1", "--at", "1", "--new-session", "--json").json
    assert made["name"] == "crab_user_2"
    assert (made["parent"]["session"], made["parent"]["entry"]) == (story.session.id, first.id)
    shell("append", "crab_user_2", "c")
    assert [m["content"][0]["text"] for m in shell("context", "crab_user_2", "--json").json["messages"]] == ["a", "c"]
    assert [m["content"][0]["text"] for m in shell("context", "crab_user_1", "--json").json["messages"]] == ["a", "b"]
    inherited = [
        entry["id"] for entry in shell("tree", "crab_user_2", "--json").json["entries"] if entry.get("inherited")
    ]
    assert inherited == [story.session.id, first.id]
    assert shell("fork", "crab_user_2", "--new-session").out == "crab_user_3\n"
    assert isinstance(story.session.read().entries[0].value, SessionHeader)
