"""docs/format.md is the source of truth: its examples are read, and its tables are compared with the code."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from tests.laws.logs import store_of
from wakelog.log import content, entry
from wakelog.log.codec import decode, encode
from wakelog.log.lines import DamageKind
from wakelog.projections.context import build_context
from wakelog.reading import read_log
from wakelog.writer import UNSYNCED_TYPES

TEXT = (Path(__file__).parent.parent / "docs" / "format.md").read_text()
FENCES = re.findall(r"^```(\w+) (\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
LOGS = [(log, json.loads(means)) for (_, kind, log), (_, _, means) in pairwise(FENCES) if kind == "log"]


def _rows(title):
    """Return the rows of the first table after a line, as {first cell: set of names in the last cell}."""
    table = TEXT.split(title, 1)[1].split("|---", 1)[1].split("\n\n", 1)[0]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.split("\n")[1:]]
    return {row[0].strip("`"): set(row[-1].split(", ")) for row in cells}


def _keys(cls):
    return {field.encode_name for field in msgspec.structs.fields(cls)}


def _tagged(parent):
    return {str(cls.__struct_config__.tag): cls for cls in parent.__subclasses__()}


def test_there_are_examples():
    assert len(LOGS) >= 3


@pytest.mark.parametrize(("log", "means"), LOGS)
def test_examples_mean_what_they_say(log, means):
    """LOG-2: each example log can be read, and means what the document says."""
    read = read_log(store_of(log.encode()), "s")
    branch = read.tree.branch()
    found = {
        "head": read.tree.head,
        "branch": [node.id for node in branch.nodes],
        "leaves": list(read.tree.leaves()),
        "context": [message.content[0].text for message in build_context(branch).messages],
        "damage": [hurt.kind for hurt in read.damage],
    }
    assert {"damage": [], **means} == {name: found[name] for name in {"damage", *means}}


def test_the_line():
    """LOG-3: the example line has every key of the envelope, in the order the store writes them."""
    (line,) = [text for _, kind, text in FENCES if kind == "line"]
    assert list(json.loads(line)) == ["v", "seq", "type", "id", "parentId", "timestamp", "turnId", "message", "h"]
    value = decode(line.encode().strip())
    assert isinstance(value, entry.Message)
    assert list(json.loads(encode(msgspec.structs.replace(value, v=None, seq=None)))) == list(json.loads(line))[2:-1]


@pytest.mark.parametrize(
    ("title", "parent", "shared"),
    [
        ("Nodes:", entry.Node, _keys(entry.Node)),
        ("Annotations:", entry.Annotation, _keys(entry.Annotation)),
        ("Content parts", content.Part, set()),
        ("Messages, inside", content.BaseMessage, {"content"}),
    ],
)
def test_tables_are_the_code(title, parent, shared):
    """LOG-15: every type and field is in the document, and nothing else is."""
    code = {tag: _keys(cls) - shared for tag, cls in _tagged(parent).items() if tag != "unknown"}
    assert _rows(title) == code


def test_inner_values_are_the_code():
    """LOG-15: the values inside bodies, too."""
    assert _rows("Inner values:") == {
        "session.parent": _keys(entry.Origin),
        "context.sources": _keys(entry.InstructionSource),
        "failed.error": _keys(entry.FaultReport),
        "compaction.state": _keys(entry.CarriedState),
        "compaction.state.unknownOutcomes": _keys(entry.UnknownOutcome),
    }


def test_damage_kinds_are_the_code():
    """LOG-9: every kind of damage is explained."""
    assert set(_rows("## 5. Damage")) == set(get_args(DamageKind))


def test_unsynced_types_are_named():
    """Law 4: the document names the types that are not synced."""
    assert all(f"`{name}`" in TEXT.split("`fdatasync` for every type but", 1)[1] for name in UNSYNCED_TYPES)
