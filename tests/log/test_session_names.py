"""Names of sessions: readable, safe as file names everywhere, distinct for distinct texts (ST-1, ST-2, law 13)."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.errors import BadId
from wakelog.log.ids import is_id
from wakelog.log.session_names import (
    NAME_MAX_BYTES,
    PART_MAX_BYTES,
    checked_name,
    is_name,
    name_part,
    name_stem,
    old_stem,
    project_of,
    split_name,
    stems,
    title_part,
)
from wakelog.testing.session_suite import SIMILAR_NAMES, TEXTS


def _folded(name):
    """Return the form that the least exact file systems compare: no case, no normalisation, no compatibility forms."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", name).upper().casefold())


@given(TEXTS, TEXTS)
def test_distinct_texts_have_distinct_parts(one, other):
    """ST-1: also where file systems ignore case and normalisation."""
    if one != other:
        assert name_part(one) != name_part(other)
        assert _folded(name_part(one)) != _folded(name_part(other))


def test_no_file_system_confuses_two_names():
    """ST-2: texts that differ in case, normalisation or compatibility forms alone are told apart by their digests."""
    assert len({_folded(name_part(text)) for text in SIMILAR_NAMES}) == len(SIMILAR_NAMES)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_distinct_pairs_have_distinct_stems(a, b, c, d):
    """ST-1: text of the agent is never taken for text of the sender."""
    if (a, b) != (c, d):
        assert name_stem(a, b) != name_stem(c, d)


@pytest.mark.parametrize(("one", "other"), [(("a_b", "c"), ("a", "b_c")), (("a", "b~c"), ("a~b", "c"))])
def test_separators_in_texts_do_not_move_between_parts(one, other):
    assert name_stem(*one) != name_stem(*other)


def test_a_text_that_looks_like_a_name_with_a_digest_is_not_that_name():
    """ST-1: a sender can choose the text, and must not get the name of another sender by it."""
    made = name_part("TG 12345")
    assert name_part(made) != made


@given(st.text(max_size=300))
def test_parts_are_safe(text):
    """Law 13, ST-2: for any sender, its part of a name is within the grammar and short."""
    made = name_part(text)
    assert len(made.encode()) <= PART_MAX_BYTES
    assert unicodedata.is_normalized("NFC", made)
    assert made == made.lower()
    assert not set(made) & set("_./\\: \0")
    assert {unicodedata.category(char)[0] for char in made} <= {"L", "M", "N", "P", "S"}
    assert is_name(made)
    assert is_name(f"{name_stem(text, text)}999999")


def test_parts_are_readable():
    """ST-2: letters and digits of any script stay; a digest follows where the part is not the exact text."""
    exact = ["user", "tg-12345", "иван", "王小明", "محمد", "हिन्दी", "ไทย", "é", "con"]
    assert [name_part(text) for text in exact] == exact
    lossy = {"tg:12345": "tg-12345", "Иван Петров": "иван-петров", "CON": "con", "../../etc": "etc", "🎉": "x", "": "x"}
    for text, readable in lossy.items():
        assert re.fullmatch(rf"{readable}~[a-z2-7]{{8}}", name_part(text))


def test_parts_never_change():
    """ST-1: sessions are found by these names, so a version that makes other names loses them."""
    assert name_stem("bot", "tg:12345") == "bot_tg-12345~pitpqfy7_"
    assert name_stem("Бот", "王小明") == "бот~vjuraq5u_王小明_"


@pytest.mark.parametrize(
    ("pair", "stem"),
    [(("bot", "tg:12345"), "bot_tg-12345_"), (("Бот", "王小明"), "x_x_"), (("a" * 60, "-"), f"{'a' * 48}_x_")],
)
def test_old_stems_never_change(pair, stem):
    """ST-1: this is the stem that earlier versions made of a pair."""
    assert old_stem(*pair) == stem
    assert stems(*pair) == (name_stem(*pair), stem)


def test_one_stem_where_old_and_new_agree():
    assert stems("crab", "user") == ("crab_user_",)


@pytest.mark.parametrize(
    ("title", "part"),
    [
        ("Fix the /tests/ ☃", "fix-the-tests"),
        ("修复 测试", "修复-测试"),
        ("إصلاح الاختبار", "إصلاح-الاختبار"),
        ("Ошибка №5", "ошибка-5"),
        ("🎉🚀", "🎉🚀"),
        ("👨\u200d👩\u200d👧", "👨👩👧"),
        ("\u202e...", "x"),
        ("ж" * 100, "ж" * 30),
    ],
)
def test_titles_are_readable(title, part):
    """ST-2: a title of any script, or of emoji alone, is readable in its file name."""
    assert title_part(title) == part


@given(st.text(max_size=300))
def test_titles_are_safe(text):
    """Law 13: a title never leaves its folder, and is never too long for a file name."""
    made = title_part(text)
    assert 0 < len(made.encode()) <= PART_MAX_BYTES
    assert not set(made) & set("/\\.\0\n")
    assert not made.startswith("-")


# ── the grammar ──────────────────────────────────────────────────────────────────────────────────


@given(st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z"))
def test_every_id_is_a_name(text):
    """ST-2: names and ids of earlier stores stay valid."""
    assert is_id(text)
    assert is_name(text)


@pytest.mark.parametrize("text", ["бот_мария_1", "a~b_1", "हिन्दी_1", "٣_1", "x" * NAME_MAX_BYTES, "ж" * 90])
def test_valid_names(text):
    assert checked_name(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "..", "-a", "_a", "~a", "a/b", "a\\b", "a b", "a\n", "a\x00", "é/", "/é", "é\\", "é é", "é\0"),
        *("x" * (NAME_MAX_BYTES + 1), "ж" * 91, "ж" * 99_999),
        *("a\u202eb", "a\u200bb", "a\u200db", "a\u00adb", "а\ufe0f", "ㅤ", "a\u115f", "a\u034f"),
        *("e\u0301", "É", "Ж", "é\u0301\u0301"[:1] + "A" * 0 + "Ω", "\u0301a", "é_\u0301", "é-\u0301", "a🎉", "²é"),
        *("\ud800", "é\ud800", "é\u2028", "é\u00a0", "é:", "é*", "é?", 'é"', "é<", "é|"),
    ],
)
def test_invalid_names(text):
    """Law 13: nothing that could be a path, a control character, a look-alike or a forbidden character is a name."""
    assert not is_name(text)
    with pytest.raises(BadId):
        checked_name(text)


@pytest.mark.parametrize(
    ("name", "stem", "number"),
    [
        ("crab_user_7", "crab_user_", 7),
        ("crab_user_007", "crab_user_", 7),
        ("бот_мария_12", "бот_мария_", 12),
        ("crab", "crab_", None),
        ("7", "7_", None),
        ("crab_user_٣", "crab_user_٣_", None),
        ("crab_user_" + "9" * 10, f"crab_user_{'9' * 10}_", None),
    ],
)
def test_stem_and_number(name, stem, number):
    assert split_name(name) == (stem, number)


@pytest.mark.parametrize(
    ("folder", "project"),
    [
        ("/home/ada/wakelog", "wakelog"),
        ("/home/ada/wakelog/", "wakelog"),
        ("/home/ada/cli/.worktrees/2", "cli"),
        ("C:\\Users\\ada\\api", "api"),
        ("C:\\", ""),
        ("/", ""),
        ("", ""),
    ],
)
def test_the_project_of_a_folder(folder, project):
    """ST-4: hidden folders and numbers, as worktrees have them, do not name a project."""
    assert project_of(folder) == project
