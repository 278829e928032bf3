"""False hits of redaction: a short form of `make false-hits`, on the same kinds of text."""

from bench.false_hits import counted, planted, repository, standard_library, table, transcripts, write
from tests.redaction.assignments_made import secret


def test_the_default_leaves_ordinary_text_alone():
    """Law 14: at most one false hit in 10 MB of made transcripts, this repository and the standard library."""
    corpora = {
        "made transcripts": transcripts(2_000_000, seed=7),
        "this repository": (text for text in repository() if not text[0].startswith("tests/golden")),
        "the standard library": list(standard_library())[::8],
    }
    found = [counted(corpus, texts, modes=("assignments",)) for corpus, texts in corpora.items()]
    assert sum(each.chars for each in found) > 8_000_000
    assert sum(each.false["assignments"] for each in found) <= 1, [each.shown for each in found]


def test_the_transcripts_hold_what_is_taken_for_secrets():
    """Law 14: the texts test something: a mode that takes more than random values has many false hits in them."""
    found = counted("made transcripts", transcripts(200_000), modes=("assignments", "strict"))
    assert found.false["assignments"] == 0
    assert found.false["strict"] > 50


def test_a_false_hit_is_counted_and_shown():
    """Law 14: a redacted value in text without secrets is a false hit; in a labelled file it is counted apart."""
    line = "API_TOKEN=q7Zt2LxW9vBn4Kd8Rm"
    found = counted("this repository", [("src/x.py", f"a\n{line}\n"), ("tests/test_secrets.py", line)])
    assert (found.false["assignments"], found.labelled["assignments"], found.false["keys"]) == (1, 1, 0)
    assert found.shown == (f"src/x.py: {line}",)


def test_the_figures_are_written(tmp_path):
    """Law 14: the tables replace those in the document, and the rest stays."""
    document = tmp_path / "page.md"
    document.write_text("a\n<!-- redaction: written by `make false-hits` -->\nold\n<!-- end of redaction -->\nb\n")
    kinds = planted("as people write them", secret, rounds=1)
    assert kinds.left["strict"] == ()
    write(table([counted("x", [("x", "text")])], [kinds], "2026-01-01"), document)
    text = document.read_text()
    assert text.startswith("a\n<!-- redaction")
    assert text.endswith("<!-- end of redaction -->\nb\n")
    assert "old" not in text
    assert f"{kinds.kinds} of {kinds.kinds} |" in text
