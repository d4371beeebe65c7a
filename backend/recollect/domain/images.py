"""Images in content parts: files of the vault that are named by their content."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recollect.domain.model import JsonObject
from recollect.domain.paths import owner_folder
from recollect.errors import InvalidInput

SCHEME = "vault:"
_BASE64_AT_ONCE = 1024 * 1024
"""Characters: no other thread runs while a piece is decoded."""
GONE = "(an image that is no longer there)"
_KINDS = "png|jpeg|jpg|gif|webp"
_inline = re.compile(rf"data:image/({_KINDS});base64,")
_name = re.compile(rf"[0-9a-f]{{32}}\.(?:{_KINDS})").fullmatch
WORDS = frozenset({"text", "refusal", "reasoning", "thinking"})
"""Fields of a part that hold what was said."""
_has_scheme = re.compile(
    r"[\x00-\x20\s\ufeff]{1000}|[\x00-\x20\s\ufeff]*[a-z][a-z0-9+.\-\t\r\n]{0,1000}:[^ ]", re.IGNORECASE
).match
"""Blanks of any script before it and line breaks in it are left out by some parsers. Bounded: the string may have megabytes."""
_references = re.compile(rf"vault:images/([0-9a-f]{{32}}\.(?:{_KINDS}))(?![a-z0-9])")


@dataclass(slots=True)
class TakenOut:
    """Content parts with references in place of images, and what they refer to."""

    parts: list[JsonObject]
    images: dict[str, bytes] = field(default_factory=dict)
    """Images that came with the parts, by name."""
    referred: dict[str, str] = field(default_factory=dict)
    """Images that have to be in the vault already: by name, their place in the request."""


def take_out(parts: Sequence[JsonObject], where: str = "parts") -> TakenOut:
    """Put a reference in place of every image of a known kind that is in the parts as a data URL.

    All else stays as it is: addresses, other kinds, and data URLs with parameters, since only the plain form can be
    made again byte for byte. Raises InvalidInput, which names the part, for what is no image.
    """
    taken = TakenOut([])
    for number, part in enumerate(parts):
        place = f"{where}[{number}]"
        url = image_url(part, place)
        if url is None:
            taken.parts.append(part)
        elif url.startswith(SCHEME):
            taken.referred[_referred_name(url, place)] = place
            taken.parts.append(part)
        elif found := _inline.match(url):
            content = _decoded(url[found.end() :], place)
            name = image_name(content, found[1])
            taken.images[name] = content
            taken.parts.append(with_url(part, reference(name)))
        else:
            taken.parts.append(part)
    return taken


def links(parts: Sequence[JsonObject], where: str = "parts") -> Iterator[tuple[str, str]]:
    """The place of each string that a backend may take for a link and follow, and that string.

    That is whatever stands where a URL belongs (`image_url`, `url`, `fileUri`, …) or has a scheme, anywhere in a part. Words
    are not followed, and what is in the parts or in the vault needs no following.
    """
    for number, part in enumerate(parts):
        if part.get("type") != "context":  # Quoted, and never sent as a part.
            yield from _links(part, f"{where}[{number}]")


def _links(value: object, place: str, *, is_url: bool = False) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        is_here = value[:5].lower() == "data:" or value.startswith(SCHEME)
        if not is_here and (is_url or _has_scheme(value)):
            yield place, value
    elif isinstance(value, dict):
        for name, item in value.items():
            if is_url and name == "url":
                yield from _links(item, place, is_url=True)
            elif name not in WORDS or not isinstance(item, str):
                yield from _links(item, f"{place}.{name[:100]}", is_url=name.lower().endswith(("url", "uri")))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _links(item, f"{place}[{number}]")


def image_url(part: JsonObject, place: str = "parts") -> str | None:
    """Where the image of a part is; None for a part that shows none."""
    if part.get("type") != "image_url":
        return None
    url = _url(part)
    if not isinstance(url, str):
        raise InvalidInput(f"{place}: image_url must hold a url, which is text", field=place)
    return url


def with_url(part: JsonObject, url: str) -> JsonObject:
    """The same part, its other fields kept, with another address."""
    image = part.get("image_url")
    return {**part, "image_url": {**image, "url": url} if isinstance(image, dict) else url}


def image_name(content: bytes, kind: str) -> str:
    return f"{hashlib.sha256(content).hexdigest()[:32]}.{kind}"


def is_image_name(name: str) -> bool:
    """Whether a file may be one of ours: nothing else ever becomes part of a path."""
    return _name(name) is not None


def is_content_of(name: str, content: bytes) -> bool:
    """Whether this is what the name was made of: a file that was damaged or exchanged is not."""
    return image_name(content, name.rpartition(".")[2]) == name


def media_type(name: str) -> str:
    """The Content-Type for browsers: always an image type, whatever the bytes contain."""
    kind = name.rpartition(".")[2]
    return f"image/{'jpeg' if kind == 'jpg' else kind}"


def reference(name: str) -> str:
    return f"{SCHEME}images/{name}"


def referred_image(url: str) -> str | None:
    """The name of the image that a reference means; None for what is no reference, or a broken one."""
    name = url.removeprefix(f"{SCHEME}images/")
    return name if name != url and is_image_name(name) else None


def references_in(text: str) -> set[str]:
    """The names of all images that a text refers to, wherever in it."""
    return set(_references.findall(text))


def data_url(name: str, content: bytes) -> str:
    """The data URL that the image was sent as, byte for byte."""
    return f"data:image/{name.rpartition('.')[2]};base64,{base64.b64encode(content).decode()}"


def images_folder(space: str, user_id: str) -> str:
    """Where a user's images lie in the vault."""
    return f"{owner_folder(space, user_id)}/images"


def image_parts(messages: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Every part of a prompt that refers to an image of the vault."""
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if _is_reference(part):
                yield part


def put_back(messages: Sequence[JsonObject], urls: Mapping[str, str]) -> list[JsonObject]:
    """The messages as a backend gets them: data URLs (`urls`, by name) for references, words for what is gone."""
    return [_with_images(message, urls) for message in messages]


def replaced_texts(value: Any, texts: Mapping[str, str]) -> Any:
    """A JSON value in which every text that is a key of `texts` has become its value. Nothing is changed in place."""
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, dict):
        return {key: replaced_texts(item, texts) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [replaced_texts(item, texts) for item in value]
    return value


def _is_reference(part: object) -> bool:
    if not isinstance(part, dict) or part.get("type") != "image_url":
        return False
    url = _url(part)
    return isinstance(url, str) and url.startswith(SCHEME)


def _url(part: JsonObject, name: str = "image_url") -> object:
    linked = part.get(name)
    return linked.get("url") if isinstance(linked, dict) else linked


def _with_images(message: JsonObject, urls: Mapping[str, str]) -> JsonObject:
    content = message.get("content")
    if not isinstance(content, list) or not any(map(_is_reference, content)):
        return message
    return {**message, "content": [_shown(part, urls) if _is_reference(part) else part for part in content]}


def _shown(part: JsonObject, urls: Mapping[str, str]) -> JsonObject:
    name = referred_image(image_url(part) or "")
    if name is None or name not in urls:
        return {"type": "text", "text": GONE}
    return with_url(part, urls[name])


def _referred_name(url: str, place: str) -> str:
    name = referred_image(url)
    if name is None:
        raise InvalidInput(f"{place}: {url[:80]!r} names no image of the vault", field=place)
    return name


def _decoded(text: str, place: str) -> bytes:
    try:
        pieces = (text[start : start + _BASE64_AT_ONCE] for start in range(0, len(text), _BASE64_AT_ONCE))
        content = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{place}: the image is not valid base64", field=place) from error
    if not content:
        raise InvalidInput(f"{place}: the image is empty", field=place)
    if base64.b64encode(content).decode() != text:
        raise InvalidInput(f"{place}: the image is not valid base64: it ends in stray bits", field=place)
    return content


IMAGE_TOKENS = 1024
"""Models make 256 to 1,600 of a photo. Too high a guess trims the prompt; too low a guess gets it refused."""


def image_tokens(messages: Sequence[JsonObject]) -> int:
    """A guess: what an image is worth depends on the model, and none tells before it was asked."""
    contents = (message.get("content") for message in messages)
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return IMAGE_TOKENS * len([part for part in parts if part.get("type") == "image_url"])
