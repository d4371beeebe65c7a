"""Images in content parts: what is taken out, what a reference means, and what comes back."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.images import (
    IMAGE_TOKENS,
    data_url,
    image_name,
    image_tokens,
    is_image_name,
    put_back,
    referred_image,
    take_out,
)
from recollect.domain.model import JsonObject
from recollect.errors import InvalidInput

PIXEL = base64.b64decode("R0lGODlhAQABAAAAACwAAAAAAQABAAA=")
URL = data_url(image_name(PIXEL, "gif"), PIXEL)
NAME = image_name(PIXEL, "gif")
TEXT = {"type": "text", "text": "What is this?"}


def image(url: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **fields}}


@given(content=st.binary(min_size=1), kind=st.sampled_from(["png", "jpeg", "jpg", "gif", "webp"]))
def test_an_image_comes_back_as_the_data_url_that_it_was(content: bytes, kind: str) -> None:
    url = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    taken = take_out([image(url)])
    ((name, kept),) = taken.images.items()
    assert (kept, is_image_name(name)) == (content, True)
    message = {"role": "user", "content": taken.parts}
    assert put_back([message], {name: data_url(name, kept)}) == [{"role": "user", "content": [image(url)]}]


@pytest.mark.parametrize(
    "part",
    [
        image("data:image/png;base64,not base64!"),
        image("data:image/png;base64,AAA"),
        image("data:image/png;base64,AB=="),
        image("data:image/png;base64,"),
        image(17),
        image(None),
        {"type": "image_url"},
        {"type": "image_url", "image_url": []},
        image("vault:images/../../../../etc/passwd"),
        image("vault:images/" + "A" * 32 + ".png"),
        image("vault:"),
    ],
)
def test_what_is_no_image_is_refused_and_named(part: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        take_out([TEXT, part])
    assert refused.value.field == "parts[1]"
    assert refused.value.message.startswith("parts[1]: ")


@pytest.mark.parametrize("name", ["", "a.png", f"../{NAME}", f"{NAME}.md", NAME.upper(), f"{NAME}\n"])
def test_no_other_name_ever_becomes_part_of_a_path(name: str) -> None:
    assert not is_image_name(name)
    assert referred_image(f"vault:images/{name}") is None


def test_every_image_of_every_message_counts_before_the_model_has_counted_it() -> None:
    shown: list[JsonObject] = [
        {"role": "user", "content": [TEXT, image(URL), image(URL)]},
        {"role": "user", "content": [image(URL)]},
        *({"content": nothing} for nothing in ("hi", [TEXT], None)),
        {},
    ]
    assert image_tokens(shown) == 3 * IMAGE_TOKENS
