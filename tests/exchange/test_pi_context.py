"""ST-9: after an import the model sees what pi would show it, for random trees."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.pi_records import Chain, bodies, check_entries, context_texts, header, tree_of

_KINDS = ("user", "assistant", "label", "session_info", "custom", "custom_message", "compaction", "branch_summary")


@st.composite
def trees(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return a session whose records have random parents. Each text occurs once."""
    chain = Chain(header())
    ids: list[str] = []
    for number in range(draw(st.integers(1, 14))):
        own_id, text = f"e{number}", f"text {number}"
        # Mostly a chain, as in real sessions.
        parent = draw(st.sampled_from([None, *ids, *(ids[-1:] * 2 * len(ids))]))
        kind = draw(st.sampled_from(_KINDS))
        match kind:
            case "user" | "assistant":
                chain.say(own_id, kind, [{"type": "text", "text": text}], parent=parent)
            case "label":
                chain.add(kind, own_id, parent=parent, targetId=draw(st.sampled_from([*ids, "e0"])), label=text)
            case "session_info":
                chain.add(kind, own_id, parent=parent, name=text)
            case "custom":
                chain.add(kind, own_id, parent=parent, customType="x", data=text)
            case "custom_message":
                chain.add(kind, own_id, parent=parent, customType="x", content=text, display=draw(st.booleans()))
            case "compaction":
                above = [record["id"] for record in path_to(chain.records, parent)]
                kept = draw(st.sampled_from([*above, "lost"]))
                chain.add(kind, own_id, parent=parent, summary=text, firstKeptEntryId=kept, details={"a": 1})
            case "branch_summary":
                chain.add(kind, own_id, parent=parent, summary=text, fromId="e0")
        ids.append(own_id)
    return chain.records


def path_to(records: list[dict[str, Any]], leaf: str | None) -> list[dict[str, Any]]:
    """Return the records from the root to a leaf."""
    by_id = {record["id"]: record for record in records[1:]}
    path: list[dict[str, Any]] = []
    while leaf is not None:
        path.insert(0, by_id[leaf])
        leaf = by_id[leaf]["parentId"]
    return path


def texts_of_pi(records: list[dict[str, Any]]) -> list[str]:
    """Return what pi shows the model: the path to the last record, from the last compaction on."""
    path = path_to(records, records[-1]["id"])
    at = max((at for at, record in enumerate(path) if record["type"] == "compaction"), default=None)
    if at is None:
        return [text for record in path for text in _texts(record)]
    ids = [record["id"] for record in path[:at]]
    first = path[at]["firstKeptEntryId"]
    kept = path[ids.index(first) : at] if first in ids else []
    return [path[at]["summary"], *(text for record in (*kept, *path[at + 1 :]) for text in _texts(record))]


def _texts(record: dict[str, Any]) -> list[str]:
    match record["type"]:
        case "message":
            return [record["message"]["content"][0]["text"]]
        case "custom_message":
            return [record["content"]]
        case "branch_summary":
            return [record["summary"]]
    return []


@given(trees())
@settings(max_examples=200)
def test_the_model_sees_what_pi_would_show_it(records):
    entries = bodies(*records)
    check_entries(entries)
    assert tree_of(entries).damage == []
    assert [text.rpartition("\n")[2] for text in context_texts(entries)] == texts_of_pi(records)


def test_random_trees_have_branches_and_compactions():
    """The property above is about real trees."""
    found = {"branch": 0, "compaction": 0}

    @given(trees())
    @settings(max_examples=100, database=None)
    def count(records):
        parents = [record["parentId"] for record in records[1:]]
        found["branch"] += len(set(parents)) < len(parents)
        path = path_to(records, records[-1]["id"])
        found["compaction"] += any(record["type"] == "compaction" and record is not path[-1] for record in path)

    count()
    assert min(found.values()) > 5
