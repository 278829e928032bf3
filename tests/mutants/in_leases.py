"""Planted bugs in renewing leases and in retrying calls to a store."""

from tests.mutants.mutant import Mutant

RENEWALS = "tests/faults/test_renewals.py"
RETRIES = "tests/faults/test_retries.py"
OUTAGES = "tests/faults/test_outages.py"
EVERY_PATTERN = f"{RENEWALS}::test_every_short_pattern_of_renewals"

IN_LEASES = (
    Mutant(
        "one failed renewal ends renewing",
        "law 6",
        "runtime/lease.py::LeaseRenewer.renew",
        "except Exception as error: ...",
        "except ZeroDivisionError as error: ...",
        (EVERY_PATTERN,),
    ),
    Mutant(
        "a failed renewal is not reported",
        "law 6",
        "runtime/lease.py::LeaseRenewer._report",
        "self._term.failed_renewals == 1",
        "self._term.failed_renewals == -1",
        (f"{RENEWALS}::test_a_failed_renewal_is_reported",),
    ),
    Mutant(
        "a run goes on when its lease cannot be renewed",
        "law 6",
        "runtime/lease.py::LeaseRenewer._stop_run",
        "self._runner.cancel()",
        "pass",
        (EVERY_PATTERN,),
    ),
    Mutant(
        "no time is left to stop a tool before the lease is over",
        "law 6",
        "decide/timing.py",
        "STOPPING_SHARE = 0.25",
        "STOPPING_SHARE = 0.0",
        (EVERY_PATTERN,),
    ),
    Mutant(
        "tools of a lost lease are stopped one after the other",
        "law 6",
        "runtime/tool_run.py::run_tools",
        "await cancel_all_and_wait(running)",
        "for task in running: await cancel_and_wait(task)",
        (f"{RENEWALS}::test_several_tools_are_stopped_at_the_same_time",),
    ),
    Mutant(
        "the term of a lease is counted from the answer",
        "law 6",
        "runtime/lease.py::LeaseRenewer.renew",
        "self._term.after_renewal(sent)",
        "self._term.after_renewal(self._clock.current())",
        (EVERY_PATTERN,),
    ),
    Mutant(
        "a piece of unknown outcome is journaled again",
        "law 5",
        "stores/retrying.py::RetryingStore._journal_again",
        "len(stored) == before",
        "len(stored) >= before",
        (f"{RETRIES}::test_a_run_completes_whichever_call_fails_once",),
    ),
    Mutant(
        "every error of a store is retried",
        "law 4",
        "stores/retrying.py::RetryingStore.repeat",
        "except Unavailable as error: return self.retry(error, act)",
        "except StoreError as error: return self.retry(error, act)",
        (f"{RETRIES}::test_other_errors_are_not_retried",),
    ),
    Mutant(
        "a store is called again under a lost lease",
        "law 6",
        "stores/retrying.py::RetryingStore.check",
        "self._lost is not None",
        "self._lost is self",
        (f"{RETRIES}::test_nothing_is_written_once_the_lease_is_lost",),
    ),
    Mutant(
        "a log is read again from its beginning after an outage",
        "law 4",
        "stores/retrying.py::RetryingStore._resumed",
        "line.offset < last if backwards else line.offset > last",
        "backwards in (True, False)",
        (f"{RETRIES}::test_reading_continues_where_the_outage_began",),
    ),
    Mutant(
        "a server that does not answer blocks a run beyond its lease",
        "law 6",
        "stores/postgres/connections.py::_with_time_limit",
        "not ready and is_time_up()",
        "not ready and not is_time_up",
        (f"{OUTAGES}::test_the_tool_is_stopped_before_another_worker_can_take_the_lease",),
    ),
    Mutant(
        "an outage of the server ends the run",
        "law 4",
        "stores/postgres/errors.py::connection_error",
        "StoreError if _PERMANENT_TEXTS.search(text) else Unavailable",
        "StoreError if _PERMANENT_TEXTS.search(text) else StoreError",
        (f"{OUTAGES}::test_an_outage_while_a_reply_is_streamed",),
    ),
)
