"""The web page's files, as the server hands them out. In this process, without a socket."""

import re
from pathlib import Path

import pytest

from recollect.entrypoints.http.routes.web import FOLDER
from tests.http_client import Home

FIRST_LOAD_BYTES = 200_000
IMPORTED = re.compile(r'(?:from|import)\s*"(\.{1,2}/[^"]+\.js)"')


async def test_the_page_allows_its_own_files_and_nothing_else(home: Home) -> None:
    answer = await home.client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert {"default-src 'self'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"} <= set(
        policy.split("; ")
    )
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_the_document_has_no_script_or_style_of_its_own(home: Home) -> None:
    text = (await home.client.get("/")).text
    assert all(re.search(r'src="web/', tag) for tag in re.findall(r"<script[^>]*>", text))
    assert not re.search(r"<style|\son[a-z]+=|\sstyle=", text)
    assert not re.search(r"https?://", text)


async def test_a_file_that_is_known_already_is_not_sent_again(home: Home) -> None:
    answer = await home.client.get("/web/app.js")
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    again = await home.client.get("/web/app.js", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = await home.client.head("/web/app.js")
    assert (head.status_code, head.content) == (200, b"")


async def test_a_file_is_packed_for_those_who_unpack_it(home: Home) -> None:
    plain = await home.client.get("/web/app.js", headers={"Accept-Encoding": "identity"})
    packed = await home.client.get("/web/app.js", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content)
    assert packed.content == plain.content


@pytest.mark.parametrize(
    "path",
    ["..%2fapp.py", "%2e%2e/app.py", "../../README.md", "/etc/passwd", "nothing.js", "", "chat", "a%2Fb"],
)
async def test_no_way_leads_out_of_the_folder(home: Home, path: str) -> None:
    answer = await home.client.get(f"/web/{path}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


def test_every_import_leads_to_a_file() -> None:
    for script in FOLDER.rglob("*.js"):
        for target in IMPORTED.findall(script.read_text(encoding="utf-8")):
            assert (script.parent / target).is_file(), f"{script.name} imports {target}"


@pytest.mark.parametrize("page", ["chat", "memory", "prompt", "health"])
def test_a_first_load_is_small(page: str) -> None:
    files = _with_imports({FOLDER / "app.js", FOLDER / page / "page.js"})
    files |= {FOLDER / name for name in ("index.html", "styles.css", "pages.css", "theme.js", "icon.svg")}
    assert sum(file.stat().st_size for file in files) < FIRST_LOAD_BYTES


def test_no_text_becomes_markup() -> None:
    own = [script for script in FOLDER.rglob("*.js") if "vendor" not in script.parts]
    risky = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")
    assert own
    assert not [script.name for script in own if risky.search(script.read_text(encoding="utf-8"))]


def test_vendored_libraries_name_their_version_and_licence() -> None:
    listed = (FOLDER / "vendor" / "README.md").read_text(encoding="utf-8")
    for file in (FOLDER / "vendor").glob("*.js"):
        assert f"`{file.name}`" in listed
    for folder in (FOLDER / "vendor").glob("*/"):
        assert f"`{folder.name}/LICENSE`" in listed
    for licence in set(re.findall(r"`((?:\w+/|\w+\.)LICENSE)`", listed)):
        assert (FOLDER / "vendor" / licence).is_file()


async def test_a_stylesheet_finds_its_fonts_and_they_are_named_as_such(home: Home) -> None:
    sheet = (await home.client.get("/web/vendor/katex/katex.css")).text
    fonts = set(re.findall(r"url\(([^)]+)\)", sheet))
    held = {f"fonts/{file.name}" for file in (FOLDER / "vendor" / "katex" / "fonts").iterdir()}
    assert fonts == held
    for font in fonts:
        answer = await home.client.get(f"/web/vendor/katex/{font}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "font/woff2")


def _with_imports(scripts: set[Path]) -> set[Path]:
    found: set[Path] = set()
    waiting = {script.resolve() for script in scripts}
    while waiting:
        script = waiting.pop()
        found.add(script)
        targets = IMPORTED.findall(script.read_text(encoding="utf-8"))
        waiting |= {(script.parent / target).resolve() for target in targets} - found
    return found
