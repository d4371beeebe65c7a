"""Whether somebody speaks in earnest, and of what is: no play, no joke, no supposition, no question, no attack."""

import re

_play_begins = re.compile(
    r"\b(?:pretend|role-?\s?play|imagine (?:that )?(?:i|you|we)\b|let'?s play|act as|you are now|you're now|in character)"
    r"|假装|假扮|扮演|角色扮演|假裝",
    re.IGNORECASE,
).search
_wants_text = re.compile(
    r"\b(?:write (?:me )?(?:a|an|the|another|some)\b[^.?!]{0,60}\b(?:stor(?:y|ies)|poem|dialogue|monologue|scene"
    r"|novel|song|lyrics|essay|speech|letter|e?mail"
    r"|bio|cover letter|post|joke)s?|in the (?:voice|role) of|translate|proofread|rephrase|paraphrase|rewrite|fix the grammar"
    r"|summari[sz]e|shorten (?:this|the)"
    r"|correct (?:this|my))"
    r"|写(?:一|个|篇|首|封)[^。]{0,20}(?:故事|小说|诗|信|作文|邮件|剧本)|翻译|润色|改写|翻譯|潤色|改寫|(?:总结|總結|概括)(?:一下|下面|以下|这|這)",
    re.IGNORECASE,
).search
_play_ends = re.compile(
    r"\b(?:end of (?:the )?(?:game|role|story|scene)|stop (?:playing|the game|pretending)|enough (?:of|with) (?:the"
    r"|this)|in real life"
    r"|out of character|back to (?:reality|real life|normal)|game over|seriously now)\b|游戏结束|遊戲結束|不玩了|回到现实|说真的|說真的",
    re.IGNORECASE,
).search
_joke = re.compile(
    r"\b(?:(?:just|only|was|am|i'm) (?:kidding|joking|messing with you|teasing)|jk|kidding|april fools?"
    r"|not really)\b|(?:^|\s)/s(?:\s|$)"
    r"|开玩笑|開玩笑|逗你|骗你的|騙你的|瞎说的",
    re.IGNORECASE,
).search
_attack = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b[^.?!]{0,40}\b(?:instruction|prompt|rule|guideline|polic|direction)"
    r"|\b(?:system prompt|jailbreak|developer mode|do anything now)\b"
    r"|(?:忽略|无视|無視|忘记|忘記|忘掉)[^。]{0,20}(?:指令|指示|规则|規則|提示|设定|設定)",
    re.IGNORECASE,
).search
_takes_back = re.compile(
    r"\b(?:no,? wait|wait,? no|scratch that|correction|sorry,? i mean|i meant|oops|my mistake|i misspoke|let me correct)\b"
    r"|\bi mean(?= (?:\d|[A-Z]))|不对，|不對，|说错了|說錯了|我的意思是|更正|口误|口誤|应该是",  # noqa: RUF001
    re.IGNORECASE,
).search
_supposes_en = re.compile(
    r"\b(?:if|unless|suppose|supposing|imagine|assuming|hypothetically|pretend|let's say|what if|as though|were i|in case|wish"
    r"|in (?:my|a) dream|dreamt?|dreamed|lottery|once upon)\b",
    re.IGNORECASE,
).search
_supposes_zh = re.compile(r"如果|假如|要是|假设|假設|假定|万一|萬一|的话|的話|倘若|若是").search
_unsure_zh = re.compile(
    r"但愿|希望|梦见|夢見|梦到|恨不得|差点|差點|好像|可能|也许|也許|或许|或許|大概|说不定|說不定|就好了"
).search
_unsure_en = re.compile(
    r"\b(?:would|wouldn't|could|couldn't|might|maybe|perhaps|probably|possibly|should|shouldn't|ought|hopefully|hoping|hope"
    r"|guess|not sure|unsure|thinking (?:of|about)|considering|wondering|some ?day|one day|supposed to|tempted|i'd|we'd|almost"
    r"|nearly|feels? like|pretty sure|kind of like|sort of like|next time|in theory)\b",
    re.IGNORECASE,
).search
_reports_en = re.compile(
    r"\b(?:said|says|say|told|tells|asked|asks|wrote|writes|claims?|claimed|thinks|thought|believes?|according to|quote|quoting"
    r"|reads|titled|called me|calls me|reminded me)\b",
    re.IGNORECASE,
).search
_reports_zh = re.compile(
    r"(?<![会會])(?:说|說)(?!日|英|中|汉|漢|法|德|韩|韓|俄|西|粤|粵|广|廣|普|闽|閩|意|葡|阿)|告诉|告訴|认为|認為|觉得|覺得|听说|聽說|据说|據說|问我|問我"
).search
_asks_zh = re.compile(
    r"[？?]|[吗嗎呢]\s*[。！]?$|[对是]吧|什么|什麼|怎么|怎麼|怎样|怎樣|哪[里裡儿兒个個些家种種]?|谁|誰|多少|几[个個点點岁歲]|为什么|為什麼|是不是|有没有|有沒有|能不能|可不可以|要不要"  # noqa: RUF001
    r"|该不该|會不會|会不会|如何|吗[，,]"  # noqa: RUF001
).search

_words = re.compile(r"[a-z]+").findall
# Looked up word by word: a long pattern that is tried at every letter takes ten times as long.
_PLAY_WORDS = frozenset(
    ["pretend", "role", "roleplay", "imagine", "play", "act", "now", "character", "write", "voice",
     "translate", "proofread", "rephrase", "paraphrase", "rewrite", "summarize", "summarise", "shorten", "grammar", "correct", "game", "story", "scene",
     "pretending", "playing", "enough", "real", "reality", "life", "normal", "seriously", "end", "stop"]
)  # fmt: skip
_JOKE_WORDS = frozenset(["kidding", "joking", "messing", "teasing", "jk", "april", "not", "s"])
_ATTACK_WORDS = frozenset(
    ["ignore", "disregard", "forget", "override", "bypass", "system", "jailbreak", "developer", "anything"]
)
_MISTAKE_WORDS = frozenset(
    ["wait", "scratch", "correction", "mean", "meant", "oops", "mistake", "misspoke", "correct"]
)
_SUPPOSING_WORDS = frozenset(
    ["if", "unless", "suppose", "supposing", "imagine", "assuming", "hypothetically", "pretend", "say",
     "though", "were", "case", "wish", "dream", "dreamt", "dreamed", "lottery", "once"]
)  # fmt: skip
_UNSURE_WORDS = frozenset(
    ["would", "wouldn", "could", "couldn", "might", "maybe", "perhaps", "probably", "possibly", "should",
     "shouldn", "ought", "hopefully", "hoping", "hope", "guess", "sure", "unsure", "thinking", "considering",
     "wondering", "someday", "some", "one", "supposed", "tempted", "d", "almost", "nearly", "feel", "feels",
     "kind", "sort", "next", "theory"]
)  # fmt: skip
_REPORTING_WORDS = frozenset(
    ["said", "says", "say", "told", "tells", "asked", "asks", "wrote", "writes", "claim", "claims", "claimed",
     "thinks", "thought", "believe", "believes", "according", "quote", "quoting", "reads", "titled", "called",
     "calls", "reminded"]
)  # fmt: skip


def _may_hold(text: str, words: frozenset[str]) -> bool:
    return not text.isascii() or not words.isdisjoint(_words(text.lower()))


def begins_play(text: str) -> bool:
    """Whether what follows is said in a role, until it ends."""
    return _may_hold(text, _PLAY_WORDS) and _play_begins(text) is not None


def wants_text(text: str) -> bool:
    """Whether what follows in the same message is a text to be worked on."""
    return _may_hold(text, _PLAY_WORDS) and _wants_text(text) is not None


def ends_play(text: str) -> bool:
    return _may_hold(text, _PLAY_WORDS) and _play_ends(text) is not None


def is_joke(text: str) -> bool:
    """Whether it says of itself, or of what came before, that it was a joke."""
    return _may_hold(text, _JOKE_WORDS) and _joke(text) is not None


def is_attack(text: str) -> bool:
    """Whether it wants to change what the assistant is told."""
    return _may_hold(text, _ATTACK_WORDS) and _attack(text) is not None


def takes_back(text: str) -> bool:
    return _may_hold(text, _MISTAKE_WORDS) and _takes_back(text) is not None


def supposes(text: str) -> bool:
    if _may_hold(text, _SUPPOSING_WORDS) and _supposes_en(text):
        return True
    return not text.isascii() and _supposes_zh(text) is not None


def is_unsure(clause: str) -> bool:
    if _may_hold(clause, _UNSURE_WORDS) and _unsure_en(clause):
        return True
    return not clause.isascii() and _unsure_zh(clause) is not None


def reports(clause: str) -> bool:
    """Whether it passes on what somebody said or thinks."""
    if _may_hold(clause, _REPORTING_WORDS) and _reports_en(clause):
        return True
    return not clause.isascii() and _reports_zh(clause) is not None


def asks_in_chinese(sentence: str) -> bool:
    return _asks_zh(sentence) is not None
