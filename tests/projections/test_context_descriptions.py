"""Changes of a `context` entry are described, and tools that run without approval are always named (RUN-13)."""

from typing import Any

from wakelog.log.content import BlobRef
from wakelog.log.entry import ContextEntry, InstructionSource
from wakelog.projections.context_changes import describe_context

BLOB, OTHER = (BlobRef(digest="sha256:" + sign * 64, bytes=3) for sign in "01")
LOOKS = {"read": "auto", "grep": "auto"}


def record(approval="ask", approvals=LOOKS, **said):
    policy = {"approval": approval, "approvals": approvals, **said.pop("policy", {})}
    return ContextEntry(tools=BLOB, policy=policy, **said)


def test_the_first_entry_is_described_in_full():
    first = record(sources=(InstructionSource(path="A.md"),), system=BLOB)
    assert describe_context(first) == "A.md, instructions, tools, approval ask, read, grep run without approval"
    assert describe_context(ContextEntry()) == "no tools"
    assert describe_context(record("auto", {"shell": "deny"})) == "tools, approval auto, shell never runs"


def test_later_entries_are_described_by_their_changes():
    before = record(system=BLOB, sources=(InstructionSource(path="A.md"),))

    def told(**said):
        return describe_context(record(**{"system": BLOB, "sources": before.sources, **said}), before)

    assert told() == "unchanged"
    assert told(approvals={**LOOKS, "shell": "auto"}) == "shell runs without approval"
    assert told(approvals={"read": "ask"}) == "read, grep need approval"
    assert told(approval="auto", approvals={}) == "approval auto"
    assert (
        told(system=OTHER, sources=(InstructionSource(path="A.md"), InstructionSource(path="B.md")))
        == "B.md, instructions"
    )
    assert told(system=None) == "no instructions"
    assert told(policy={"compactAt": 9}, params={"effort": "low"}) == "compactAt, effort"
    assert told(environment={"model": "b", "git": "next", "approvalPolicy": "ask"}) == "environment (model, git)"


def test_an_invalid_policy_is_ignored():
    """Law 13: a log may come from another program."""
    policies: list[dict[str, Any]] = [
        {"approval": 1},
        {"approvals": ["shell"]},
        {"approvals": {"shell": {}}},
        {"approval": None},
    ]
    for strange in policies:
        assert describe_context(ContextEntry(policy=strange)) == "no tools"
        assert "shell runs" not in describe_context(ContextEntry(policy=strange), record())
