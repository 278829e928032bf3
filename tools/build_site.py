"""Build the documentation site: `python -m tools.build_site`, run by `make docs`.

Three steps. `stage` copies the pages of `docs/` and the documents beside it into one folder, because mkdocs reads
only one, and adjusts the links between them; pages in the repository keep links that work there. Comments such as
`<!-- api: modules wakelog.ports -->` are replaced by directives of mkdocstrings for the modules that exist at that
time. mkdocs then builds the site; it warns about missing pages and anchors, and `--strict` makes these errors.
`problems` finally reads the HTML: each link must lead to a file and an anchor of the site, and no page may load
anything from another host.
"""

import ast
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
STAGED = ROOT / "build" / "pages"
SITE = ROOT / "site"

# Documents outside of docs/ that are pages of the site, and files that pages may link to.
DOCUMENTS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")
FILES = ("LICENSE",)
# In the repository the README is the first page; on the site the start page is.
REPLACED = {"README.md": "docs/index.md"}

_CODE = re.compile(
    r"(^ *(?P<fence>`{3,}|~{3,}).*?^ *(?P=fence)`*$|(?P<ticks>`+)[^`].*?(?<!`)(?P=ticks)(?!`))",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_API = re.compile(r"^<!-- api: (?P<what>exports|modules) ?(?P<module>[\w.]*) -->$", re.MULTILINE)


# ── pages ────────────────────────────────────────────────────────────────────────────────────────


def stage(root: Path, target: Path) -> None:
    """Write all pages of the site, and the files that they show, into the folder `target`."""
    shutil.rmtree(target, ignore_errors=True)
    paths = site_paths(root)
    for source, place in paths.items():
        path = target / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if not place.endswith(".md"):
            shutil.copyfile(root / source, path)
            continue
        text = (root / source).read_text(encoding="utf-8")
        path.write_text(page(root, source, text, paths) if source.endswith(".md") else listing(source, text))


def site_paths(root: Path) -> dict[str, str]:
    """Return the path in the staged folder for each file of the site, by its path in the repository."""
    docs = [path for path in (root / "docs").rglob("*") if path.suffix in (".md", ".svg", ".png")]
    found = {path.relative_to(root).as_posix(): path.relative_to(root / "docs").as_posix() for path in sorted(docs)}
    found |= {name: name for name in (*DOCUMENTS, *FILES)}
    examples = [path for path in (root / "examples").iterdir() if path.suffix in (".py", ".html")]
    return found | {f"examples/{path.name}": f"examples/{path.name}.md" for path in sorted(examples)}


def page(root: Path, source: str, text: str, paths: dict[str, str]) -> str:
    """Return a page with links as they are on the site, and with directives in place of its `api` comments."""
    here = posixpath.dirname(paths[source])

    def link(match: re.Match[str]) -> str:
        target, hash_, anchor = match[2].partition("#")
        if not target or urlsplit(target).scheme:
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if (Path(root) / file).is_dir():
            file = posixpath.join(file, "README.md")
        place = paths.get(REPLACED.get(file, file))
        if place is None:
            sys.exit(
                f"{source} links to {match[2]}, which is not part of the site; see DOCUMENTS in tools/build_site.py"
            )
        return f"{match[1]}{posixpath.relpath(place, here or '.')}{hash_}{anchor}{match[3]}"

    changed = "".join(part if is_code else _LINK.sub(link, part) for is_code, part in parts(text))
    changed = python_markdown(changed)
    return _API.sub(lambda match: "\n".join(directives(root, match["what"], match["module"])), changed)


def parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a Markdown text in order, each with whether it is code."""
    end = 0
    for match in _CODE.finditer(text):
        yield False, text[end : match.start()]
        yield True, match[0]
        end = match.end()
    yield False, text[end:]


def python_markdown(text: str) -> str:
    """Return a text with lists as Python-Markdown, the parser of mkdocs, expects them.

    GitHub reads a list directly after a paragraph, and the content of an item is indented as far as its first word.
    Python-Markdown needs an empty line before the list and after a table, and four spaces for each level.
    """
    lines: list[str] = []
    levels: list[tuple[int, int]] = []  # of the open lists: the column of the marker, and of the text
    fence = ""
    for line in text.splitlines():
        column = len(line) - len(line.lstrip(" "))
        mark = re.match(r"(`{3,}|~{3,})", line.lstrip())
        item = re.match(r"([-*+]|\d+\.) +", line[column:]) if not fence else None
        if line.strip() and not fence:
            while levels and column < levels[-1][1] and not (item and column == levels[-1][0]):
                levels.pop()
        opens = item is not None and not (levels and column == levels[-1][0])
        if lines and lines[-1].strip() and (opens or (item and lines[-1].lstrip().startswith("|"))):
            lines.append("")
        depth = len(levels) - (1 if levels and item and not opens else 0)
        inner = levels[depth - 1][1] if depth else 0
        lines.append(" " * (4 * depth) + line[min(inner, column) :] if line.strip() else "")
        if opens and item:
            levels.append((column, column + item.end()))
        if mark and not fence:
            fence = mark[1]
        elif mark and line.strip() == fence:
            fence = ""
    return "\n".join(lines) + "\n"


def listing(source: str, text: str) -> str:
    """Return a page that shows a source file."""
    language = source.rpartition(".")[2]
    return f"# {posixpath.basename(source)}\n\n```{language}\n{text.rstrip()}\n```\n"


# ── API reference ────────────────────────────────────────────────────────────────────────────────


def directives(root: Path, what: str, module: str) -> Iterator[str]:
    """Yield the lines that make mkdocstrings describe the exported names, or a module and the modules inside it."""
    source = root / "src"
    if what == "exports":
        names = [name for name in exported(source / "wakelog" / "__init__.py") if not name.startswith("_")]
        for title, wanted in (("Classes", True), ("Functions", False)):
            yield f"## {title}\n"
            for name in names:
                if name[0].isupper() == wanted:
                    yield f"::: wakelog.{name}\n    options:\n      heading_level: 3\n"
        return
    for name in modules(source, module):
        is_package = (source / name.replace(".", "/")).is_dir()
        yield f"::: {name}\n" + ("    options:\n      members: false\n" if is_package else "")


def exported(path: Path) -> list[str]:
    """Return `__all__` of a module, without importing it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    sys.exit(f"{path} has no __all__")


def modules(source: Path, name: str) -> list[str]:
    """Return the name of a module and, if it is a package, of the public modules in it."""
    base = source / name.replace(".", "/")
    if base.with_suffix(".py").exists():
        return [name]
    found = [path.relative_to(source).with_suffix("") for path in sorted(base.rglob("*.py"))]
    names = [".".join(path.parts).removesuffix(".__init__") for path in found]
    if not names:
        sys.exit(f"an `api` comment names {name}, which does not exist")
    return sorted(name for name in names if "._" not in name)


# ── checks ───────────────────────────────────────────────────────────────────────────────────────


class _Page(HTMLParser):
    """The anchors, links and loaded resources of an HTML page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag defines and refers to."""
        values = {name: value for name, value in attrs if value is not None}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif tag == "link" and "href" in values and values.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.add(values["href"])
        elif tag in ("script", "img", "iframe", "source", "video", "audio", "embed") and "src" in values:
            self.loaded.add(values["src"])
        if "mermaid" in values.get("class", "").split():
            self.loaded.add("https://unpkg.com/mermaid")  # the theme's script would load it for such a block


def problems(site: Path) -> list[str]:
    """Return links to missing files or anchors, and resources of other hosts, in the HTML and CSS of a site."""
    pages = {path: _parsed(path) for path in site.rglob("*.html")}
    found = []
    for path, seen in sorted(pages.items()):
        name = path.relative_to(site)
        found += [f"{name} loads {url}" for url in sorted(seen.loaded) if _is_remote(url)]
        for url in sorted(seen.links | seen.loaded):
            if _is_remote(url) or urlsplit(url).scheme:
                continue
            parts = urlsplit(url)
            # Links of the page for missing addresses begin at the root of the server.
            base = site if parts.path.startswith("/") else path.parent
            target = Path(os.path.normpath(base / unquote(parts.path).lstrip("/"))) if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{name} links to {url}: no such file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name} links to {url}: no such anchor")
    for path in sorted(site.rglob("*.css")):
        urls = re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)} loads {url}" for url in urls]
    return found


def differences(staged: Path, site: Path) -> list[str]:
    """Return pages that GitHub, a CommonMark parser, would show with another number of blocks than the site."""
    found = []
    for path in sorted(staged.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if ":::" in text:  # directives of mkdocstrings
            continue
        name = path.relative_to(staged).with_suffix(".html").as_posix().replace("README.html", "index.html")
        built = re.sub(r".*<article[^>]*>|</article>.*", "", (site / name).read_text(encoding="utf-8"), flags=re.DOTALL)
        expected = MarkdownIt("commonmark").enable("table").render(text)
        for tag in ("h1", "h2", "h3", "h4", "li", "ol", "pre", "table", "tr", "ul"):
            there, here = (len(re.findall(rf"<{tag}[ >]", html)) for html in (expected, built))
            if there != here:
                found.append(
                    f"{name} has {here} <{tag}>, GitHub would show {there}: write Markdown that both understand"
                )
    return found


def _parsed(path: Path) -> _Page:
    seen = _Page()
    seen.feed(path.read_text(encoding="utf-8"))
    return seen


def _is_remote(url: str) -> bool:
    return url.startswith("//") or urlsplit(url).scheme in ("http", "https")


def main() -> None:
    """Build and check the site."""
    stage(ROOT, STAGED)
    # The theme's notice about MkDocs 2 concerns versions that pyproject.toml does not allow.
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--clean"],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    found = problems(SITE) + differences(STAGED, SITE)
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    if found:
        sys.exit(f"{len(found)} problems in the site")
    print(f"site/index.html: {len(list(SITE.rglob('*.html')))} pages, all links lead to a page and an anchor")


if __name__ == "__main__":
    main()
