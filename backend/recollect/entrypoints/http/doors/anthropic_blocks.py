"""Content blocks of Anthropic's messages: what of them is a turn, and an answer as blocks."""

import json
from collections.abc import Sequence
from dataclasses import replace

from recollect.domain.chat import AnswerText
from recollect.domain.history_matching import text_parts
from recollect.domain.images import links
from recollect.domain.llm import signed_thoughts, with_thoughts, without_control_tokens
from recollect.domain.model import JsonObject, NewTurn
from recollect.domain.sources import is_source, source_of
from recollect.entrypoints.http.requests import MAX_TEXT
from recollect.errors import InvalidInput, TooLarge
from recollect.infra.backends.anthropic import UNTITLED
from recollect.infra.backends.dialect import arguments_of


def texts_of(blocks: Sequence[JsonObject], where: str) -> list[str]:
    """Of blocks that must be text."""
    return [_text(block, f"{where}[{number}]") for number, block in enumerate(blocks)]


def said(blocks: Sequence[JsonObject], now: int, where: str) -> list[NewTurn]:
    """A user's message: the results of tools, each a turn, and what is said beside them."""
    turns: list[NewTurn] = []
    words: list[JsonObject] = []
    beside: list[JsonObject] = []
    for number, block in enumerate(blocks):
        place = f"{where}[{number}]"
        if block.get("type") == "tool_result":
            turns.append(_result(block, now, place))
            continue
        source = _source(block)
        parts = [source] if source is not None else _parts(block, place)
        beside += parts
        words += [part for part in parts if not _is_aside(part)]
    if not words and turns:
        turns[-1] = with_aside(turns[-1], text_parts(beside))
    elif beside:
        turn = _turn("user", words or beside, now, where)
        turns.append(replace(turn, parts=beside) if len(words) < len(beside) and words else turn)
    return turns


def with_aside(turn: NewTurn, texts: Sequence[str]) -> NewTurn:
    """With texts for the model that nobody said: they are in its parts, and not in its words."""
    if not texts:
        return turn
    shown = turn.parts or [{"type": "text", "text": turn.content}]
    return replace(turn, parts=[*shown, *({"type": "text", "text": text} for text in texts)])


def _is_aside(part: JsonObject) -> bool:
    """What an agent's program tells the model in the user's name; Claude Code puts it between these tags."""
    text = str(part.get("text") or "").strip()
    return text.startswith("<system-reminder>") and text.endswith("</system-reminder>")


def answer(blocks: Sequence[JsonObject], now: int, where: str) -> NewTurn:
    """An assistant's message is one turn: thoughts, words and calls."""
    words: list[str] = []
    thoughts: list[str] = []
    calls: list[JsonObject] = []
    signed: list[JsonObject] = []
    for number, block in enumerate(blocks):
        place = f"{where}[{number}]"
        match block:
            case {"type": "thinking", "thinking": str(thought)}:
                thoughts.append(thought)
                signed += [_bare(block)] if block.get("signature") else []
            case {"type": "redacted_thinking", "data": str()}:
                signed.append(_bare(block))
            case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": dict(given)} if call_id:
                arguments = json.dumps(given, ensure_ascii=False)
                function = {"name": name, "arguments": arguments}
                calls.append({"id": call_id, "type": "function", "function": function})
            case {"type": "tool_use"}:
                raise InvalidInput(f"{place}: must have an id, a name and an input, an object", field=place)
            case _:
                words.append(_text(block, place))
    if calls:
        calls[0] = with_thoughts(calls[0], signed)
    # Blocks of text may part a sentence, with citations say: they are joined as they are.
    content = _bounded("".join(words), where)
    return NewTurn(
        "assistant", content, now, "", tool_calls=calls or None, reasoning="\n".join(thoughts) or None
    )


def _bare(block: JsonObject) -> JsonObject:
    return {name: value for name, value in block.items() if name != "cache_control"}


def message_of(turn: NewTurn) -> JsonObject:
    """A turn as a message in OpenAI's shape, without what a server might follow as a link."""
    content: object = turn.content
    if turn.parts:
        shown = (
            {"type": "text", "text": source_of(each).text} if is_source(each) else each for each in turn.parts
        )
        content = [part for part in shown if not any(links([part]))]
    elif turn.role == "tool":
        content = without_control_tokens(turn.content)
    told = {"tool_calls": turn.tool_calls, "tool_call_id": turn.tool_call_id}
    return {
        "role": turn.role,
        "content": content,
        **{name: value for name, value in told.items() if value},
    }


def blocks_of(told: AnswerText) -> list[JsonObject]:
    """An answer: its thoughts, its words and its calls."""
    blocks = signed_thoughts(told.tool_calls)
    if told.reasoning and not blocks:
        blocks.append({"type": "thinking", "thinking": told.reasoning, "signature": ""})
    if told.content:
        blocks.append({"type": "text", "text": told.content})
    return blocks + [tool_use(call, arguments_of(call)) for call in told.tool_calls]


def tool_use(call: JsonObject, given: JsonObject) -> JsonObject:
    function = call.get("function") or {}
    return {
        "type": "tool_use",
        "id": str(call.get("id") or ""),
        "name": str(function.get("name") or ""),
        "input": given,
    }


def _turn(
    role: str, parts: Sequence[JsonObject], now: int, where: str, tool_call_id: str | None = None
) -> NewTurn:
    text = _bounded("\n".join(text_parts(parts)), where)
    shown = None if all(part["type"] == "text" for part in parts) else list(parts)
    return NewTurn(role, text, now, "", parts=shown, tool_call_id=tool_call_id)  # type: ignore[arg-type]


def _result(block: JsonObject, now: int, where: str) -> NewTurn:
    call_id, content = block.get("tool_use_id"), block.get("content") or []
    if not isinstance(call_id, str) or not call_id:
        raise InvalidInput(f"{where}.tool_use_id: is missing", field=f"{where}.tool_use_id")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        raise InvalidInput(f"{where}.content: must be text or blocks", field=f"{where}.content")
    parts = [
        part for number, each in enumerate(content) for part in _parts(each, f"{where}.content[{number}]")
    ]
    return _turn("tool", parts, now, f"{where}.content", call_id)


def _parts(block: JsonObject, where: str) -> list[JsonObject]:
    """In the form of chat completions, which threads keep."""
    match block:
        case {"type": "text"}:
            return [{"type": "text", "text": _text(block, where)}]
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            return [_image(f"data:{kind};base64,{data}")]
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return [_image(url)]
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return [{"type": "text", "text": text}]
        case {"type": "document", "source": {"type": "content", "content": str(text)}}:
            return [{"type": "text", "text": text}]
        case {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf" as kind, "data": str(data)},
        }:
            name = block.get("title")
            name = name if isinstance(name, str) and name else UNTITLED
            return [{"type": "file", "file": {"filename": name, "file_data": f"data:{kind};base64,{data}"}}]
        case {"type": "document", "source": {"type": "content", "content": list(within)}}:
            return _within(within, f"{where}.source.content")
        case {"type": "search_result", "content": list(within), "source": str(source)}:
            head = "\n".join(str(each) for each in (block.get("title"), source) if each)
            return [{"type": "text", "text": head}, *_within(within, f"{where}.content")]
        case {"type": "tool_reference", "tool_name": str(name)}:
            return [{"type": "text", "text": name}]
    kind = str(block.get("type"))[:100]
    raise InvalidInput(
        f"{where}: a block of the type {kind!r} can't be passed on like this; text, images and documents that are in "
        "the request, calls of tools and their results can",
        field=where,
    )


def _source(block: JsonObject) -> JsonObject | None:
    """A text that goes with a user's message: quoted to the model, and not the user's words."""
    title = block.get("title") if isinstance(block.get("title"), str) else None
    match block:
        case {"type": "document", "source": {"type": "text", "data": str(text)}} if text.strip():
            return {"type": "file", "file": {"filename": title or "document.txt", "text": text}}
        case {"type": "document", "source": {"type": "content", "content": str(text)}} if text.strip():
            return {"type": "file", "file": {"filename": title or "document.txt", "text": text}}
        case {"type": "search_result", "content": [*within], "source": str(origin)}:
            texts = [each.get("text") for each in within if isinstance(each, dict)]
            if texts and all(isinstance(text, str) for text in texts) and len(texts) == len(within):
                said = "\n".join(map(str, texts))
                return {"type": "context", "context": {"title": title or "", "text": said, "origin": origin}}
    return None


def _within(blocks: Sequence[object], where: str) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for number, block in enumerate(blocks):
        place = f"{where}[{number}]"
        if not isinstance(block, dict) or block.get("type") not in ("text", "image"):
            raise InvalidInput(f"{place}: must be text or an image", field=place)
        parts += _parts(block, place)
    return parts


def _image(url: str) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": url}}


def _text(block: JsonObject, where: str) -> str:
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        raise InvalidInput(f"{where}: must be a block of text", field=where)
    return text


def _bounded(text: str, where: str) -> str:
    if len(text) > MAX_TEXT:
        raise TooLarge(f"{where}: must not have more than {MAX_TEXT} characters", field=where)
    return text
