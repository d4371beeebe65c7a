"""How many tokens the images of a prompt are, where nobody has counted them yet."""

from collections.abc import Sequence

from recollect.memory.model import JsonObject

IMAGE_TOKENS = 1024
"""Models make 256 to 1,600 of a photo. What is thought too long is cut, what is too long is refused."""


def image_tokens(messages: Sequence[JsonObject]) -> int:
    """A guess: what an image is worth depends on the model, and none tells before it was asked."""
    contents = (message.get("content") for message in messages)
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return IMAGE_TOKENS * len([part for part in parts if part.get("type") == "image_url"])
