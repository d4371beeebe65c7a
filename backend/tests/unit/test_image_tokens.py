"""Images count before the model has counted them."""

from recollect.domain.images import IMAGE_TOKENS, image_tokens
from recollect.domain.model import JsonObject

IMAGE = {"type": "image_url", "image_url": {"url": "vault:images/ab.png"}}
TEXT = {"type": "text", "text": "what is this?"}


def test_every_image_of_every_message_counts() -> None:
    messages: list[JsonObject] = [
        {"role": "user", "content": [TEXT, IMAGE, IMAGE]},
        {"role": "user", "content": [IMAGE]},
    ]
    assert image_tokens(messages) == 3 * IMAGE_TOKENS


def test_text_alone_has_none() -> None:
    messages: list[JsonObject] = [{"content": "hi"}, {"content": [TEXT]}, {"content": None}, {}]
    assert image_tokens(messages) == 0
