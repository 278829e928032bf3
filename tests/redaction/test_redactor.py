"""Redaction: every known key is found, however the text is split; ordinary text passes unchanged."""

import base64
import hashlib
import random
import re
import sysconfig
import uuid
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.redaction.assignments_made import made as made_assignments
from tests.redaction.secrets_made import IN_PLACE, LETTERS, MADE, Chance
from wakelog.log.content import Text
from wakelog.redaction.key_shapes import KEY_SHAPES
from wakelog.redaction.redactor import Redactor, held_chars_max, redact, redact_value, shapes_of
from wakelog.redaction.scanner import Finder
from wakelog.redaction.shapes import LOOK_BEHIND

ROUNDS = 4
REACH = held_chars_max("assignments")
FINDER = Finder(shapes_of("assignments"))
STRICT_FINDER = Finder(shapes_of("strict"))
# Texts around keys: prose, code, JSON, YAML, shell, addresses, and any of these written as a string.
FRAMES = (
    "{}",
    "My key is {}, please use it.",
    "see {}.\nthen go on",
    'client = Client(api_key="{}")',
    "const key = `{}`;",
    '{{"key": "{}", "n": 1}}',
    "{{'token':'{}'}}",
    "config:\n  token: {}\n  other: 1",
    "- {}\n- b",
    "export TOKEN={}\necho done",
    "curl -H 'X-Token: {}' example.org",
    "https://example.org/?token={}&x=1",
    "https://example.org/%3D{}%0A",
    '"line one\\n{}\\nline two"',
    "\\x0a{}\\u000a",
    "\x1b[32m{}\x1b[0m",
    "\x1b[01;31m\x1b[K{}\x1b[m\x1b[K",
    "\\u001b[1A\\u001b[2K{}",
    "<b>{}</b>",
    "|{}|",
    "({})[{}]",
    "äöü{}→日本",
    "a,{},b",
    "\t{}\t",
    "_{}",
    # Long enough to be searched for runs and clues, and with characters of more than one byte.
    "Überlänge → 日本 " * 12 + "{}",
    "line\n" * 40 + "{}\n" + "long_but_harmless_name_of_something\n" * 4,
)
LONG = "ordinary words → 日本, many enough to be searched for runs and clues. " * 3
WORDS = sorted({shape.kind for shape in KEY_SHAPES})
TEMPLATES = ("ghp_${TOKEN}", "Bearer {token}", "postgres://{user}:{password}@{host}/x", "https://$USER:$PASS@host")


def made(word):
    """Yield keys of a word, with the text that must be around each."""
    chance = Chance(word)
    for _ in range(ROUNDS):
        for name, make in MADE:
            if name == word:
                yield "", make(chance), ""
        for name, make_with_place in IN_PLACE:
            if name == word:
                yield make_with_place(chance)


def fed(text, size):
    redactor = Redactor()
    given = [redactor.feed(text[at : at + size]) for at in range(0, len(text), size)]
    return "".join(given) + redactor.end(), tuple(redactor.hits)


def lines_of(secret):
    return [line for line in re.split(r"\s+|\\n", secret) if len(line) > 3]


def test_every_shape_is_made():
    """LOG-13: at least thirty kinds, each one planted by these tests."""
    assert {name for name, _ in [*MADE, *IN_PLACE]} == set(WORDS)
    assert len(WORDS) >= 30


@pytest.mark.parametrize("word", WORDS)
def test_every_prefix_is_made(word):
    """A prefix that no planted key has would be a line of the table without a test."""
    texts = [before + secret for before, secret, _ in made(word)]
    for shape in KEY_SHAPES:
        for start in shape.starts if shape.kind == word else ():
            assert any(start in (text.lower() if shape.any_case else text) for text in texts), start


@pytest.mark.parametrize("word", WORDS)
def test_no_planted_key_passes(word):
    """Law 14: in any surrounding text, nothing of a key is left but its mark."""
    for before, secret, behind in made(word):
        for frame in FRAMES if not before else ("{}", "first\n{}\nlast", "> {} <", *FRAMES[-2:]):
            text = frame.replace("{}", before + secret + behind) if "{{" not in frame else frame.format(secret)
            for rule in ("keys", "assignments"):
                said = redact(text, rule)
                # The first characters of some keys have no shape: where they have a name, it removes them, too.
                assert set(said.hits) <= ({word} if rule == "keys" else {word, "assignment"}), (text, said)
                assert any(f"[redacted: {hit}]" in said.text for hit in said.hits)
                for line in lines_of(secret):
                    assert line not in said.text
                assert redact(said.text, rule).hits == ()


@pytest.mark.parametrize("word", WORDS)
def test_a_key_split_anywhere_is_still_a_key(word):
    """Law 14, streamed text included: split at every place, in two or in many, it is redacted as the whole is."""
    before, secret, behind = next(iter(made(word)))
    text = f"It is {before}{secret}{behind} and so on."
    whole = redact(text)
    for place in range(len(text) + 1):
        redactor = Redactor()
        first = redactor.feed(text[:place])
        assert len(redactor.held) <= REACH
        assert secret[:24] not in first
        assert first + redactor.feed(text[place:]) + redactor.end() == whole.text
        assert tuple(redactor.hits) == whole.hits
    for size in (1, 2, 3, 7, 20):
        assert fed(text, size) == (whole.text, whole.hits)


@pytest.mark.parametrize("behind", ["Z", "9", "z9Z9", "_", "-", "=", ".x", "+/", "@"])
def test_the_next_character_may_decide(behind):
    """Law 14: where the character after a key decides whether it is one, it is waited for."""
    chance = Chance(behind)
    texts = [make(chance) for _, make in MADE] + ["".join(make(chance)[:2]) for _, make in IN_PLACE]
    texts += [
        "Bearer " + "letters-only-so-far-but-then" + "0",
        "Authorization: Basic onlylettersS",
        "://me:passwordX@h",
    ]
    for text in texts:
        whole = redact(text + behind)
        for place in (len(text) - 1, len(text)):
            redactor = Redactor()
            out = redactor.feed(text[:place]) + redactor.feed(text[place:]) + redactor.feed(behind) + redactor.end()
            assert (out, tuple(redactor.hits)) == (whole.text, whole.hits)


def test_one_prefix_may_be_inside_another():
    """Every place is examined, also those within the prefix of a shape that did not match."""
    assert redact("secret_key-" + Chance(6).some("0123456789abcdef", 32)).hits == ("mailgun-key",)


@pytest.mark.parametrize("word", WORDS)
def test_text_that_is_too_short_is_not_a_key(word):
    """≤ 1 % false hits: the prefix alone, or a template in place of the key, stays as it is."""
    shape = next(shape for shape in KEY_SHAPES if shape.kind == word)
    for start in shape.starts:
        for text in (f"{start} and more", f"{start}${{TOKEN}}", f"{start}<your-key>", f"`{start}…`", start):
            assert redact(text) == redact(text).__class__(text)


def pieces():
    """Fragments that make keys, halves of keys and text between them."""
    chance = Chance(7)
    keys = [make(chance) for _, make in MADE] + ["".join(make(chance)) for _, make in IN_PLACE]
    begun = sorted({start[:size] for shape in KEY_SHAPES for start in shape.starts for size in (1, 2, len(start))})
    marks = [shape.mark for shape in KEY_SHAPES]
    return st.one_of(
        st.sampled_from(keys),
        st.builds(lambda key, size: key[:size], st.sampled_from(keys), st.integers(0, 60)),
        st.builds(lambda key, size: key[size:], st.sampled_from(keys), st.integers(0, 60)),
        st.sampled_from(begun),
        st.sampled_from(marks),
        st.sampled_from([" ", "\n", "\\n", "-", "_", ".", ":", "@", "/", "=", "a", "A", "7", "-----", "://", "é", "K"]),
        st.text(max_size=30),
    )


TEXTS = st.lists(pieces(), max_size=8).map("".join)


@given(text=TEXTS, cuts=st.lists(st.integers(0, 600), max_size=6))
def test_pieces_are_redacted_as_the_whole(text, cuts):
    """Law 14: splitting makes no difference, and no more is held back than could still become a key."""
    whole = redact(text)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    redactor, out = Redactor(), ""
    for begin, end in pairwise(places):
        out += redactor.feed(text[begin:end])
        assert len(redactor.held) <= REACH
    assert (out + redactor.end(), tuple(redactor.hits), tuple(redactor.spans)) == (whole.text, whole.hits, whole.spans)


def test_spans_are_the_places_of_the_marks():
    """Law 14: replacing each span by its mark gives the redacted text, also for a text that arrives in pieces."""
    chance = Chance(3)
    for word in WORDS:
        before, secret, behind = next(iter(made(word)))
        text = f"a {before}{secret}{behind}\nDB_PASSWORD={chance.some(LETTERS, 20)}1-\n{LONG * 3}"
        text += f"{before}{secret}{behind} z"
        redactor = Redactor()
        said = "".join(redactor.feed(text[at : at + 7]) for at in range(0, len(text), 7)) + redactor.end()
        assert redact(text).spans == tuple(redactor.spans)
        assert redact(text).text == said
        assert len(redactor.spans) == len(redactor.hits) >= 3
        for span in reversed(redactor.spans):
            text = text[: span.start] + span.mark + text[span.end :]
        assert text == said
    assert redact(LONG).spans == ()


def test_spans_are_places_in_the_text_with_its_colour_codes():
    """Law 14: an edit keeps the bytes of a secret in a file with colour codes too."""
    secret = Chance(5).some(LETTERS, 24)
    coloured = f"\x1b[1m{secret[:9]}\x1b[31;1m{secret[9:]}\x1b[0m"
    text = f"\x1b[31ma\x1b[0m DB_\x1b[1mPASSWORD\x1b[0m={coloured}\x1b[K\nand {coloured} \\u001b[32mTOKEN={secret}9\n"
    found = redact(text)
    assert len(found.spans) == 2
    for span in reversed(found.spans):
        text = text[: span.start] + span.mark + text[span.end :]
    assert text == found.text


@given(text=TEXTS)
def test_redacting_twice_is_redacting_once(text):
    """A mark is not a secret, and makes none of the text around it."""
    once = redact(text)
    assert redact(once.text).text == once.text


# Every shape is tried at every place, which takes long.
@settings(deadline=None, max_examples=40)
@given(text=TEXTS, assigned=st.sampled_from([text for _, text, _ in made_assignments()]))
def test_no_place_is_overlooked(text, assigned):
    """The fast search for places finds every one where a secret begins."""
    text = LONG + text + assigned
    for finder in (FINDER, STRICT_FINDER):
        there = {(place, shape) for shape in finder.shapes for place in range(len(text)) if shape.found(text, place)}
        assert there <= {(place, shape) for place, shapes in finder.candidates(text, 0) for shape in shapes}


@given(text=TEXTS, assigned=st.sampled_from([text for _, text, _ in made_assignments()]))
def test_a_place_is_decided_by_the_text_near_it(text, assigned):
    """The cost of a place is bounded, so hostile text costs at most its length times that bound."""
    text += assigned
    for place, shapes in (*FINDER.starts(text, 0), *STRICT_FINDER.starts(text, 0)):
        for shape in shapes:
            begin, end = max(0, place - LOOK_BEHIND), place + shape.reach
            near, far = shape.found(text[begin:end], place - begin), shape.found(text, place)
            assert (near and near.end() + begin) == (far and far.end())


def test_only_text_that_could_become_a_key_is_held_back():
    """Law 5: ordinary text passes at once, and the beginning of a key only as long as it can be one."""
    redactor = Redactor()
    assert redactor.feed("Hello, world. ") == "Hello, world. "
    assert redactor.feed("gh") == ""
    assert redactor.feed("p") == ""
    assert redactor.feed("ost in the shell, ") == "ghpost in the shell, "
    assert redactor.feed("sk-learn: ") == "sk-learn: "
    assert redactor.feed("see https://example.org/x ") == "see https://example.org/x "
    token = "gh" + "p_" + Chance(1).some(LETTERS, 36)
    assert redactor.feed(token) == "[redacted: github-token]"
    assert redactor.held == ""
    assert redactor.feed("MORE") == ""
    assert redactor.feed(".") == ""
    assert redactor.feed(" end") == " end"


def test_a_key_of_any_length_is_held_back_no_longer_than_needed():
    """Once it is recognised, the rest of a key is dropped as it comes."""
    chance, redactor = Chance(2), Redactor()
    out = redactor.feed("-----BEGIN PRIVATE KEY-----\n" + chance.b64(48) + "\n")
    for _ in range(200):
        out += redactor.feed(chance.b64(48) + "\n")
        assert len(redactor.held) < 5
    out += redactor.feed("-----END PRIVATE KEY-----\n") + redactor.end()
    assert out == "-----BEGIN PRIVATE KEY-----\n[redacted: private-key]-----END PRIVATE KEY-----\n"


def test_a_user_that_is_a_key_is_redacted_too():
    """The text before a password is examined on its own."""
    token = "gh" + "p_" + Chance(3).some(LETTERS, 36)
    said = redact(f"https://{token}:hunter22@example.org/x.git")
    assert said.text == "https://[redacted: github-token]:[redacted: url-password]@example.org/x.git"
    assert said.hits == ("github-token", "url-password")


def test_values_are_redacted_at_any_depth():
    """Keys of objects are text, too; the hits tell that the input of a call was changed."""
    key = "gh" + "p_" + Chance(4).some(LETTERS, 36)
    value = {"a": [1, None, {"b": f"x {key}"}], key: True, "c": 1.5}
    clean, hits = redact_value(value)
    assert clean == {"a": [1, None, {"b": "x [redacted: github-token]"}], "[redacted: github-token]": True, "c": 1.5}
    assert hits == ("github-token", "github-token")
    assert redact_value({"a": ["b", 2]}) == ({"a": ["b", 2]}, ())
    assert redact_value({"a": Text(text=key)})[0] == {"a": {"type": "text", "text": "[redacted: github-token]"}}
    assert redact_value([frozenset({key})])[1] == ("github-token",)
    deep: object = key
    for _ in range(5_000):
        deep = [deep]
    assert redact_value(deep)[1] == ("github-token",)


def test_placeholders_are_not_keys():
    """Code that names a secret and does not contain it stays as it is."""
    for text in (
        *TEMPLATES,
        "sk-ant-api03-...",
        "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "Bearer YOUR_API_TOKEN_GOES_HERE",
        "AKIAIOSFODNN7" + "EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
        base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa").decode(),
        base64.b64encode(b"-----BEGIN PUBLIC KEY-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa").decode(),
        "RECORD: sha256=glc_FZMyib4OhW7aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1v,1024",
    ):
        assert redact(text).hits == ()
    assert redact('if "-----BEGIN RSA PRIVATE KEY-----" in text:\n    raise ValueError').hits == ()
    assert redact("http://localhost:8080/@scope/package and git@github.com:org/repo").hits == ()


def ordinary():
    """Texts without secrets: hashes, ids, pictures, lock files, minified scripts."""
    chance = random.Random(11)
    for _ in range(300):
        raw = chance.randbytes(chance.randint(40, 400))
        yield hashlib.sha256(raw).hexdigest()
        digest = base64.b64encode(hashlib.sha512(raw).digest()).decode()
        yield f"commit {hashlib.sha1(raw).hexdigest()}\nsha512-{digest}"
        yield str(uuid.UUID(bytes=raw[:16]))
        yield f"data:image/png;base64,{base64.b64encode(raw * 20).decode()}"
        yield base64.urlsafe_b64encode(raw * 5).decode()
        name = "".join(chance.choices("abcdefghijklmnop-", k=12))
        yield f'"node_modules/{name}": {{"resolved": "https://registry.example.org/{name}/-/{name}-1.2.3.tgz",'
        yield f'      "integrity": "sha512-{digest}"'
        yield ";".join(
            f"function {c}(e,t){{return e.{c}_k[t]-{n}}}" for n, c in enumerate(chance.choices(LETTERS, k=60))
        )


def test_ordinary_text_is_left_alone():
    """≤ 1 % false hits: generated text of the kinds that look most like keys."""
    texts = list(ordinary())
    hit = [text for text in texts if redact(text).hits]
    assert len(hit) <= len(texts) // 100, hit[:3]


def sources(limit):
    """Yield the files of Python's own library: its tests contain addresses with passwords, the rest contains none."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = sorted(path for path in root.rglob("*.py") if "site-packages" not in path.parts)
    return paths[:: max(1, len(paths) // limit)]


def test_the_standard_library_is_left_alone():
    """≤ 1 % false hits on ordinary code: of files with a hit, and of lines far below."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in sources(150)]
    hit = sum(bool(redact(text).hits) for text in texts)
    assert len(texts) >= 100
    assert hit <= len(texts) // 100
