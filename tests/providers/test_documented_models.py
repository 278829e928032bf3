"""docs/providers.md matches the code: names, parameters and fault words are compared."""

import re
from pathlib import Path

import msgspec

from wakelog.log.content import Usage
from wakelog.providers import _MODEL_FORMS, _PROVIDERS
from wakelog.providers.faults import KIND_TEXTS, fault
from wakelog.providers.requests import Params

TEXT = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()


def rows(heading):
    """The rows of the tables under a heading, cell by cell."""
    section = TEXT.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0] if heading else TEXT.split("\n## ", 1)[0]
    found = re.findall(r"^\| `.*\|$", section, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found]


def names(shape):
    return [field.encode_name for field in msgspec.structs.fields(shape)]


def test_every_provider_is_named():
    """RUN-8: every provider of the code, and no other."""
    spelled = [row[0].strip("`") for row in rows("")]
    assert ", ".join(spelled) == _MODEL_FORMS
    assert [name.partition(":")[0] for name in spelled] == list(_PROVIDERS)


def test_every_param_is_described():
    assert [row[0].strip("`") for row in rows("Params")] == names(Params)


def test_every_fault_word_is_described():
    """RUN-8: kind, meaning and retry word."""
    told = [(row[0].strip("`"), row[1], row[2] == "yes") for row in rows("Failures")]
    assert told == [(kind, words, fault(kind).retryable) for kind, words in KIND_TEXTS.items()]


def test_usage_is_described():
    assert {row[0].strip("`") for row in rows("Usage")} == {*names(Usage)} - {"costMicros"}
