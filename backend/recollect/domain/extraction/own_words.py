"""A turn's own words: what its sender says in it, without code, quotations and mails, sentence by sentence."""

import re
from collections.abc import Iterator

# ruff: noqa: RUF001 - dashes and quotation marks as people type them


LONGEST_TURN = 12_000
"""Of a turn, as far as it is looked at: what is longer is a document and no statement."""
_LONGEST_SENTENCE = 600
_MOST_SENTENCES = 400
_fenced = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL).sub
_inline_code = re.compile(r"`[^`\n]{1,500}`").sub
_bracketed = re.compile(r"\[[^\[\]\n]{1,500}\]").sub
_address = re.compile(r"https?://\S{1,2000}").sub
_quoted_line = re.compile(r"^[ \t]{0,8}(?:>|\|).*$", re.MULTILINE).sub
_listed = re.compile(r"^[ \t]{0,8}(?:[-*+•]|\d{1,3}[.)])[ \t]+|^[ \t]{0,8}#{1,6}[ \t]+", re.MULTILINE).sub
_forwarded = re.compile(
    r"^[ \t*]{0,8}(?:-{2,}\s?(?:original message|forwarded message)|begin forwarded message|from:\s|subject:\s|dear\s"
    r"|(?<=\n)(?:hi|hello) [\w ]{1,30},[ \t]*$|on [^\n]{1,200} wrote:|发件人|發件人|主题[:：]|尊敬的|亲爱的).*\Z",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
).sub
_OWN_LABELS = (
    "me|i|update|edit|note|ps|p\\.s|fyi|btw|news|info|important|reminder|context|background|situation|status|problem|question|answer"
    "|correction|goals?|plans?|name|age|birthday|home|address|location|city|job|work|occupation|profession|career|studies|education|school"
    "|family|partner|kids|children|pets?|diet|food|drinks?|allerg(?:y|ies)|health|hobby|hobbies|interests?|likes?|dislikes?|loves?|hates?|skills?"
    "|languages?|music|movies|books|sports?|travel|experience|personality|preferences?|contact|email|phone|bio|intro|introduction|about"
    "|fact|warning|attention|summary|short|also|ok|okay|well|yes|no|hi|hello|hey|so|look|listen|remember|thing|things|personal|fun|work-wise|currently"
    "|to-?do|tasks?|deadline|appointment|meeting|event|date|day|today|tomorrow|yesterday|now|next|then|first|second|third|finally|idea|tip"
    "|hint|detail|details|clarification|disclaimer|caveat|confession|truth|tldr|fwiw|tbh|imo|issue|request|favou?rites?|story|trip|flight"
)
_of_another = re.compile(
    rf"^[ \t*_>]{{0,8}}(?:\(?\d[\d:./, -]{{1,20}}(?:[AaPp]\.?[Mm]\.?)?\)?[ \t-]{{1,3}})?(?!(?i:{_OWN_LABELS})\b)"
    r"(?:[A-Z][\w.'-]{0,20}(?:[ \t][A-Z][\w.'-]{0,20}){0,2}|[a-z]\w{1,20})(?:[ \t]\([^()\n]{1,20}\))?[*_]{0,2}:[*_]{0,2}[ \t]+"
    r"(?=[^\n]*\b(?:I|[Mm]y|[Ww]e|[Oo]ur)\b).*$"
    r"|^[ \t]{0,8}(?!备注|備註|更新|补充|補充|另外|背景|提醒|注意|关于我|關於我|自我介绍|我|对了|對了|顺便|工作|家庭|爱好|愛好|住址|职业|姓名|年龄|生日|饮食|过敏|宠物|待办|任务|截止|预约|会议|计划|问题|总结|今天|明天|昨天)"
    r"[\u4e00-\u9fff]{1,4}：(?=[^\n]*我).*$",
    re.MULTILINE,
).sub
"""A line of a conversation that was pasted, whose speaker tells of themselves: "Tom: I live in Paris"."""
_introduced = re.compile(
    r"\b(?:(?:he|she|they|who|(?:my|the|a|our)\s\w{1,20}|(?!I\b)[A-Z]\w{0,20})\s(?:just\s|once\s)?"
    r"(?:said|says|wrote|writes|told\s(?:me|us)|tells\s(?:me|us)|asked|asks|replied|replies|answered|answers|texted)(?:\sme|\sus)?"
    r"|like\sthis|(?:'s|sample|example)\s(?:bio|text|profile|story|sentence)|lyrics|poem|essay|sentence):[ \t]+\S.*$"
    r"|(?<!我)(?:说|說|写道|寫道|问|問|回答|告诉我|告訴我)[：:].*$",
    re.MULTILINE,
).sub
"""What a line gives as the words of somebody else, or of a text: "He said: I live in Paris"."""
_quotation = re.compile(
    r'"[^"\n]{1,300}"|“[^”\n]{1,300}”|「[^」\n]{1,300}」|『[^』\n]{1,300}』|«[^»\n]{1,300}»'
).sub
_speaks = re.compile(r"\b(?:I|I'm|my|me|we|you|your|is|are|was)\b|[我你他她是]", re.IGNORECASE).search
_words = re.compile(r"\w+").findall
_TITLE_WORDS = 5
"""What is quoted and no longer is a title or a name, and stays."""
_TITLE_CHARS = 40
_sentences = re.compile(r"[^.!?…。！？；\n]+(?:(?<=\S)[.](?=\S)[^.!?…。！？；\n]*)*[.!?…。！？；]*").findall
_APOSTROPHES = str.maketrans("’ʼ´`", "''''")
_abbreviated = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|Prof|vs|approx|e\.g|i\.e)\.$").search
OMITTED = "\u241f"
"""Stands where a quotation stood: no statement holds it."""


def own_sentences(content: str) -> Iterator[str]:
    """The sentences of a message that its sender says as their own, with their closing signs."""
    text = _own(content[:LONGEST_TURN])
    waiting = ""
    for sentence in _sentences(text)[:_MOST_SENTENCES]:
        joined = f"{waiting}{sentence}"
        if _abbreviated(joined) and len(joined) < _LONGEST_SENTENCE:
            waiting = joined
            continue
        waiting = ""
        plain = " ".join(joined.split())
        if plain and len(plain) <= _LONGEST_SENTENCE:
            yield plain


def _own(text: str) -> str:
    text = text.translate({0: None}).replace(OMITTED, " ")
    text = _fenced("\n", text)
    text = _forwarded("\n", text)
    text = _quoted_line("", text)
    text = _inline_code(OMITTED, text)
    text = text.translate(_APOSTROPHES)
    text = _bracketed(" ", text)
    text = _of_another("", text)
    text = _introduced("", text)
    text = _address(OMITTED, text)
    text = _listed("", text)
    return _quotation(_title_or_nothing, text)


def _title_or_nothing(quotation: re.Match[str]) -> str:
    quoted = quotation[0]
    is_title = len(_words(quoted)) <= _TITLE_WORDS and len(quoted) <= _TITLE_CHARS and not _speaks(quoted)
    return quoted if is_title else OMITTED
