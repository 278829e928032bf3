"""Planted bugs in handing sessions on, in what `show` and `doctor` say of imports, and in totals of usage."""

from tests.mutants.mutant import Mutant

HANDOFF = "tests/cli/commands/test_handoff.py"
TURNS = "tests/exchange/test_handoff.py"
IMPORTS = "tests/cli/commands/test_import_sessions.py"
RETENTION = "tests/cli/test_retention.py"

IN_HANDOFF = (
    Mutant(
        "a handoff overwrites a session",
        "ST-9",
        "exchange/handoff.py::_paths",
        "os.path.lexists(path)",
        "False",
        (f"{HANDOFF}::test_handoff_never_overwrites",),
    ),
    Mutant(
        "a handoff is not compared",
        "ST-9",
        "exchange/handoff.py::carry_out",
        "if problem: ...",
        "",
        (f"{HANDOFF}::test_what_was_written_is_compared",),
    ),
    Mutant(
        "turns may be in any order",
        "ST-9",
        "exchange/handoff.py::_first_missing",
        "rest = iter(...)",
        "rest = [turn for turn in got if turn[0] != _RESULT]",
        (f"{TURNS}::test_a_missing_or_misplaced_turn_is_a_difference",),
    ),
    Mutant(
        "what follows a compaction is not compared",
        "ST-9",
        "exchange/handoff.py::_active_part",
        "branch[last + 1:]",
        "()",
        (f"{TURNS}::test_a_format_without_compactions_has_what_follows_the_last_one",),
    ),
    Mutant(
        "a foreign file is shown as a log",
        "ST-9",
        "app/addresses.py::_at_path",
        "_refuse_foreign(path, real)",
        "",
        (f"{IMPORTS}::test_a_session_of_another_agent_is_named_where_a_log_is_expected",),
    ),
    Mutant(
        "an imported open call is shown as open",
        "ST-9, law 6",
        "projections/transcript.py::_is_foreign",
        "known.imported and ...",
        "False",
        ("tests/exchange/test_importing.py::test_a_dangling_call_stays_open_and_gets_its_result_later",),
    ),
    Mutant(
        "work of an imported log of wakelog is started",
        "ST-9",
        "exchange/own_logs.py::import_own_log",
        "_leave_unattended(store, done.to)",
        "pass",
        (f"{IMPORTS}::test_an_own_log_is_imported_as_itself",),
    ),
    Mutant(
        "imported files count as not imported",
        "ST-9",
        "exchange/retention.py::_history",
        "index.unchanged(path) is None",
        "True",
        (f"{RETENTION}::test_doctor_says_what_will_be_deleted_and_is_not_imported",),
    ),
    Mutant(
        "a copied call is counted twice",
        "ST-9",
        "projections/usage.py::UsageCounter.add",
        "entry.id not in self._counted",
        "True",
        ("tests/cli/commands/test_show.py::test_usage_of_all_sessions_counts_a_copied_call_once",),
    ),
)
