"""Whose an entry is: a user's or an agent's, named by their folder in the vault."""


def is_agents(owner: str) -> bool:
    return owner.split("/")[1:2] == ["agents"]


def owner_words(owner: str) -> str:
    """The owner within the space, as entry files name them: `users/ann`."""
    return owner.partition("/")[2]
