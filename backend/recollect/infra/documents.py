"""Texts of files and pages: text and Markdown as they are, PDF and HTML by a process of their own.

`python -m recollect.infra.documents pdf` reads a document from standard input and prints JSON: `{"text", "pages"}` or
`{"error"}`. What a stranger wrote may keep a parser busy for ever, or fill the memory: the process has limits for both.
"""

import asyncio
import contextlib
import json
import logging
import resource
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from io import BytesIO
from typing import Any

from recollect.domain.sources import MOST_CHARS, bounded

SECONDS = 20.0
MOST_PAGES = 500
_MEMORY = 1024 * 1024 * 1024
_AT_ONCE = 2
"""Parsers that run at the same time."""
ALLOWED = "text, Markdown, HTML and PDF files can be read"


class UnreadableError(Exception):
    """Why a document can't be read, in words that follow its name."""


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a file, `length` characters of which were found."""

    text: str
    length: int
    pages: int | None = None


class DocumentReader:
    """Reads documents off the event loop, a few at a time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def read(self, content: bytes, media_type: str = "") -> Document:
        """Raises UnreadableError."""
        kind = kind_of(content, media_type)
        if kind == "text":
            return await asyncio.to_thread(_decoded, content)
        async with self._free:
            found = await self._parsed(kind, content)
        if error := found.get("error"):
            raise UnreadableError(str(error))
        text = bounded(str(found["text"]))
        return Document(text, max(len(text), int(found["length"])), found.get("pages"))

    async def _parsed(self, kind: str, content: bytes) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "recollect.infra.documents", kind,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(self._seconds):
                told, _ = await process.communicate(content)
            found: dict[str, Any] = json.loads(told)
        except TimeoutError:
            raise UnreadableError(f"took longer than {self._seconds:g} s to read") from None
        except ValueError:
            raise UnreadableError("is damaged, or too much to read") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        return found


def kind_of(content: bytes, media_type: str) -> str:
    """By the first bytes where these tell, else by what the sender says."""
    if content[:1024].lstrip().startswith(b"%PDF-") or media_type == "application/pdf":
        return "pdf"
    return "html" if media_type in ("text/html", "application/xhtml+xml") else "text"


def _decoded(content: bytes) -> Document:
    try:
        text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableError(f"is no UTF-8 text; {ALLOWED}") from None
    if "\x00" in text:
        raise UnreadableError(f"is no text; {ALLOWED}")
    if not text.strip():
        raise UnreadableError("is empty")
    return Document(bounded(text), len(text))


def main() -> None:
    for limit, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, int(SECONDS))):
        # A system may know no such limit; time is limited anyway.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))
    content = sys.stdin.buffer.read()
    try:
        found = _pdf(content) if sys.argv[1] == "pdf" else _html(content)
    except UnreadableError as error:
        found = {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - a parser may raise anything at what it can't parse
        found = {"error": f"is damaged ({type(error).__name__})"}
    sys.stdout.write(json.dumps(found))


def _pdf(content: bytes) -> dict[str, Any]:
    from pypdf import PdfReader  # In its own process alone.

    logging.disable()
    reader = PdfReader(BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableError("is encrypted: remove its password first")
    pages = len(reader.pages)
    if pages > MOST_PAGES:
        raise UnreadableError(f"has {pages} pages; at most {MOST_PAGES} can be read")
    texts: list[str] = []
    length = 0
    for page in reader.pages:
        text = page.extract_text().strip()
        length += len(text)
        if length - len(text) < MOST_CHARS:
            texts.append(text)
    if not length:
        raise UnreadableError("has no text layer: it may be a scan, whose pages can be sent as images")
    return {"text": "\n\n".join(texts), "pages": pages, "length": length}


def _html(content: bytes) -> dict[str, Any]:
    page = _Page()
    page.feed(content.decode("utf-8", "replace"))
    page.close()
    lines = (" ".join(line.split()) for line in "".join(page.said).splitlines())
    text = "\n".join(line for line in lines if line)
    if not text:
        raise UnreadableError("holds no text")
    return {"text": text[:MOST_CHARS], "length": len(text)}


class _Page(HTMLParser):
    """What a page says, each block on a line of its own."""

    _silent = frozenset(["script", "style", "noscript", "template", "svg", "iframe", "object"])
    _inline = frozenset(
        [
            "a",
            "abbr",
            "b",
            "code",
            "em",
            "i",
            "kbd",
            "mark",
            "q",
            "s",
            "small",
            "span",
            "strong",
            "sub",
            "sup",
            "u",
        ]
    )

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self._within: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._within is None and tag in self._silent:
            self._within = tag
        elif tag not in self._inline:
            self.said.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if self._within == tag:
            self._within = None
        elif tag not in self._inline:
            self.said.append("\n")

    def handle_data(self, data: str) -> None:
        if self._within is None:
            self.said.append(data)


if __name__ == "__main__":
    main()
