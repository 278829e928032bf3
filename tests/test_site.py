"""The documentation site: its navigation names every page, and links are right on the site and on GitHub."""

import re
from pathlib import Path

import pytest
import yaml

import wakelog
from tools import build_site

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *(ROOT / name for name in build_site.DOCUMENTS), *sorted((ROOT / "docs").rglob("*.md"))]


class _Configuration(yaml.SafeLoader):  # type: ignore[misc]
    """Reads mkdocs.yml, which names a Python function; the name is not looked up."""


_Configuration.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def _named(nav):
    """Return the pages that a navigation names, in order."""
    for item in nav:
        for value in item.values() if isinstance(item, dict) else [item]:
            yield from [value] if isinstance(value, str) else _named(value)


def _anchors(text):
    """Return the anchors that GitHub makes for the headings of a page."""
    prose = "".join(part if not code or "\n" not in part else "" for code, part in build_site.parts(text))
    seen: list[str] = []
    for title in re.findall(r"^#{1,6} +(.+?) *#*$", prose, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        seen.append(slug if slug not in seen else f"{slug}-{seen.count(slug)}")
    return set(seen)


def test_the_navigation_names_every_page():
    """A page that is missing from `nav`, or named twice, or that does not exist, is an error."""
    configuration = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader=_Configuration)
    named = list(_named(configuration["nav"]))
    staged = {place for source, place in build_site.site_paths(ROOT).items() if source.endswith(".md")}
    assert sorted(named) == sorted(staged)


def test_pages_load_nothing_from_other_hosts():
    """The theme would load fonts from another host by default."""
    configuration = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader=_Configuration)
    assert configuration["theme"]["font"] is False
    assert not {"extra_css", "extra_javascript"} & configuration.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors_exist_on_github(page):
    """The build checks links on the site; here, the anchors of the same links are checked as GitHub makes them."""
    prose = "".join(part for code, part in build_site.parts(page.read_text()) if not code)
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", prose):
        linked = (page.parent / target).resolve() if target else page
        assert anchor in _anchors(linked.read_text()), f"{target}#{anchor}"


def test_every_public_name_has_a_directive():
    lines = "".join(build_site.directives(ROOT, "exports", ""))
    assert re.findall(r"::: wakelog\.(\w+)", lines) == sorted(
        (name for name in wakelog.__all__ if not name.startswith("_")), key=lambda name: (name[0].islower(), name)
    )


@pytest.mark.parametrize("name", ["wakelog.ports", "wakelog.errors", "wakelog.testing"])
def test_modules_are_found_when_the_site_is_built(name):
    """A module, or a package with all of its public modules."""
    found = build_site.modules(ROOT / "src", name)
    assert found[0] == name
    assert all((ROOT / "src" / f"{each.replace('.', '/')}.py").exists() for each in found[1:])


def test_an_unknown_module_is_an_error():
    with pytest.raises(SystemExit, match="does not exist"):
        build_site.modules(ROOT / "src", "wakelog.nothing")


def test_links_are_adjusted_outside_of_code():
    paths = {"docs/a.md": "a.md", "docs/index.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "docs/b/c.md": "b/c.md"}
    text = "[x](../../CHANGELOG.md#v) [y](../a.md) [z](../../README.md) [w](https://host/) `[k](no.md)`\n"
    assert build_site.page(ROOT, "docs/b/c.md", text, paths) == (
        "[x](../CHANGELOG.md#v) [y](../a.md) [z](../index.md) [w](https://host/) `[k](no.md)`\n"
    )
    with pytest.raises(SystemExit, match=r"docs/a\.md links to \.\./Makefile"):
        build_site.page(ROOT, "docs/a.md", "[m](../Makefile)", paths)


def test_lists_are_written_for_python_markdown():
    text = "Text:\n- one\n  more\n\n  | a |\n  |---|\n- two\n  1. deep\n     still\n\nEnd\n```sh\n- code\n```\n"
    assert build_site.python_markdown(text) == (
        "Text:\n\n- one\n    more\n\n    | a |\n    |---|\n\n- two\n\n    1. deep\n        still\n\n"
        "End\n```sh\n- code\n```\n"
    )


def test_problems_of_a_site_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#part"></a><a href="b.html#no"></a><a href="c.html"></a><a href="#top"></a>'
        '<a href="https://host/"></a><script src="https://host/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h2 id="part">B</h2><link rel="stylesheet" href="//host/x.css">')
    (tmp_path / "x.css").write_text("@import 'https://host/font.css'; a { background: url(data:image/png;base64,) }")
    assert build_site.problems(tmp_path) == [
        "a.html loads https://host/x.js",
        "a.html links to b.html#no: no such anchor",
        "a.html links to c.html: no such file",
        "b.html loads //host/x.css",
        "x.css loads https://host/font.css",
    ]


def test_blocks_that_only_one_parser_sees_are_found(tmp_path):
    staged, site = tmp_path / "staged", tmp_path / "site"
    staged.mkdir()
    site.mkdir()
    (staged / "a.md").write_text("Text\n- one\n")
    (site / "a.html").write_text("<nav><li></nav><article class=x><p>Text - one</p></article><li>")
    assert [line.partition(",")[0] for line in build_site.differences(staged, site)] == [
        "a.html has 0 <li>",
        "a.html has 0 <ul>",
    ]
