"""Values of assignments: `strict` finds all planted kinds, the default values that look random, however split."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.made_transcripts import Transcripts
from tests.redaction.assignments_made import ALL_KINDS, NONE, made, random_value
from tests.redaction.secrets_made import LETTERS, Chance
from wakelog.redaction.assignment_values import is_random_value
from wakelog.redaction.redactor import Redactor, held_chars_max, redact, redact_value
from wakelog.redaction.shapes import LOOK_BEHIND

REACH = held_chars_max("strict")
MARK = "[redacted: assignment]"
KINDS_OF_MARKS = "assignment aws-secret-key url-password npm-token bearer-token basic-credentials api-key password-hash"
MARKS = tuple(f"[redacted: {kind}]" for kind in KINDS_OF_MARKS.split())
PROSE = ("{}", "It was {}", "äöü → 日本\n{}", "long lines of ordinary words\n" * 12 + "{}")
TOOL_OUTPUT = ("first line\n{}\nlast line", "$ cat notes\n{}\n$ ", "2026-01-02T03:04:05Z INFO {}")
MADE = list(made())
DEFAULT = [(kind, text, value) for kind, text, value in made(values=random_value) if redact(text).hits]
# A random value of the default, for tests of how it is found.
VALUE = "q7Zt2LxW9vBn4Kd8Rm"


def ids(made):
    return [kind for kind, _, _ in made]


def assert_gone(text, secret, rule):
    said = redact(text, rule)
    assert secret[:8] not in said.text
    assert any(mark in said.text for mark in MARKS)
    assert redact(said.text, rule).hits == ()


def test_there_are_enough_kinds():
    """Law 14: at least sixty kinds; of random values the default finds more than half of the kinds."""
    kinds = {kind for kind, _, _ in ALL_KINDS}
    assert len(kinds) == len(ALL_KINDS) >= 60
    assert len({kind for kind, _, _ in DEFAULT}) > len(kinds) / 2


@pytest.mark.parametrize(("kind", "text", "secret"), MADE, ids=ids(MADE))
def test_strict_finds_every_planted_secret(kind, text, secret):
    """Law 14: in prose, output of tools and JSON the value is gone; redacting again changes nothing."""
    for around in (*PROSE, *TOOL_OUTPUT):
        assert_gone(around.replace("{}", text), secret, "strict")
    assert_gone(json.dumps({"type": "tool_result", "content": f"out\n{text}\n"}), secret, "strict")
    clean, hits = redact_value({"content": [{"type": "text", "text": text}]}, "strict")
    assert hits
    assert secret[:8] not in str(clean)


@pytest.mark.parametrize(("kind", "text", "secret"), MADE[::3], ids=ids(MADE[::3]))
def test_strict_finds_it_however_the_text_is_split(kind, text, secret):
    """Law 14, streamed text included: split at every place, in two or in many, it is redacted as the whole is."""
    text = f"Here it is:\n{text}\nand so on."
    whole = redact(text, "strict")
    for place in range(len(text) + 1):
        redactor = Redactor("strict")
        first = redactor.feed(text[:place])
        assert len(redactor.held) <= REACH
        assert secret[:8] not in first
        assert (first + redactor.feed(text[place:]) + redactor.end(), tuple(redactor.hits)) == (whole.text, whole.hits)
    for size in (1, 2, 3, 7, 20):
        redactor = Redactor("strict")
        given = [redactor.feed(text[at : at + size]) for at in range(0, len(text), size)]
        assert "".join(given) + redactor.end() == whole.text, kind


@pytest.mark.parametrize(("kind", "text", "secret"), DEFAULT[::3], ids=ids(DEFAULT[::3]))
def test_the_default_finds_random_values(kind, text, secret):
    """Law 14: where the default finds a kind, it finds it in every surrounding and however the text is split."""
    for around in (*PROSE, *TOOL_OUTPUT):
        assert_gone(around.replace("{}", text), secret, "assignments")
    whole = redact(text)
    for place in range(len(text) + 1):
        redactor = Redactor()
        assert redactor.feed(text[:place]) + redactor.feed(text[place:]) + redactor.end() == whole.text


def test_random_values_are_told_from_names():
    """Law 14: of random letters and digits 98 of 100 look random; no identifier, path, UUID, digest or number does."""
    chance = Chance("random")
    assert sum(is_random_value(chance.some(LETTERS, 24)) for _ in range(1_000)) >= 980
    transcripts = Transcripts(3)
    names = {transcripts.harmless() for _ in range(20_000)}
    assert [name for name in names if is_random_value(name)] == []


@pytest.mark.parametrize(
    "text",
    [
        "--- PASS: TestLoadSessionState_WithEndedAt (0.00s)",
        "result.CacheReadTokens = a.CacheReadTokens",
        "session_key: agent:main:telegram:group:-1001234567890:topic:42",
        '"sessionKey": "agent:main:discord:channel:550e8400-e29b-41d4-a716-446655440000"',
        "token: 550e8400-e29b-41d4-a716-446655440000",
        "CACHE_KEY=linux-amd64-node-modules-5f2b51ca2bdc06c1e6c6a1f1d4f4d6d0a3b2c1e0",
        "SECRET_KEY: 697c951a8be855d3dc75cf9249a2c5ec57ceee67",
        'secretKey = "DeployStreamGolangProcessDiscordEntry185"',
        "password: correct-horse-battery-staple",
        "DB_PASSWORD=hunter2hunter2hunter2",
        "api_key = load_api_key_from_environment_v2(os.environ)",
        "TOKEN_URL: https://login.example.org/oauth2/v2.0/token",
        "token = /var/run/secrets/kubernetes.io/serviceaccount/token",
        "api_key: x86_64-unknown-linux-gnu2.31",
        "secret: projects/demo/secrets/db-password/versions/12",
        "build-key-0123456789abcdef0123456789abcdef",
    ],
)
def test_the_default_leaves_ordinary_text_alone(text):
    """Law 14: identifiers, paths, calls, UUIDs, digests, numbers and words stay, in whole texts and in JSON objects."""
    for around in (*PROSE, *TOOL_OUTPUT):
        assert redact(around.replace("{}", text)).text == around.replace("{}", text)
    name, _, value = text.partition("=" if "=" in text else ":")
    assert redact_value({name.strip(' "'): value.strip(' "')})[1] == ()


@pytest.mark.parametrize("text", NONE)
def test_text_without_a_secret_stays(text):
    """Law 14: placeholders, code, types, calls, paths, prose and numbers stay, also under `strict`."""
    for around in (*PROSE, *TOOL_OUTPUT):
        assert redact(around.replace("{}", text), "strict").text == around.replace("{}", text)
        assert redact(around.replace("{}", text)).text == around.replace("{}", text)


def test_the_modes():
    """`keys` finds key shapes only, `assignments` also random values, `strict` also passwords, `off` nothing."""
    key = "gh" + "p_" + "a1B2" * 9
    text = f"DB_PASSWORD=hunter22 API_TOKEN={VALUE} TOKEN={key}"
    assert redact(text, "keys").text == text.replace(key, "[redacted: github-token]")
    assert redact(text).text == redact(text, "keys").text.replace(VALUE, MARK)
    assert redact(text, "strict").text == redact(text).text.replace("hunter22", MARK)
    assert redact(text, "off").text == text
    for rule in ("keys", "assignments", "off"):
        assert redact_value({"password": "hunter22"}, rule) == ({"password": "hunter22"}, ())


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
        text = f'password = "{VALUE}{middle}\\"def\\\\" + rest'
        assert redact(text).text == f'password = "{MARK}" + rest'
        for place in range(len(text)):
            redactor = Redactor()
            assert redactor.feed(text[:place]) + redactor.feed(text[place:]) + redactor.end() == redact(text).text


def test_colour_codes_hide_nothing():
    """Law 14: codes around and inside of a name, a value and a key are no part of them; other codes stay."""
    code, end = "\x1b[01;31m\x1b[K", "\x1b[m\x1b[K"
    key = "gh" + "p_" + "a1B2" * 9
    for text, clean in (
        (f"DB_{code}PASS{end}WORD={VALUE}", f"DB_{code}PASS{end}WORD={MARK}"),
        (f"DB_PASSWORD={VALUE[:9]}{code}{VALUE[9:]}{end} x", f"DB_PASSWORD={MARK}{end} x"),
        (f"password: {code}{VALUE}{end}", f"password: {code}{MARK}{end}"),
        (f"{code}{key[:20]}{end}{key[20:]}", f"{code}[redacted: github-token]"),
        (f"a{code}b{end}", f"a{code}b{end}"),
    ):
        for rule in ("assignments", "strict"):
            assert redact(text, rule).text == clean
            for place in range(len(text)):
                redactor = Redactor(rule)
                assert redactor.feed(text[:place]) + redactor.feed(text[place:]) + redactor.end() == clean


def test_a_value_of_any_length_is_dropped_as_it_comes():
    """Law 5: a value that is known to be secret is not held back."""
    redactor = Redactor()
    out = redactor.feed(f"DB_PASSWORD={VALUE}" + "b2" * 40)
    for _ in range(200):
        out += redactor.feed("c3d4" * 20)
        assert redactor.held == ""
    assert out + redactor.feed("\nnext") + redactor.end() == f"DB_PASSWORD={MARK}\nnext"


def test_a_name_is_shown_at_once():
    """Law 5: only a value that could still be a secret is held back; names and ordinary text pass at once."""
    redactor = Redactor()
    for text in ("The passw", "ord is in the vault, the tok", "en ", "too. My password: "):
        assert redactor.feed(text) == text
    assert redactor.feed("see") == ""
    assert redactor.feed(" the wiki, DB_PASSW") == "see the wiki, DB_PASSW"
    assert redactor.feed("ORD") == "ORD"
    assert redactor.feed(f"={VALUE[:6]}") == "="
    assert redactor.feed(f"{VALUE[6:]}\n") == f"{MARK}\n"


def test_names_in_json_objects():
    """Law 14: a key of an object names its value as a line of a file does, and so does the member `name`."""
    value = {"client_secret": VALUE, "items": [{"password": VALUE, "user": "me"}], "token": 5}
    clean, hits = redact_value(value)
    assert clean == {"client_secret": MARK, "items": [{"password": MARK, "user": "me"}], "token": 5}
    assert hits == ("assignment", "assignment")
    assert redact_value(clean) == (clean, ())
    assert redact_value({"name": "DB_PASSWORD", "value": VALUE})[0] == {"name": "DB_PASSWORD", "value": MARK}
    headers = [{"name": "Authorization", "value": "Bearer opaquewords"}, {"name": "Cookie", "value": "sid=abcdefgh"}]
    assert [each["value"] for each in redact_value(headers, "strict")[0]] == [MARK, MARK]
    harmless = {"password": "see the wiki", "token": "string", "secret": None, "key": "abc123def456"}
    for rule in ("assignments", "strict"):
        assert redact_value(harmless, rule) == (harmless, ())


PIECES = st.one_of(
    st.sampled_from([text for _, text, _ in (*MADE, *DEFAULT)]),
    st.builds(lambda text, size: text[:size], st.sampled_from([text for _, text, _ in MADE]), st.integers(0, 60)),
    st.sampled_from([*NONE, *MARKS]),
    st.sampled_from(
        ["password", "TOKEN", "secret", "_key", "=", ":", '"', "'", "\\", '\\"', " ", "\n", VALUE, "@", "-p"]
    ),
    st.sampled_from(["\x1b", "\x1b[", "[0m", "\x1b[0m", "\x1b[01;31m\x1b[K", "\\u001b[m", "\\\\x1b[1m", "\x1b[m" * 9]),
    st.text(max_size=20),
)


@pytest.mark.parametrize("rule", ["assignments", "strict"])
@given(text=st.lists(PIECES, max_size=8).map("".join), cuts=st.lists(st.integers(0, 400), max_size=6))
def test_pieces_are_redacted_as_the_whole(rule, text, cuts):
    """Law 14: splitting makes no difference, redacting twice is redacting once, and the held-back text is bounded."""
    whole = redact(text, rule)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    redactor, out = Redactor(rule), ""
    for begin, end in pairwise(places):
        out += redactor.feed(text[begin:end])
        assert len(redactor.held) <= REACH
    assert (out + redactor.end(), tuple(redactor.hits)) == (whole.text, whole.hits)
    assert redact(whole.text, rule).text == whole.text


def test_the_memory_is_bounded():
    """A text without end costs no memory: besides the held-back text only what a name may need is kept."""
    redactor = Redactor()
    for _ in range(200):
        redactor.feed("password=password=token: secret \x1b[m" * 10)
        assert len(redactor._seen) <= LOOK_BEHIND + 150 + REACH
        assert len(redactor._codes._codes) <= LOOK_BEHIND + 150 + REACH
