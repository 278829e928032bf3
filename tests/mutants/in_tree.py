"""Planted bugs in `log/tree.py` and `log/tail.py`: branches, the head, and reading from the end."""

from tests.mutants.mutant import Mutant

CASE = "tests/test_cases.py::test_case"
TAIL = "tests/laws/test_tail.py"
SHARP = "tests/projections/test_sharp_edges.py"

IN_TREE = (
    Mutant(
        "head entries are ignored",
        "TREE-3",
        "log/tree.py::Tree._add_annotation",
        "type(entry.value) is Head",
        "False",
        (f"{CASE}[whole-19-head-moves]", f"{CASE}[whole-20-head-moves-on]"),
    ),
    Mutant(
        "the last node is always the head",
        "TREE-1, TREE-2",
        "log/tree.py::Tree._head_after",
        "self._gap_seq > self._head_seq if is_bridged else parent == self.head",
        "True",
        (f"{CASE}[whole-18-fork-leaves-head]", f"{CASE}[whole-22-interleaved]"),
    ),
    Mutant(
        "a branch ends at its compaction",
        "TREE-5, VIEW-4, law 1",
        "log/tree.py::Tree._walk",
        "self._parents[at]",
        'None if self.nodes[at].type == "compaction" else self._parents[at]',
        (f"{CASE}[whole-26-fold-keeps]", f"{CASE}[whole-28-fold-twice]"),
    ),
    Mutant(
        "a node with a lost parent is not bridged",
        "law 9, TREE-1",
        "log/tree.py::Tree._parent_of",
        "if found is None:\n    ...\n    return self._last_node",
        "if found is None:\n    ...\n    return None",
        (f"{CASE}[whole-53-bridged]",),
    ),
    Mutant(
        "a bridged node is not reported",
        "law 9, LOG-9",
        "log/tree.py::Tree._parent_of",
        "self._report(...)",
        "",
        ("tests/test_cases.py::test_damage_of_case[53-bridged]",),
    ),
    Mutant(
        "a repeated id counts twice",
        "LOG-10, law 9",
        "log/tree.py::Tree.add",
        "value.id in self.nodes or value.id in self._node_of_annotation",
        'value.id == ""',
        ("tests/test_cases.py::test_damage_of_case[59-repeated-line]",),
    ),
    Mutant(
        "annotations belong to the whole session",
        "TREE-2",
        "log/tree.py::Tree._add_annotation",
        "self._resolve(subject) or parent or self.root",
        "self.root",
        (f"{CASE}[whole-44-queued-elsewhere]",),
    ),
    Mutant(
        "a sent entry of a carried reply is attached to its parent",
        "law 2",
        "log/tree.py::Tree._add_annotation",
        "None if subject in self._carried_replies else self._resolve(named)",
        "self._resolve(named)",
        ("tests/laws/test_kernel_tail.py::test_a_sent_entry_counts_wherever_it_is_attached",),
    ),
    Mutant(
        "an old branch loses its other children",
        "TREE-2",
        "log/tree.py::Tree._place",
        "self._other_children.setdefault(parent, []).append(node)",
        "self._first_child[parent] = node",
        ("tests/log/test_tree.py::test_a_fork_copies_nothing",),
    ),
    Mutant(
        "the tail begins at the compaction itself",
        "VIEW-3, law 2",
        "log/tail.py::_Search._follow_parent",
        "self._kept == value.id",
        "True",
        (f"{TAIL}::test_tail_equals_whole",),
    ),
    Mutant(
        "the tail ignores a gap",
        "law 2, law 9",
        "log/tail.py::_verified_entries",
        "behind if behind.seq == entry.seq + 1 and _seal_matches(behind.raw, entry.raw, torn) else None",
        "behind",
        (f"{TAIL}::test_tail_equals_whole_with_damage",),
    ),
    Mutant(
        "the tail forgets what is open further back",
        "law 2",
        "log/tail.py::_Search._refers_to_unread",
        "isinstance(value, Queued | Attention) and self._node(value.parent_id) not in self._by_id",
        "False",
        (f"{SHARP}::test_a_queued_message_of_another_branch_is_not_pending_here",),
    ),
    Mutant(
        "the tail takes a later node for the head",
        "TREE-3, law 2",
        "log/tail.py::_Search._find_head",
        "later.is_node and self._node(later.value.parent_id) == self._node(head)",
        "later.is_node",
        (f"{TAIL}::test_tail_equals_whole",),
    ),
)
