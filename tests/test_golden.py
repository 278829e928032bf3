"""Golden logs of version 1: never edited; they can always be read and always mean the same (laws 10 and 11).

`known.json` was written once, with the logs. If one of these tests fails, the change is wrong, not the file.
"""

import hashlib
import json
from pathlib import Path

import msgspec
import pytest

from tests.laws.logs import store_of
from wakelog.log.codec import encode
from wakelog.log.entry import ANNOTATION_TYPES, NODE_TYPES, UnknownBody
from wakelog.log.integrity import verify_seals
from wakelog.log.seal import unseal
from wakelog.projections.context import build_context
from wakelog.projections.overview import overview
from wakelog.projections.pending import Pending, pending
from wakelog.reading import read_active, read_log

FOLDER = Path(__file__).parent / "golden" / "v1"
KNOWN = json.loads((FOLDER / "known.json").read_text())
CHOICES = {"purpose", "strategy", "replay", "attempt", "mode", "event", "trigger", "kind"}


@pytest.fixture(params=sorted(KNOWN))
def golden(request):
    raw = (FOLDER / f"{request.param}.jsonl").read_bytes()
    return raw, KNOWN[request.param], store_of(raw)


def test_the_golden_logs_are_unchanged(golden):
    """Law 1, for the test data itself."""
    raw, known, _ = golden
    assert hashlib.sha256(raw).hexdigest() == known["sha256"]


def test_the_golden_logs_are_read_without_damage(golden):
    """LOG-7, LOG-11: every entry decodes to its type, and nothing is damaged."""
    _, known, store = golden
    log = read_log(store, "s")
    assert (len(log.entries), log.damage, log.noted) == (known["entries"], (), ())
    assert not any(isinstance(entry.value, UnknownBody) for entry in log.entries)


def test_the_chain_of_seals_holds(golden):
    """Law 11: the seal of the last line is the one it was when the log was written."""
    _, known, store = golden
    proof = verify_seals(store.load("s"))
    assert (proof.broken, proof.unsealed, proof.head) == ((), 0, known["head"])


@pytest.mark.parametrize("read", [read_log, read_active])
def test_their_contexts_never_change(golden, read):
    """VIEW-9: the context of the model has the digest it had when the log was written.

    What a budget leaves out is decided by the rules, which change until the first release.
    """
    _, known, store = golden
    branch = read(store, "s").tree.branch()
    contexts = {plan: digest for plan, digest in known["contexts"].items() if not plan.startswith("budget:")}
    assert {plan: build_context(branch, plan).digest for plan in contexts} == contexts


def test_the_golden_logs_contain_every_type():
    """LOG-15: the golden logs contain each type that existed when they were written."""
    raw = (FOLDER / "every-type.jsonl").read_bytes()
    types = {entry.type for entry in read_log(store_of(raw), "s").entries}
    assert types | {"send_failed"} == NODE_TYPES | ANNOTATION_TYPES


def _without_choices(body):
    """Return a decoded line as a list of its fields in order, without the fields that rules 1 left out."""
    if isinstance(body, list):
        return [_without_choices(each) for each in body]
    if not isinstance(body, dict):
        return body
    return [(key, _without_choices(value)) for key, value in body.items() if key not in CHOICES]


@pytest.mark.parametrize("name", ["story", "every-type"])
def test_encoding_is_stable(name):
    """Law 11: what was once written would be written again, with the choices that older lines left out (LOG-17)."""
    for entry in read_log(store_of((FOLDER / f"{name}.jsonl").read_bytes()), "s").entries:
        assert not isinstance(entry.value, UnknownBody)
        again = msgspec.json.decode(encode(msgspec.structs.replace(entry.value, v=None, seq=None)))
        assert _without_choices(again) == _without_choices(msgspec.json.decode(unseal(entry.raw)))


def test_a_foreign_log_opens_as_it_stands():
    """LOG-6: lines without v, seq and h; three messages, one failed result, nothing pending, no damage."""
    log = read_log(store_of((FOLDER / "foreign.jsonl").read_bytes()), "s")
    branch = log.tree.branch()
    assert [message.role for message in build_context(branch).messages] == ["user", "assistant", "toolResult"]
    assert [message.is_error for message in build_context(branch).messages] == [False, False, True]
    assert pending(branch) == Pending()
    assert overview(log.tree).model == "some-model"
