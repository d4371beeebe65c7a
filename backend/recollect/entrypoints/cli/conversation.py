"""A conversation in the terminal: what is asked of the server, and what is shown of its answers."""

import asyncio
import os
import sys
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from recollect.entrypoints.cli.options import path_of
from recollect.entrypoints.cli.render import tame
from recollect.errors import NotFound, RecollectError

if TYPE_CHECKING:
    from recollect.entrypoints.cli.client import HomeClient

Json = dict[str, Any]
TASTE = (
    "This is the bundled model, a demonstration: its answers are not remembered. For a real one start Ollama, LM Studio or "
    "llama.cpp on this machine, or set RECOLLECT_LLM__BASE_URL (and RECOLLECT_LLM__MODEL) and start again."
)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the options say; None leaves it to the thread and the settings."""

    user: str | None = None
    preset: str | None = None
    model: str | None = None
    backend: str | None = None
    memory: bool = True
    incognito: bool = False


class Screen:
    """Answers go to standard output, all else to standard error; reasoning is shown to people alone, dimmed."""

    def __init__(self, *, is_dialogue: bool) -> None:
        self._is_dialogue = is_dialogue
        self._is_terminal = sys.stdout.isatty()
        self._colours = self._is_terminal and not os.environ.get("NO_COLOR")
        self._thinking = False
        self._line_is_open = False

    def reasoning(self, text: str) -> None:
        if self._is_dialogue:
            self._write(f"\x1b[2m{tame(text)}\x1b[22m" if self._colours else tame(text))
            self._thinking = True

    def answer(self, text: str) -> None:
        if self._thinking:
            self._write("\n\n")
            self._thinking = False
        self._write(tame(text) if self._is_terminal else text)

    def end(self) -> None:
        """The answer is over: what follows begins on a line of its own."""
        if self._line_is_open:
            self._write("\n")
        self._thinking = self._line_is_open = False

    def show(self, text: str) -> None:
        self._write(f"{tame(text)}\n")
        self._line_is_open = False

    def note(self, text: str) -> None:
        """About the conversation, not of it."""
        text = tame(text)
        sys.stderr.write(f"\x1b[2m{text}\x1b[22m\n" if self._colours and sys.stderr.isatty() else f"{text}\n")
        sys.stderr.flush()

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._line_is_open = not text.endswith("\n")


class Conversation:
    """One thread after another with a home. A thread is opened by the first message that is said in it."""

    def __init__(self, client: "HomeClient", screen: Screen, wishes: Wishes, thread: str | None) -> None:
        self._client = client
        self._screen = screen
        self._wishes = wishes
        self.thread = thread
        self.last: Json | None = None
        """The last answer as the server told it."""
        self._unopened = wishes.incognito
        self._incognito: list[str] = []
        self._answering: str | None = None
        self._accepted = asyncio.Event()

    async def say(self, text: str, *, show: bool = True) -> Json:
        """One turn; its answer is shown as it comes. Raises RecollectError, in words, when there is none."""
        answer: Json | None = None
        self._accepted.clear()
        thread = await self._opened_thread()
        try:
            async with aclosing(self._client.events(_path(thread, "messages"), self._body(text))) as events:
                async for name, data in events:
                    self._accepted.set()
                    answer = self._follow(name, data, show=show) or answer
        finally:
            self._accepted.set()
            if show:
                self._screen.end()
        if answer is None:
            raise RecollectError("the answer broke off before its end")
        self._tell_who_answers(answer)
        return answer

    def _follow(self, name: str, data: Json, *, show: bool) -> Json | None:
        """The whole answer, at its end."""
        if name in ("done", "error"):
            self.last = data
        if name == "error":
            raise RecollectError(data["error"]["message"])
        if show and name == "delta":
            self._screen.answer(data["text"])
        if show and name == "reasoning":
            self._screen.reasoning(data["text"])
        return self.last if name == "done" else None

    async def stop(self) -> None:
        """Stop the answer that is on its way; what came of it is kept."""
        await self._accepted.wait()
        if self.thread is not None:
            await self._client.call("POST", _path(self.thread, "cancel"), json=self._named())

    def tell(self, text: str) -> None:
        """To the person, beside the answer that is on its way."""
        self._screen.end()
        self._screen.note(text)

    def leave_thread(self) -> None:
        """What is said next opens a new one."""
        self.thread, self.last, self._unopened = None, None, True

    async def forget_incognito(self) -> None:
        """Incognito threads end with the conversation, and leave nothing."""
        for thread in self._incognito:
            await self._client.call("DELETE", _path(thread), params=self._named())

    async def show_prompt(self) -> None:
        """The prompt of the last turn, and how many of its tokens were cached."""
        found = await self._prompt()
        for number, message in enumerate(found["messages"]):
            mark = " (new)" if number >= found["new_from"] else ""
            self._screen.show(f"--- {message['role']}{mark}\n{_words(message)}")
        cached, evaluated = found["cached_tokens"], found["evaluated_tokens"]
        told = [
            f"{cached} tokens cached" if cached is not None else "",
            f"{evaluated} evaluated" if evaluated is not None else "",
        ]
        self._screen.note(
            ", ".join(filter(None, told)) or "the model's server did not tell what it had cached"
        )

    async def show_memories(self) -> None:
        """Which memories were used for the last turn, and where they come from."""
        recall = ((self.last or {}).get("receipt") or {}).get("recall") or {}
        used = recall.get("memories") or []
        if not used:
            self._screen.show(f"None were used{': ' + recall['left_out'] if recall.get('left_out') else '.'}")
            return
        found = await self._prompt()
        quoted = [
            line
            for message in found["messages"][found["new_from"] :]
            for line in _words(message).split("\n")
            if message["role"] == "user" and line.startswith("- ")
        ]
        for number, memory in enumerate(used):
            text = quoted[number] if number < len(quoted) else f"- {memory['id']}"
            self._screen.show(f"{text}  (thread {memory['thread_id']}, score {memory['score']:.2f})")

    async def _prompt(self) -> Json:
        if self.last is None or self.thread is None:
            raise NotFound("nothing was said in this thread yet")
        turn = self.last["assistant_turn"]["turn_id"]
        found: Json = await self._client.call(
            "GET", _path(self.thread, "turns", turn, "prompt"), params=self._named()
        )
        return found

    async def _opened_thread(self) -> str:
        if self.thread is not None and not self._unopened:
            return self.thread
        body = {**self._named(), "incognito": self._wishes.incognito}
        if self.thread is not None:
            body["thread_id"] = self.thread
        opened = await self._client.call("POST", "/api/v1/threads", json=body)
        self.thread, self._unopened = str(opened["thread_id"]), False
        # Another user may have a thread of that id.
        self._wishes = replace(self._wishes, user=str(opened["user_id"]))
        if self._wishes.incognito:
            self._incognito.append(self.thread)
        return self.thread

    def _body(self, text: str) -> Json:
        wishes = self._wishes
        given = {"preset": wishes.preset, "model": wishes.model, "backend": wishes.backend}
        named = {name: value for name, value in given.items() if value is not None}
        return {"content": text, "stream": True, "memory": wishes.memory, **named, **self._named()}

    def _named(self) -> dict[str, str]:
        return {} if self._wishes.user is None else {"user_id": self._wishes.user}

    def _tell_who_answers(self, answer: Json) -> None:
        receipt = answer.get("receipt") or {}
        turn = answer["assistant_turn"]
        if turn["status"] != "complete":
            self._screen.note(f"({turn['status']}: {receipt.get('error') or 'it was stopped'})")
        model = PurePath(turn.get("model") or receipt.get("model") or "").name
        if not model or self._answering == model:
            return
        self._answering = model
        self._screen.note(f"[{model}, backend {receipt.get('backend')}]")
        if receipt.get("label"):
            self._screen.note(TASTE)


def _path(thread: str, *more: str) -> str:
    return "/".join([path_of("/api/v1/threads", thread), *more])


def _words(message: Json) -> str:
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(_part_in_words(part) for part in content)
    calls = [
        f"(calls {call['function']['name']} {call['function']['arguments']})"
        for call in message.get("tool_calls") or ()
    ]
    return "\n".join(filter(None, [content, *calls]))


def _part_in_words(part: Json) -> str:
    if part.get("type") == "text":
        return str(part.get("text", ""))
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return f"({part.get('type')}: {str(url)[:80]})"
