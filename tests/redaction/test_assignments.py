"""Values of assignments whose name says secret: all planted ones are found, however split; other text is unchanged."""

import sysconfig
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.false_hits import LIMIT, counted
from tests.redaction.assignments_made import KINDS, NONE, made
from wakelog.redaction.redactor import Redactor, held_chars_max, redact, redact_value
from wakelog.redaction.shapes import LOOK_BEHIND

REACH = held_chars_max("assignments")
MARKS = ("[redacted: assignment]", "[redacted: aws-secret-key]", "[redacted: url-password]", "[redacted: npm-token]")
AROUND = (
    "{}",
    "first line\n{}\nlast line",
    "It was {}",
    "äöü → 日本\n{}",
    "long lines of ordinary words\n" * 12 + "{}",
)
MADE = list(made())


def test_there_are_enough_kinds():
    """Law 14: at least thirty kinds."""
    assert len({kind for kind, _, _ in KINDS}) >= 30


@pytest.mark.parametrize(("kind", "text", "secret"), MADE, ids=[kind for kind, _, _ in MADE])
def test_every_planted_secret_is_found(kind, text, secret):
    """Law 14: the value is gone, the name is still there, and redacting again changes nothing."""
    for around in AROUND:
        said = redact(around.replace("{}", text))
        assert secret[:8] not in said.text, kind
        assert any(mark in said.text for mark in MARKS)
        before, behind = text.split(secret)
        assert "AKIA" in text or (before in said.text and behind in said.text)
        assert redact(said.text).hits == ()


@pytest.mark.parametrize(("kind", "text", "secret"), MADE[::3], ids=[kind for kind, _, _ in MADE[::3]])
def test_it_is_found_however_the_text_is_split(kind, text, secret):
    """Law 14, streamed text included: split at every place, in two or in many, it is redacted as the whole is."""
    text = f"Here it is:\n{text}\nand so on."
    whole = redact(text)
    for place in range(len(text) + 1):
        redactor = Redactor()
        first = redactor.feed(text[:place])
        assert len(redactor.held) <= REACH
        assert secret[:8] not in first
        assert (first + redactor.feed(text[place:]) + redactor.end(), tuple(redactor.hits)) == (whole.text, whole.hits)
    for size in (1, 2, 3, 7, 20):
        redactor = Redactor()
        given = [redactor.feed(text[at : at + size]) for at in range(0, len(text), size)]
        assert "".join(given) + redactor.end() == whole.text, kind


@pytest.mark.parametrize("text", NONE)
def test_text_without_a_secret_stays(text):
    """≤ 1 % false hits: placeholders, code, types, calls, paths, prose and numbers are left as they are."""
    for around in AROUND:
        assert redact(around.replace("{}", text)).text == around.replace("{}", text)


def test_the_mode_keys_finds_only_keys():
    """`redact = "keys"` finds key shapes and nothing else; `off` finds nothing."""
    key = "gh" + "p_" + "a1B2" * 9
    text = f"DB_PASSWORD=hunter22 TOKEN={key}"
    assert redact(text, "keys").text == "DB_PASSWORD=hunter22 TOKEN=[redacted: github-token]"
    assert redact(text).text == "DB_PASSWORD=[redacted: assignment] TOKEN=[redacted: github-token]"
    assert redact(text, "off").text == text
    assert redact_value({"password": "hunter22"}, "keys") == ({"password": "hunter22"}, ())


def test_a_known_key_keeps_its_own_mark():
    """The exact kind says more than the name, also where it is recognised later than the name."""
    header = "eyJ" + "hbGciOiJIUzI1NiJ9" * 8
    token = f"{header}.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghijklmnop"
    text = f'access_token = "{token}" and more'
    assert redact(text).text == 'access_token = "[redacted: jwt]" and more'
    for place in range(len(text)):
        redactor = Redactor()
        assert redactor.feed(text[:place]) + redactor.feed(text[place:]) + redactor.end() == redact(text).text


def test_an_escaped_quote_does_not_end_a_value():
    """Law 14: text after an escaped quote is part of the secret, wherever the text is split."""
    # As long as the examined part of a value, and longer: then the end is searched for without the rest of it.
    for middle in ("", "d4" * 29, "d4" * 50):
        text = f'password = "abc12{middle}\\"def\\\\" + rest'
        assert redact(text).text == 'password = "[redacted: assignment]" + rest'
        for place in range(len(text)):
            redactor = Redactor()
            assert redactor.feed(text[:place]) + redactor.feed(text[place:]) + redactor.end() == redact(text).text


def test_a_value_of_any_length_is_dropped_as_it_comes():
    """Law 5: a value that is known to be secret is not held back."""
    redactor = Redactor()
    out = redactor.feed("DB_PASSWORD=a1" + "b2" * 40)
    for _ in range(200):
        out += redactor.feed("c3d4" * 20)
        assert redactor.held == ""
    assert out + redactor.feed("\nnext") + redactor.end() == "DB_PASSWORD=[redacted: assignment]\nnext"


def test_a_name_is_shown_at_once():
    """Law 5: only a value that could still be a secret is held back; names and ordinary text pass at once."""
    redactor = Redactor()
    for text in ("The passw", "ord is in the vault, the tok", "en ", "too. My password: "):
        assert redactor.feed(text) == text
    assert redactor.feed("see") == ""
    assert redactor.feed(" the wiki, DB_PASSW") == "see the wiki, DB_PASSW"
    assert redactor.feed("ORD") == "ORD"
    assert redactor.feed("=hunter") == "="
    assert redactor.feed("22\n") == "[redacted: assignment]\n"


def test_names_in_json_objects():
    """Law 14: a key of an object names its value as a line of a file does."""
    value = {"client_secret": "Qx7aB12zZ90", "items": [{"password": "hunter22", "user": "me"}], "token": 5}
    clean, hits = redact_value(value)
    mark = "[redacted: assignment]"
    assert clean == {"client_secret": mark, "items": [{"password": mark, "user": "me"}], "token": 5}
    assert hits == ("assignment", "assignment")
    assert redact_value(clean) == (clean, ())
    harmless = {"password": "see the wiki", "token": "string", "secret": None, "key": "abc123def456"}
    assert redact_value(harmless) == (harmless, ())


PIECES = st.one_of(
    st.sampled_from([text for _, text, _ in MADE]),
    st.builds(lambda text, size: text[:size], st.sampled_from([text for _, text, _ in MADE]), st.integers(0, 60)),
    st.sampled_from([*NONE, *MARKS]),
    st.sampled_from(["password", "TOKEN", "secret", "_key", "=", ":", '"', "'", "\\", '\\"', " ", "\n", "a1b2c3", "@"]),
    st.text(max_size=20),
)


@given(text=st.lists(PIECES, max_size=8).map("".join), cuts=st.lists(st.integers(0, 400), max_size=6))
def test_pieces_are_redacted_as_the_whole(text, cuts):
    """Law 14: splitting makes no difference, redacting twice is redacting once, and the held-back text is bounded."""
    whole = redact(text)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    redactor, out = Redactor(), ""
    for begin, end in pairwise(places):
        out += redactor.feed(text[begin:end])
        assert len(redactor.held) <= REACH
    assert (out + redactor.end(), tuple(redactor.hits)) == (whole.text, whole.hits)
    assert redact(whole.text).text == whole.text


def test_the_memory_is_bounded():
    """A text without end costs no memory: besides the held-back text only what a name may need is kept."""
    redactor = Redactor()
    for _ in range(200):
        redactor.feed("password=password=token: secret " * 10)
        assert len(redactor._seen) <= LOOK_BEHIND + 100 + REACH


def test_the_standard_library_is_left_alone():
    """≤ 1 % false hits on installed code, of the lines that name a secret; `python -m bench.false_hits` reads more."""
    root = Path(sysconfig.get_path("stdlib"))
    names = (
        "*.py",
        "http/*.py",
        "email/*.py",
        "asyncio/*.py",
        "urllib/*.py",
        "json/*.py",
        "logging/*.py",
        "lib2to3/*.py",
    )
    found = counted("stdlib", [path for name in names for path in sorted(root.glob(name))])
    assert found.lines > 50_000
    assert found.named > 500
    assert found.per_named <= LIMIT, found.hit[:5]
