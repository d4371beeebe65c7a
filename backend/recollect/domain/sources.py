"""Context sources: files, links and results that go with a message, quoted in the context block of its turn.

A file or a result is a part of its turn, with its text: `{"type": "file", "file": {"filename", "text", …}}` or
`{"type": "context", "context": {"title", "text", …}}`. The prompt shows its name in the message and quotes the text in
the block. A link is in the words alone; the block keeps what was fetched.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from recollect.domain.context_lines import quoted_line
from recollect.domain.history_matching import text_parts
from recollect.domain.images import image_url
from recollect.domain.llm import without_control_tokens
from recollect.domain.model import JsonObject, NewTurn, Turn

FILES, IMAGES, LINKS, RESULTS = KINDS = ("files", "images", "links", "results")
HEADING = "Given with the messages (quotations):"
MOST_CHARS = 100_000
"""Of a source's text that are kept."""
MOST_SOURCES = 20
MOST_LINKS = 3
LONGEST_NAME = 200
SOURCE_LINE = '  "'
"""How a line of a source begins in a block."""
_url = re.compile(r"(?i:https?)://[^\s<>\"'`\x7f-\U0010ffff]{3,2000}")
"""Of ASCII: what else a link holds is escaped, and what follows it in other scripts is no part of it."""
_control = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Source:
    """What a source says, or why it says nothing."""

    kind: str
    """`file`, `link` or `result`."""
    name: str
    text: str = ""
    origin: str = ""
    pages: int | None = None
    length: int = 0
    """Characters of the whole text; more than `text` has if that was cut."""
    error: str | None = None

    @property
    def id(self) -> str:
        """Names it among what a block holds: the same words under the same name are one source."""
        said = json.dumps([self.kind, self.name, self.origin, self.text, self.error]).encode()
        return f"source:{hashlib.sha256(said).hexdigest()[:16]}"

    @property
    def label(self) -> str:
        """How the message shows it, such as [file: report.pdf, 3 pages]."""
        return f"[{self.kind}: {_one_line(self.name)}{self._size()}]"

    def cut_to(self, characters: int) -> "Source":
        return replace(self, text=self.text[: max(0, characters)])

    def lines(self) -> list[str]:
        """Every line is a quotation, or a heading with names as quotations: none of it can end the block."""
        head = f"- {self.kind} {quoted_line(self.name)}"
        head += f" from {quoted_line(self.origin)}" if self.origin else ""
        if self.error:
            return [f"{head} could not be used: {_one_line(self.error)}"]
        whole = max(self.length, len(self.text))
        cut = f", the first {len(self.text)} of {whole} characters" if len(self.text) < whole else ""
        said = (line.expandtabs(4).rstrip() for line in self.text.splitlines())
        return [f"{head}{self._size()}{cut}:", *(f"  {quoted_line(line)}" for line in said if line.strip())]

    def as_receipt(self, tokens: int) -> JsonObject:
        told: JsonObject = {"kind": self.kind, "name": self.name, "characters": len(self.text)}
        told |= {"tokens": tokens, "cut": len(self.text) < self.length, "error": self.error}
        return told | ({"origin": self.origin} if self.origin else {})

    def _size(self) -> str:
        return "" if self.pages is None else f", {self.pages} page{'' if self.pages == 1 else 's'}"


def render_sources(sources: Sequence[Source]) -> str:
    """The last section of a block; nothing for none."""
    return "\n".join([HEADING, *(line for source in sources for line in source.lines())]) if sources else ""


def without_sources(block: str) -> str:
    """A block without that section."""
    return block.partition(f"\n{HEADING}\n")[0]


def links_in(block: str) -> list[Source]:
    """The links of a block as they were frozen."""
    found: list[Source] = []
    _, _, section = block.partition(f"\n{HEADING}\n")
    for line in section.split("\n"):
        if line.startswith(SOURCE_LINE):
            if found:
                found[-1] = replace(found[-1], text=f"{found[-1].text}{json.loads(line)}\n")
        elif line.startswith("- "):
            kind, _, rest = line[2:].partition(" ")
            name, end = _decoder.raw_decode(rest)
            whole = re.search(r" of (\d+) characters:$", rest[end:])
            _, is_error, error = rest[end:].partition(" could not be used: ")
            length = int(whole[1]) if whole else 0
            found.append(Source(kind, name, length=length, error=error if is_error else None))
    return [replace(each, text=each.text.rstrip("\n")) for each in found if each.kind == "link"]


def is_source(part: JsonObject) -> bool:
    """Whether a part is a source that was taken in: it is never sent as it is."""
    kind = str(part.get("type"))
    return kind in ("file", "context") and isinstance(_fields(part, kind).get("text"), str)


def sources_of(turn: Turn | NewTurn) -> Iterator[Source]:
    """Those that the turn's parts hold, without images."""
    for part in turn.parts or () if turn.role == "user" else ():
        if is_source(part):
            yield source_of(part)


def source_of(part: JsonObject) -> Source:
    if part["type"] == "context":
        given = _fields(part, "context")
        text, origin = str(given["text"]), str(given.get("origin") or "")
        return Source("result", str(given.get("title") or "result"), text, origin, None, len(text))
    file = _fields(part, "file")
    text, pages, length = str(file["text"]), file.get("pages"), file.get("characters")
    length = length if isinstance(length, int) else len(text)
    return Source(
        "file",
        str(file.get("filename") or "file"),
        text,
        "",
        pages if isinstance(pages, int) else None,
        length,
    )


def file_part(source: Source) -> JsonObject:
    """A file as its turn keeps it."""
    file: JsonObject = {"filename": source.name, "text": source.text}
    file |= {} if source.pages is None else {"pages": source.pages}
    return {
        "type": "file",
        "file": file | ({"characters": source.length} if source.length > len(source.text) else {}),
    }


def shown_content(turn: Turn) -> str | list[JsonObject]:
    """A user's message in a prompt: names in place of sources. What is text alone is one text then."""
    if not turn.parts or not any(map(is_source, turn.parts)):
        return turn.parts or turn.content
    shown: list[JsonObject] = [
        {"type": "text", "text": source_of(part).label} if is_source(part) else part for part in turn.parts
    ]
    texts = text_parts(shown)
    return "\n".join(texts) if len(texts) == len(shown) else shown


def image_receipts(turn: Turn) -> list[JsonObject]:
    """The images of a turn, which are sent as they are: by their reference or address."""
    urls = [image_url(part) or "" for part in turn.parts or () if part.get("type") == "image_url"]
    return [{"kind": "image", "name": url.partition(",")[0][:LONGEST_NAME], "error": None} for url in urls]


def urls_in(text: str) -> list[str]:
    """The first links of a text, each once, without the punctuation after them."""
    found = (each[0].rstrip(".,;:!?*_~]}") for each in _url.finditer(text))
    ends = (url if "(" in url else url.rstrip(".,;:!?)") for url in found)
    return list(dict.fromkeys(ends))[:MOST_LINKS]


def words_of_person(turn: Turn) -> str:
    """What was typed: not what a caller supplied beside it."""
    return "\n".join(text_parts(turn.parts)) if turn.parts else turn.content


def without_labels(turn: Turn) -> Turn:
    """With the words of the person alone: the names of what came along may be a stranger's words."""
    own = turn.content
    for source in reversed(list(sources_of(turn))):
        own = own.removesuffix(source.label).removesuffix("\n")
    return turn if own == turn.content else replace(turn, content=own)


def bounded(text: str) -> str:
    """As much of a text as is kept, without characters that can't be stored or shown."""
    return _control.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))[:MOST_CHARS]


def clean_name(name: str) -> str:
    """The last part of a file's name, on one line."""
    return _one_line(re.split(r"[/\\]", name.strip())[-1])[:LONGEST_NAME] or "file"


def _one_line(text: str) -> str:
    kept = "".join(c for c in text if c.isprintable() and c not in '"[]')
    return without_control_tokens(" ".join(kept.split())[:LONGEST_NAME])


def _fields(part: JsonObject, name: str) -> JsonObject:
    given = part.get(name)
    return given if isinstance(given, dict) else {}
