"""Thoughts that a model wrote into its answer, told apart from the answer."""

_OPEN = "<think>"
_CLOSE = "</think>"


class ThoughtSplitter:
    """Takes an answer piece by piece. `<think>…</think>` at its very start is reasoning; later ones are text.

    Line breaks next to the tags are neither's.
    """

    def __init__(self) -> None:
        self._state = "start"
        self._thought_of_something = False
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """(text, reasoning) that are certain now; what may be part of a tag is held back."""
        if self._state == "answer":
            return text, ""
        self._held += text
        if self._state == "start":
            return self._at_start()
        if self._state == "thinking":
            return self._thinking()
        return self._after()

    def flush(self) -> tuple[str, str]:
        """What was held back when the answer ended."""
        held, self._held = self._held, ""
        return ("", held) if self._state == "thinking" else ("" if self._state == "after" else held, "")

    def _at_start(self) -> tuple[str, str]:
        seen = self._held.lstrip()
        if seen.startswith(_OPEN):
            self._state, self._held = "thinking", seen[len(_OPEN) :]
            return self._thinking()
        if _OPEN.startswith(seen):
            return "", ""
        return self._answer(self._held), ""

    def _thinking(self) -> tuple[str, str]:
        if not self._thought_of_something:
            self._held = self._held.lstrip("\n")
        thought, closed, rest = self._held.partition(_CLOSE)
        if closed:
            self._state, self._held = "after", rest
            return self._after()[0], thought.rstrip("\n")
        tag = next(n for n in range(len(_CLOSE) - 1, -1, -1) if self._held.endswith(_CLOSE[:n]))
        certain = self._held[: len(self._held) - tag].rstrip("\n")
        self._held = self._held[len(certain) :]
        self._thought_of_something = self._thought_of_something or bool(certain)
        return "", certain

    def _after(self) -> tuple[str, str]:
        rest = self._held.lstrip("\n")
        return (self._answer(rest), "") if rest else ("", "")

    def _answer(self, text: str) -> str:
        self._state, self._held = "answer", ""
        return text
