"""Mutants in `cli/`: what a terminal gets to see of stored text."""

from tests.mutants.mutant import Mutant

SAFE = "tests/cli/test_safe.py"

IN_CLI = (
    Mutant(
        "escape sequences reach the terminal",
        "law 13",
        "cli/safe.py",
        "    (0x00, 0x1F),  # C0",
        "    (0x00, 0x1A),  # C0",
        (f"{SAFE}::test_hostile_text_becomes_visible", f"{SAFE}::test_signs"),
    ),
    Mutant(
        "text turns round",
        "law 13",
        "cli/safe.py",
        "    (0x2028, 0x202E),",
        "    (0x2028, 0x2029),",
        (f"{SAFE}::test_hostile_text_becomes_visible",),
    ),
    Mutant(
        "JSON carries raw controls",
        "law 13",
        "cli/safe.py",
        "    units = found[0].encode(",
        "    return found[0]\n    units = found[0].encode(",
        (f"{SAFE}::test_json_keeps_the_value_and_tames_the_bytes",),
    ),
)
