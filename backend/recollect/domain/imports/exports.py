"""What chat services export: one object a conversation, which becomes a `Conversation`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from recollect.domain.imports.conversation import (
    EMPTY,
    HIDDEN,
    IMAGES,
    NO_MESSAGE,
    SYSTEM,
    THINKING,
    TOOLS,
    Conversation,
    Said,
    conversation,
    made_message_id,
    objects_in,
    said_id,
    text_in,
    told_moment,
)
from recollect.domain.paths import is_markdown

Json = Mapping[str, Any]
CLAUDE_NOTES = "Claude's projects and memory"
_WORDS = frozenset({"text", "multimodal_text", "code"})
_THINKING = frozenset({"thoughts", "reasoning_recap"})


def chatgpt(told: Json) -> Conversation:
    """`mapping` is a tree of all that was ever said, `current_node` the end of the branch that is shown."""
    mapping = told.get("mapping")
    nodes = mapping if isinstance(mapping, dict) else {}
    left_out: Counter[str] = Counter()
    messages = [
        _chatgpt_message(name, node, left_out) for name, node in nodes.items() if isinstance(node, dict)
    ]
    return conversation(
        "chatgpt",
        said_id(told.get("conversation_id")) or said_id(told.get("id")),
        text_in(told.get("title")),
        messages,
        current=said_id(told.get("current_node")),
        created=told_moment(told.get("create_time"), left_out),
        left_out=left_out,
    )


def _chatgpt_message(name: str, node: Json, left_out: Counter[str]) -> Said:
    message = node.get("message")
    told: Json = message if isinstance(message, dict) else {}
    parent = said_id(node.get("parent"))
    author, content, metadata = (_object(told.get(field)) for field in ("author", "content", "metadata"))
    role, kind = author.get("role"), content.get("content_type")
    parts = content.get("parts") if isinstance(content.get("parts"), list) else []
    assert isinstance(parts, list)
    text = "\n\n".join(words for part in parts if (words := _words(part))) or text_in(content.get("text"))
    reason = None
    if not told:
        reason = NO_MESSAGE
    elif metadata.get("is_visually_hidden_from_conversation") or kind == "user_editable_context":
        reason = HIDDEN
    elif role == "system":
        reason = SYSTEM
    elif role not in ("user", "assistant") or told.get("recipient", "all") != "all":
        reason = TOOLS
    elif kind in _THINKING:
        reason = THINKING
    elif kind not in _WORDS:
        reason = TOOLS
    if reason is None:
        left_out[IMAGES] += sum(isinstance(part, dict) and not _words(part) for part in parts)
    return Said(
        message_id=said_id(name) or made_message_id(0, str(role), text),
        parent=parent,
        role="user" if role == "user" else "assistant",
        text=text,
        time=told_moment(told.get("create_time"), left_out),
        model=said_id(metadata.get("model_slug")) if role == "assistant" else None,
        attachments=tuple(
            (text_in(each.get("name")), "")
            for each in objects_in(metadata.get("attachments"))
            if text_in(each.get("name"))
        ),
        left_out=reason,
    )


def _words(part: Any) -> str:
    """Of a part of a message; what was spoken has its transcript."""
    if isinstance(part, dict):
        return text_in(part.get("text"))
    return text_in(part)


def claude(told: Json) -> Conversation:
    """Messages in a row; those of newer exports name their parents, so that there may be branches."""
    left_out: Counter[str] = Counter()
    messages: list[Said] = []
    known: set[str] = set()
    for place, each in enumerate(objects_in(told.get("chat_messages"))):
        said = _claude_message(place, each, messages[-1].message_id if messages else None, left_out)
        named = said_id(each.get("parent_message_uuid"))
        if named is not None:
            said = replace(said, parent=named if named in known else None)
        messages.append(said)
        known.add(said.message_id)
    return conversation(
        "claude",
        said_id(told.get("uuid")),
        text_in(told.get("name")),
        messages,
        created=told_moment(told.get("created_at"), left_out),
        left_out=left_out,
    )


def _claude_message(place: int, told: Json, before: str | None, left_out: Counter[str]) -> Said:
    blocks = objects_in(told.get("content"))
    text = "\n\n".join(text_in(each.get("text")) for each in blocks if each.get("type") == "text").strip()
    for each in blocks:
        kind = each.get("type")
        if kind == "thinking":
            left_out[THINKING] += 1
        elif kind != "text":
            left_out[TOOLS] += 1
    role = told.get("sender")
    if not blocks:
        text = text_in(told.get("text"))
    attached = objects_in(told.get("attachments")) + objects_in(told.get("files"))
    names = {
        text_in(each.get("file_name")) or "attachment": text_in(each.get("extracted_content"))
        for each in reversed(attached)
    }
    return Said(
        message_id=said_id(told.get("uuid")) or made_message_id(place, str(role), text),
        parent=before,
        role="user" if role == "human" else "assistant",
        text=text,
        time=told_moment(told.get("created_at"), left_out),
        attachments=tuple(reversed(names.items())),
        left_out=None if role in ("human", "assistant") else SYSTEM,
    )


def open_webui(told: Json) -> Conversation:
    """`history` is a tree of messages by id; older exports have only the list of those that are shown."""
    chat = _object(told.get("chat"))
    history = _object(chat.get("history"))
    tree = history.get("messages")
    left_out: Counter[str] = Counter()
    nodes = list(tree.items()) if isinstance(tree, dict) else []
    if not nodes:
        nodes = [(None, each) for each in objects_in(chat.get("messages"))]
    messages: list[Said] = []
    for place, (name, each) in enumerate(nodes):
        if isinstance(each, dict):
            before = messages[-1].message_id if messages and name is None else None
            messages.append(_open_webui_message(place, name, each, before, left_out))
    return conversation(
        "openwebui",
        said_id(told.get("id")),
        text_in(told.get("title")) or text_in(chat.get("title")),
        messages,
        current=said_id(history.get("currentId")),
        created=told_moment(told.get("created_at"), left_out) or told_moment(chat.get("timestamp"), left_out),
        left_out=left_out,
    )


def _open_webui_message(
    place: int, name: str | None, told: Json, before: str | None, left_out: Counter[str]
) -> Said:
    role, content = told.get("role"), told.get("content")
    text = text_in(content)
    if isinstance(content, list):
        text = "\n\n".join(text_in(each.get("text")) for each in objects_in(content) if each.get("text"))
        left_out[IMAGES] += sum(not each.get("text") for each in objects_in(content))
    attachments = []
    for each in objects_in(told.get("files")):
        if each.get("type") == "image":
            left_out[IMAGES] += 1
            continue
        file = _object(each.get("file"))
        known = text_in(each.get("name")) or text_in(file.get("filename")) or "attachment"
        attachments.append((known, text_in(_object(file.get("data")).get("content"))))
    return Said(
        message_id=said_id(name) or said_id(told.get("id")) or made_message_id(place, str(role), text),
        parent=said_id(told.get("parentId")) or before,
        role="user" if role == "user" else "assistant",
        text=text,
        time=told_moment(told.get("timestamp"), left_out),
        model=said_id(told.get("model")) if role == "assistant" else None,
        attachments=tuple(attachments),
        left_out=None if role in ("user", "assistant") else SYSTEM if role == "system" else TOOLS,
    )


def claude_code(lines: Iterator[Json], name: str) -> Conversation:
    """A session's lines: each names its parent, and all but what was said is left out. `name` is that of its file."""
    messages: list[Said] = []
    known: set[str] = set()
    left_out: Counter[str] = Counter()
    session = title = None
    for line in lines:
        kind = line.get("type")
        if kind == "summary":
            title = text_in(line.get("summary")) or title
        elif kind in ("custom-title", "ai-title"):
            title = text_in(line.get("customTitle")) or text_in(line.get("aiTitle")) or title
        identifier = said_id(line.get("uuid"))
        if identifier is None:
            continue
        session = said_id(line.get("sessionId")) or session
        parent = said_id(line.get("parentUuid")) or said_id(line.get("logicalParentUuid"))
        if parent not in known and messages:
            parent = messages[-1].message_id
        known.add(identifier)
        messages.append(_claude_code_message(line, identifier, parent, left_out))
    stem = name.replace("\\", "/").rpartition("/")[2].removesuffix(".jsonl")
    if title is None:
        title = next((each.text for each in messages if each.role == "user" and not each.left_out), "")
        title = title.strip().partition("\n")[0][:80]
    return conversation("claude-code", session or stem, title, messages, left_out=left_out)


def _claude_code_message(line: Json, identifier: str, parent: str | None, left_out: Counter[str]) -> Said:
    message = _object(line.get("message"))
    role, content = message.get("role"), message.get("content")
    text, reason = text_in(content), None
    blocks = objects_in(content)
    if blocks:
        text = "\n\n".join(text_in(each.get("text")) for each in blocks if each.get("type") == "text").strip()
    if line.get("isSidechain"):
        reason = "messages of sub-agents"
    elif line.get("isMeta") or line.get("isCompactSummary") or line.get("isApiErrorMessage"):
        reason = HIDDEN
    elif line.get("type") not in ("user", "assistant") or role not in ("user", "assistant"):
        reason = SYSTEM
    elif not text:
        kinds = {text_in(each.get("type")) for each in blocks}
        reason = (
            THINKING if kinds == {"thinking"} else IMAGES if kinds == {"image"} else TOOLS if kinds else EMPTY
        )
    return Said(
        message_id=identifier,
        parent=parent,
        role="user" if role == "user" else "assistant",
        text="" if reason else text,
        time=told_moment(line.get("timestamp"), left_out),
        model=said_id(message.get("model")) if role == "assistant" else None,
        left_out=reason,
    )


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def claude_notes(told: Json) -> list[tuple[str, str]]:
    """Names and texts of the documents and instructions of a project, or of what Claude remembers; else nothing."""
    if _is_project(told):
        folder = f"claude/{_part(told.get('name'))}"
        instructions = text_in(told.get("prompt_template"))
        found = [(f"{folder}/instructions.md", instructions)]
        for document in objects_in(told.get("docs")):
            name = _part(document.get("filename"))
            name = name if is_markdown(name) else f"{name}.md"
            found.append((f"{folder}/{name}", text_in(document.get("content"))))
    else:
        found = [("claude/memory.md", text_in(told.get("conversations_memory")))]
        for name, text in _object(told.get("project_memories")).items():
            found.append((f"claude/memory of projects/{_part(name)}.md", text_in(text)))
    return [(name, text) for name, text in found if text.strip()]


def _is_project(told: Json) -> bool:
    return isinstance(told.get("docs"), list) and "prompt_template" in told


def _part(name: Any) -> str:
    """A part of a note's name."""
    return text_in(name).replace("/", "-").replace("\\", "-").strip(". ") or "unnamed"


READERS: Mapping[str, Callable[[Json], Conversation]] = {
    "ChatGPT": chatgpt,
    "Claude": claude,
    "Open WebUI": open_webui,
}
"""Formats that are a list of conversations."""


def format_of(first: Json) -> str | None:
    """The format of an export, told by its first conversation."""
    if isinstance(first.get("mapping"), dict):
        return "ChatGPT"
    if isinstance(first.get("chat_messages"), list):
        return "Claude"
    if _is_project(first) or "conversations_memory" in first:
        return CLAUDE_NOTES
    if isinstance(first.get("chat"), dict):
        return "Open WebUI"
    return None


def format_of_line(line: Json) -> str | None:
    """The format of a file of JSON lines, told by one of them."""
    if line.get("type") in ("entity", "relation") and ("name" in line or "from" in line):
        return "server-memory"
    if "sessionId" in line or (line.get("type") == "summary" and "leafUuid" in line):
        return "Claude Code"
    return None
