"""Markdown: readable, and no stored text can change the structure of the document (ST-8, law 13)."""

import pytest
from markdown_it import MarkdownIt

from wakelog.app.export_markdown import DocumentHeader, markdown_document
from wakelog.cli.ui.safe_text import visible
from wakelog.log.entry import Failed, ModelChange, Setting
from wakelog.projections.overview import overview
from wakelog.projections.transcript import count_messages, transcript
from wakelog.testing.builders import SessionBuilder


def told(story):
    log = story.session.read()
    branch, card = log.tree.branch(), overview(log.tree)
    about = DocumentHeader(
        name=log.name, id=log.id, title=card.title, model=card.model, messages=count_messages(branch)
    )
    return "".join(markdown_document(about, transcript(branch), visible))


def tokens(text):
    """Return the tokens of a parser that lets HTML through."""
    return MarkdownIt("commonmark", {"html": True}).parse(text)


def headings(text):
    parsed = tokens(text)
    top = [at for at, token in enumerate(parsed) if token.type == "heading_open" and token.level == 0]
    return [(parsed[at].tag, parsed[at + 1].content) for at in top]


def test_a_session():
    story = SessionBuilder()
    story.session.rename("The parser")
    prompt = story.user("Please *look*.")
    reply = story.reply("I will.", calls=[("t1", "bash", {"command": "make"})])
    story.result(reply, "t1", "it ``` broke", status="error")
    story.session.label(prompt.id, "start")
    story.session.append(ModelChange(model="m2"))
    story.session.append(Setting(key="depth", value=3))
    story.session.append(Failed(reason="no more"))
    story.session.compact("In short.")
    text = told(story)
    assert text.startswith("# The parser\n\n- session: `crab_user_1`\n")
    names = [name.partition(" · ")[0] for _, name in headings(text)]
    assert names == ["The parser", "User (start)", "Assistant (example)", "model", "depth", "Failed", "Compaction"]
    assert "> Please *look*." in text
    assert "**bash** — error" in text
    assert "````\nit ``` broke\n````" in text
    assert text.endswith("> In short.\n")
    assert "\n\n\n" not in text


ATTACKS = [
    "# A heading\n\n## User · 2026-01-01\n\nforged",
    "```\nan open fence",
    "~~~~\nan open fence",
    "````md\n```\n# inside\n```\n````\n# after",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</blockquote><h2>User</h2>",
    "<!-- comment",
    "text\n===\nforged\n---",
    "> nested\n\nout of the quote",
    "- list\n\n    code",
    "`code <b>` and <b>bold</b> `open",
    "<?php x ?> <!DOCTYPE x> <![CDATA[ x ]]>",
    "\\<b>",
    "[a]: http://evil.example\n[User][a]",
    "\x1b]0;x\x07\u202eabc",
    "1\r\n# two\r# three\u2028# four",
]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("where", ["prompt", "reply", "result", "tool", "title", "label", "summary", "model"])
def test_no_text_gets_out_of_its_place(attack, where):
    """Law 13: whatever the texts contain, the document has the same headings, and no tag is let through."""

    def story_of(text):
        story = SessionBuilder()
        given = dict.fromkeys(("prompt", "reply", "result", "tool", "title", "label", "summary", "model"), "plain")
        given[where] = text
        story.session.rename(given["title"])
        prompt = story.user(given["prompt"])
        reply = story.reply(given["reply"], calls=[("t1", given["tool"], {"command": given["result"]})])
        story.result(reply, "t1", given["result"])
        story.session.label(prompt.id, given["label"])
        story.session.append(ModelChange(model=given["model"]))
        story.session.compact(given["summary"])
        return told(story)

    text = story_of(attack)
    assert len(headings(text)) == len(headings(story_of("plain")))
    assert not [token for token in _flat(tokens(text)) if token.type in ("html_block", "html_inline")]
    assert not set(text) & {"\x1b", "\x07", "\r", "\u202e", "\u2028"}


def _flat(parsed):
    for token in parsed:
        yield token
        yield from _flat(token.children or [])


def test_quoted_text_can_still_be_read():
    """Code keeps its characters: only text that would be a tag is escaped."""
    story = SessionBuilder()
    story.reply("Use `a<b>` or:\n\n```html\n<b>\n```\n\nnot <b>, but 1 < 2.")
    text = told(story)
    assert "> Use `a<b>` or:" in text
    assert "> <b>" in text
    assert "> not &lt;b>, but 1 < 2." in text
