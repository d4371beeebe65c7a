"""Titles: a thread that has none gets one from its first exchange."""

import json
import logging
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect.errors import ModelUnavailable
from recollect.memory.job import Job
from recollect.memory.model import JsonObject, Turn
from recollect.memory.quoted_turns import DATA_LINE, quoted_lines
from recollect.service.background_model import BackgroundModel
from recollect.service.ports import ThreadStore

MAX_TITLE = 60
_log = logging.getLogger("recollect.titles")
_SHOWN_CHARS = 2000
_ANSWER_TOKENS = 256
_RAMBLING = 200
"""An answer of more characters is no title."""

_PLACEHOLDERS = frozenset({
    "", "new", "chat", "conversation", "thread", "new chat", "new conversation", "new thread", "new session",
    "untitled", "untitled chat", "untitled conversation", "no title", "unnamed", "neuer chat", "neue unterhaltung",
    "unbenannt", "ohne titel", "nouveau chat", "nouvelle conversation", "nouvelle discussion", "sans titre",
    "nuevo chat", "nueva conversación", "sin título", "novo chat", "nova conversa", "sem título", "nuova chat",
    "nuova conversazione", "senza titolo", "новый чат", "новая беседа", "без названия", "新对话", "新的对话",
    "新聊天", "新会话", "新建对话", "新建聊天", "未命名", "新對話", "新的對話", "無題", "新しいチャット",
    "新規チャット", "新しい会話", "새 채팅", "새 대화", "제목 없음", "नई चैट", "محادثة جديدة", "دردشة جديدة", "แชทใหม่",
})  # fmt: skip
_AROUND = " \"'`“”„«»‹›‘’「」『』《》〈〉"  # noqa: RUF001 - quotation marks of many languages
_ENDINGS = ".。…,;:，；：-–—"  # noqa: RUF001 - and their punctuation
_LABEL = re.compile(
    r"\s*(?:title|titel|titre|título|titolo|标题|タイトル)\s*[:\uff1a]\s*", flags=re.IGNORECASE
)

TITLE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"title": {"type": "string"}},
    "required": ["title"],
    "additionalProperties": False,
}
_INSTRUCTIONS = f"""\
You give a conversation its title: what it is about, in two to six words, at most {MAX_TITLE} characters, in the \
language of the user's message. No quotation marks, no Markdown, no full stop, no emoji.
Answer with one JSON object and nothing else: {{"title": "…"}}"""


def is_placeholder(title: str | None) -> bool:
    """Whether nobody has given this title any thought."""
    if title is None:
        return True
    words = " ".join(unicodedata.normalize("NFKC", title).casefold().strip(" .…").split())
    return re.sub(r" \(?#?\d+\)?$", "", words) in _PLACEHOLDERS


@dataclass(frozen=True, slots=True)
class Titles:
    """Gives titles; never to an incognito thread, and never over what a person has set."""

    threads: ThreadStore
    model: BackgroundModel | None

    async def handle(self, job: Job) -> None:
        """The handler of title jobs; the payload names the turns of the first exchange, the user's first."""
        if job.thread_id is None:
            return
        thread = await self.threads.get_thread(job.thread_id, space=job.space)
        if thread is None or thread.incognito or not is_placeholder(thread.title):
            return
        exchange = await self._exchange(job, job.thread_id)
        if not exchange:
            return  # Forgotten meanwhile.
        title = await self._by_model(job.space, job.thread_id, exchange) or first_words(exchange)
        if title:
            await self.threads.replace_title(job.thread_id, thread.title, title, space=job.space)

    async def _exchange(self, job: Job, thread_id: str) -> list[Turn]:
        ids = [str(turn_id) for turn_id in job.payload.get("turns", ())]
        found = [await self.threads.get_turn(thread_id, turn_id, space=job.space) for turn_id in ids]
        return [turn for turn in found if turn is not None]

    async def _by_model(self, space: str, thread_id: str, exchange: Sequence[Turn]) -> str | None:
        if self.model is None:
            return None
        try:
            answer = await self.model.ask(
                title_prompt(exchange),
                space=space,
                thread_id=thread_id,
                max_tokens=_ANSWER_TOKENS,
                schema=TITLE_SCHEMA,
            )
        except ModelUnavailable as error:
            _log.warning("the model gave no title, the first words are taken: %s", error)
            return None
        return title_in(answer.text)


def title_prompt(exchange: Sequence[Turn]) -> list[JsonObject]:
    return [
        {"role": "system", "content": _INSTRUCTIONS},
        {"role": "user", "content": "\n".join([DATA_LINE, *quoted_lines(exchange, _SHOWN_CHARS)])},
    ]


def title_in(answer: str) -> str | None:
    """The title in a model's answer, as plain text; None where there is none worth having."""
    text = _titled_object(answer)
    if text is None:
        text = next((line for line in answer.splitlines() if line.strip(" `*#-")), "")
        if "{" in text:
            return None
    if len(text) > _RAMBLING:
        return None
    title = _plain(text)
    if is_placeholder(title) or not any(character.isalnum() for character in title):
        return None
    return _shortened(title)


def first_words(exchange: Sequence[Turn]) -> str | None:
    """What a thread is called without a model: the first words of its first message."""
    said = next((turn.content for turn in exchange if turn.role == "user"), "")
    return _shortened(_plain(said[: 4 * MAX_TITLE])) or None


def _titled_object(answer: str) -> str | None:
    """The `title` of a JSON object, whatever stands around it."""
    for found in re.finditer(r"\{[^{}]*\}", answer):
        try:
            value: Any = json.loads(found.group())
        except (ValueError, RecursionError):
            continue
        if isinstance(value.get("title"), str):
            return str(value["title"])
    return None


def _plain(text: str) -> str:
    """One line without Markdown, a label before it, or quotation marks around it."""
    text = text.encode("utf-8", "replace").decode()
    text = "".join(" " if unicodedata.category(character)[0] == "C" else character for character in text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(?<!\w)[*_~`]+|[*_~`]+(?!\w)|`+", "", text)
    text = re.sub(r"^\s*(?:#+|>+|[-+•]|\d+[.)])\s+", "", text)
    text = text[label.end() :] if (label := _LABEL.match(text)) else text
    return " ".join(text.split()).strip(_AROUND).rstrip(_ENDINGS).strip(_AROUND)


def _shortened(title: str) -> str:
    """At most MAX_TITLE characters, cut between words where there are any."""
    if len(title) <= MAX_TITLE:
        return title
    cut = title[: MAX_TITLE - 1]
    whole_words = cut if title[MAX_TITLE - 1].isspace() else cut.rpartition(" ")[0]
    kept = whole_words if len(whole_words) >= MAX_TITLE // 3 else cut
    return kept.rstrip(_AROUND + _ENDINGS) + "…"
