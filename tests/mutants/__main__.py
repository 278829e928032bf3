"""`python -m tests.mutants [NAME …]`: plants every known bug, two at a time, and exits 1 if one survives."""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.mutants.run import Verdict, green_without, judge
from tests.mutants.table import MUTANTS


def main(wanted: list[str]) -> int:
    """Judges the mutants named, or all."""
    started = time.monotonic()
    mutants = [mutant for mutant in MUTANTS if not wanted or any(word in mutant.name for word in wanted)]
    if not mutants:
        print(f"no mutant is named {' or '.join(wanted)}", file=sys.stderr)
        return 2
    tests = sorted({test for mutant in mutants for test in mutant.red})
    with ThreadPoolExecutor(2) as pool:
        control = pool.submit(green_without, tests)
        verdicts = [said(verdict) for verdict in pool.map(judge, mutants)]
        not_green = control.result()
    for test in not_green:
        print(f"not green without any mutant: {test}")
    survivors = [verdict for verdict in verdicts if not verdict.is_dead]
    took = time.monotonic() - started
    print(f"{len(verdicts)} mutants, {len(survivors)} survived, {len(tests)} tests, {took:.0f} s")
    return 1 if survivors or not_green else 0


def said(verdict: Verdict) -> Verdict:
    """Prints a verdict as a row of the table."""
    word = "dead    " if verdict.is_dead else "SURVIVED"
    print(f"{word}  {verdict.mutant.name:45}  {verdict.mutant.breaks:24}  {verdict.why}", flush=True)
    return verdict


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Plant known bugs; a test must fail.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of a mutant's name; all mutants without it")
    sys.exit(main(parser.parse_args().names))
