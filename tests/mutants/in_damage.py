"""Mutants in what is done about damage: seals that are verified, holes that are told, history that is inherited."""

from tests.mutants.mutant import Mutant

TOLD = "tests/acts/test_damage.py"
TURNS = "tests/laws/test_damaged_turns.py::test_nothing_is_published_twice"
CASE = "tests/turn/test_decide.py::test_case"
FORKED = "tests/cli/test_inherited_damage.py"

IN_DAMAGE = (
    Mutant(
        "a lost reply is asked for again in silence",
        "law 6",
        "turn/damage.py",
        "if sight.rules < 2 or not _is_about_to_ask(sight):",
        "if sight.rules < 3 or not _is_about_to_ask(sight):",
        (f"{CASE}[whole-130-lost-reply-with-a-started-tool]", TURNS),
    ),
    Mutant(
        "waking takes a changed line for what was written",
        "law 6",
        "log/lines.py",
        'elif state == "changed" and _decodes(line.raw):',
        'elif state == "changed" and not _decodes(line.raw):',
        (f"{TOLD}::test_the_model_is_told_which_tools_a_lost_reply_had_started",),
    ),
    Mutant(
        "lines that were removed leave no hole",
        "law 6",
        "log/lines.py",
        'elif state == "unproven" and not any(',
        'elif state == "none" and not any(',
        (f"{TOLD}::test_reply_and_beginning_removed",),
    ),
    Mutant(
        "the tail is trusted without its seals",
        "law 6",
        "log/tail.py",
        "return is_sealed_behind(raw, h_of(before), between) or (seal_of(raw) is None and seal_of(before) is None)",
        "return True",
        (f"{TOLD}::test_the_model_is_told_which_tools_a_lost_reply_had_started",),
    ),
    Mutant(
        "a tail hides that a reply is lost",
        "law 6",
        "reading.py",
        "return read_log(store, session, verify=True) if log.tree.is_too_short else log",
        "return log",
        ("tests/laws/test_kernel_tail.py::test_a_lost_reply_that_is_named_after_a_compaction",),
    ),
    Mutant(
        "damage is told again with every turn",
        "law 9",
        "views/losses.py",
        "notices = [link.value for link in branch.links if",
        "notices = [link.value for link in branch.links[-1:] if",
        (f"{TOLD}::test_each_damage_is_raised_once",),
    ),
    Mutant(
        "nobody is asked about damage",
        "RUN-13",
        "turn/damage.py",
        'if sight.policy.unknown == "tell":',
        'if sight.policy.unknown in ("tell", "ask"):',
        (f"{TOLD}::test_a_person_decides_first",),
    ),
    Mutant(
        "damage before a compaction is raised",
        "law 9",
        "log/tree.py",
        "start = last.offset if last is not None else -1",
        "start = -1",
        (f"{CASE}[whole-133-damage-before-a-compaction]",),
    ),
    Mutant(
        "a fork hides its parent's damage",
        "law 9, LOG-16",
        "reading.py",
        "damage = named_in([hurt for hurt in parent.damage if hurt.session or hurt.offset <= end], parent.name)",
        'damage = named_in([hurt for hurt in parent.damage if hurt.kind == "origin"], parent.name)',
        (f"{FORKED}::test_an_unreadable_line_of_the_parent_is_reported",),
    ),
    Mutant(
        "a scan hides the damage that a fork inherited",
        "law 9, LOG-16",
        "scanning.py",
        "found.damage, found.noted = (*self._inherited, *own), tuple(reader.noted)",
        "found.damage, found.noted = tuple(own), tuple(reader.noted)",
        (
            "tests/laws/test_outline.py::test_a_scan_finds_what_a_fork_inherits",
            f"{FORKED}::test_an_unreadable_line_of_the_parent_is_reported",
        ),
    ),
    Mutant(
        "an export vouches for edited history",
        "LOG-16",
        "exchange/jsonl.py",
        "parent = read_log(store, origin.session, verify=True)",
        "parent = read_log(store, origin.session)",
        (f"{FORKED}::test_an_export_does_not_vouch_for_edited_history",),
    ),
    Mutant(
        "a recorded call is said not to have run",
        "law 6",
        "turn/calls.py",
        "if call.recorded or call.doubtful:",
        "if call.doubtful:",
        (f"{CASE}[whole-15-foreign-call]",),
    ),
    Mutant(
        "a choice is left to a default",
        "LOG-17",
        "log/entry.py",
        "return msgspec.field(default_factory=lambda: default)",
        "return default",
        ("tests/log/test_choices.py::test_a_choice_is_written_where_it_is_the_default",),
    ),
    Mutant(
        "an old log is replayed under today's rules",
        "law 11",
        "replaying/answers.py",
        "rules=attached.rules,",
        "rules=2,",
        ("tests/test_golden_rules.py::test_it_replays_byte_for_byte",),
    ),
)
