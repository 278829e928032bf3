"""Mutants in `log/tree.py` and `log/tail.py`: the branches, the head, and reading from the end."""

from tests.mutants.mutant import Mutant

CASE = "tests/test_cases.py::test_case"
TAIL = "tests/laws/test_tail.py"
SHARP = "tests/projections/test_sharp_edges.py"

IN_TREE = (
    Mutant(
        "head entries are ignored",
        "TREE-3",
        "log/tree.py",
        "        if type(entry.value) is Head:\n",
        "        if False:\n",
        (f"{CASE}[whole-19-head-moves]", f"{CASE}[whole-20-head-moves-on]"),
    ),
    Mutant(
        "the last node is always the head",
        "TREE-1, TREE-2",
        "log/tree.py",
        "moves = self._gap_seq > self._head_seq if is_bridged else parent == self.head",
        "moves = True",
        (f"{CASE}[whole-18-fork-leaves-head]", f"{CASE}[whole-22-interleaved]"),
    ),
    Mutant(
        "a branch ends at its fold",
        "TREE-5, VIEW-4, law 1",
        "log/tree.py",
        "            at = self._parents[at]\n",
        '            at = None if self.nodes[at].type == "compaction" else self._parents[at]\n',
        (f"{CASE}[whole-26-fold-keeps]", f"{CASE}[whole-28-fold-twice]"),
    ),
    Mutant(
        "no bridge over a lost parent",
        "law 9, TREE-1",
        "log/tree.py",
        'f"its parent {named} cannot be read")\n            return self._last_node\n',
        'f"its parent {named} cannot be read")\n            return None\n',
        (f"{CASE}[whole-53-bridged]",),
    ),
    Mutant(
        "a bridge nobody hears of",
        "law 9, LOG-9",
        "log/tree.py",
        '            self._report(entry, "bridged", f"its parent {named} cannot be read")\n',
        "",
        ("tests/test_cases.py::test_damage_of_case[53-bridged]",),
    ),
    Mutant(
        "a repeated id counts twice",
        "LOG-10, law 9",
        "log/tree.py",
        "        if value.id in self.nodes or value.id in self._speaks_of:\n",
        "        if value.id == '':\n",
        ("tests/test_cases.py::test_damage_of_case[59-repeated-line]",),
    ),
    Mutant(
        "annotations belong to the whole session",
        "TREE-2",
        "log/tree.py",
        "node = self._resolve(subject(entry.value)) or self._resolve(named) or self.root",
        "node = self.root",
        (f"{CASE}[whole-44-queued-elsewhere]",),
    ),
    Mutant(
        "an old branch loses its other children",
        "TREE-2",
        "log/tree.py",
        "self._other_children.setdefault(parent, []).append(node)",
        "self._first_child[parent] = node",
        ("tests/log/test_tree.py::test_fork_copies_nothing",),
    ),
    Mutant(
        "the tail stops at the fold itself",
        "VIEW-3, law 2",
        "log/tail.py",
        "self.is_over = self._kept == value.id",
        "self.is_over = True",
        (f"{TAIL}::test_tail_equals_whole",),
    ),
    Mutant(
        "the tail trusts a gap",
        "law 2, law 9",
        "log/tail.py",
        "yield behind if behind.seq == entry.seq + 1 and _matches(behind.raw, entry.raw, torn) else None",
        "yield behind",
        (f"{TAIL}::test_tail_equals_whole_with_damage",),
    ),
    Mutant(
        "the tail forgets what is open further back",
        "law 2",
        "log/tail.py",
        "return isinstance(value, Queued | Attention) and self._node(value.parent_id) not in self._by_id",
        "return False",
        (f"{SHARP}::test_what_is_open_on_another_branch_is_not_open_here",),
    ),
    Mutant(
        "the tail takes a later node for the head",
        "TREE-3, law 2",
        "log/tail.py",
        "if later.is_node and self._node(later.value.parent_id) == self._node(head):",
        "if later.is_node:",
        (f"{TAIL}::test_tail_equals_whole",),
    ),
)
