"""What happened to somebody, and what they plan: English predicates with a time."""

import re
from collections.abc import Sequence
from typing import Literal

from recollect.domain.extraction.moments import Moment
from recollect.domain.extraction.verbs_en import is_past

# ruff: noqa: RUF001 - dashes and quotation marks as people type them


_NO_EVENT = frozenset(
    ["thought", "felt", "wanted", "hoped", "wished", "wondered", "meant", "guessed", "knew", "said", "told",
     "loved", "liked", "needed", "used", "could", "heard", "forgot", "figured", "seemed", "looked",
     "supposed", "believed", "expected", "considered", "decided", "noticed", "realized", "realised",
     "understood", "remembered", "imagined", "appreciated", "enjoyed", "planned", "missed", "let", "promised",
     "agreed", "asked", "mentioned", "worried", "cared", "wanted", "intended", "preferred"]
)  # fmt: skip
_plans = re.compile(
    r"(?:just |also |now |already |actually |still |currently )*(?:"
    r"(?:will|will not|must)\s"
    r"|(?:is|are)\s(?:also |just |now |actually |still |even |definitely |finally |all )*(?:going to|gonna"
    r"|planning to|planning on|about to|due|booked|scheduled|off to|on call|away|out of)\b"
    r"|(?:is|are)\s(?:also |just |now |actually |still |even |definitely |finally )*(?!thinking|hoping|considering"
    r"|wondering|trying|guessing|dreaming|feeling|being|having (?:fun|trouble|a (?:hard|tough|great|good|blast"
    r"|rough))|getting (?:better|worse|used|ready|old)|looking (?:for|into|at)\b|asking|wanting|talking"
    r"|saying)\w+ing\b"
    r"|(?:has|have|needs?|has got|have got|gotta|got)\s(?:got )?to\s"
    r"|plans?\sto\s|intends?\sto\s|promised\sto\s|agreed\sto\s"
    r"|(?:has|have|has got|have got)\s(?!been\b|had\b|got\b|(?:a|an)\s(?:great|good|lot|bit|feeling|question)\b)(?:a"
    r"|an|my|our|the|two|three|four|some|another|exams?|\w+ing\b)\b"
    r"|(?:flies|fly|leaves?|starts?|arrives?|returns?|goes|go|gets? back|moves?|begins?|ends?|expires?|takes? place"
    r"|comes?|opens?|finish(?:es)?|performs?|plays|meets?|runs out|closes?|visits?)\b"
    r"|(?:is|are)\s(?:on\b|in\b|at\b|from\b|this\b|next\b|tomorrow\b|tonight\b|today\b|coming\b|due\b|set for\b|scheduled\b|\d))",
).match
_life = re.compile(
    r"(?:just |recently |finally |also |actually |already )*(?P<v>(?:adopted|bought|graduated|retired|quit|joined"
    r"|won|published|signed up for|enrolled in|gave birth|"
    r"broke (?:my|a)|lost my|passed my|started (?:a|an|my|working|learning|taking|volunteering|playing|studying"
    r"|teaching)|finished (?:my|a|an|writing|reading)|"
    r"got (?:married|engaged|promoted|divorced|hired|fired|a (?:new )?(?:job|dog|cat|puppy|kitten|promotion|tattoo))"
    r"|had a (?:baby|son|daughter)|opened (?:a|my)|launched (?:a|my)|moved (?:to|from|into|out))\b.*)"
).match
_tail = re.compile(
    r"(?:\s*[–—;…(]|\s-+\s|\.\.|,?\s(?:and|but|so|because|cause|cuz|as|since|although|though|while|when|where|which"
    r"|who|that)\s(?:it|it's|that|that's|this|they|they're|he|she|I|I'm|we|we're|you|there|now|the|can|is|was|were"
    r"|am|have|has|had|felt|loved|hope|wow|what|seeing|everyone|everything|my|of)\b"
    r"|,\s(?:it|it's|that|this|they|he|she|I|we|you|so|but|which|who|where|hope|and it|and that|what|making|feeling"
    r"|wow|though|it'll|thanks|super|really|such)\b"
    r"|,\s(?:can|could|would|should|how|do|does|is|are|any|please|will|did|should)\b|\s(?:because|although|though"
    r"|so that|which|since I|as I|when I|where I|while I|but|until I)\b).*$",
    re.IGNORECASE,
).sub
_elliptic = re.compile(r"\b(?:a few|some|many) more\b(?!\s\w)|\b(?:another|joined in|joined)$").search
_leftover_time = re.compile(
    r"\b(?:last|next|yesterday|tomorrow|ago|tonight|recently|lately|earlier|later|soon|now|(?:this|that) (?:summer"
    r"|winter|spring|fall|autumn|time|one)|the other day|today|same day|nowadays)\b",
    re.IGNORECASE,
).search
_joint = re.compile(
    r",?\s(?:and|to|with|for|so|from|but|that|about|at|or|in order to)\s|,\s|\s(?:that\s)?(?:I|we|you)\b",
    re.IGNORECASE,
).finditer
_MOST_WORDS = 32
_FEWEST_WORDS = 2

Tense = Literal["past", "future"]


def tense_of(predicate: str) -> Tense | None:
    """Whether it tells what was or what will be; None where neither is plain."""
    words = predicate.split()
    verb = next((word for word in words if word not in _ADVERBS), "")
    if verb == "has" and len(words) > 1 and any(is_past(word) or word in _PARTICIPLES for word in words[1:3]):
        return "past" if words[1:2] != ["to"] else "future"
    if is_past(verb) and verb not in ("put", "set", "let", "cut"):
        return "past"
    return "future" if _plans(predicate) else None


_ADVERBS = frozenset(
    ["just", "recently", "finally", "also", "actually", "already", "even", "still", "really", "now",
     "currently", "absolutely", "definitely", "never", "always", "once", "officially", "only"]
)  # fmt: skip
_PARTICIPLES = frozenset(
    ["been", "gone", "done", "seen", "taken", "given", "written", "grown", "fallen", "broken", "driven",
     "chosen", "eaten", "flown"]
)  # fmt: skip


def is_event(predicate: str) -> bool:
    words = [word for word in predicate.lower().split() if word not in _ADVERBS]
    if words[:2] == ["did", "something"]:
        return False
    if not words or words[0] in _NO_EVENT or (words[0] in ("was", "were") and not _real_was(words)):
        return False
    return not (words[0] == "had" and words[1:2] and words[1] in ("to", "no", "the", "it", "been"))


_STATES = frozenset(
    ["so", "really", "very", "super", "thinking", "wondering", "gonna", "going", "about", "just", "like",
     "hoping", "trying", "looking", "feeling", "not", "happy", "glad", "sad", "excited", "nervous",
     "surprised", "shocked", "proud", "amazed", "blown", "thrilled", "stressed", "able", "lucky", "a", "an",
     "the", "it", "right", "wrong", "too", "pretty", "talking", "remembering", "reminiscing", "reflecting",
     "telling", "saying"]
)  # fmt: skip


def _real_was(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[1] not in _STATES


def is_life_event(predicate: str) -> bool:
    return _life(predicate) is not None


def core_of(predicate: str) -> str | None:
    """The predicate without what trails after it; None where too little or too much is left."""
    core = _tail("", predicate).rstrip(" ,.!:;~-")
    if _elliptic(core):
        return None
    return core if _FEWEST_WORDS <= len(core.split()) <= _MOST_WORDS else None


def shortened(core: str) -> str | None:
    """Without its last part; None where what is left says too little."""
    parts = list(_joint(core))
    left = core[: parts[-1].start()].rstrip(" ,") if parts else ""
    return left if len(left.split()) > _FEWEST_WORDS else None


def says_what(bare: str) -> bool:
    """Whether it says what was done, and not only that something was: "completed" alone does not."""
    words = bare.split()
    return len(words) > 1 or words[:1] == ["graduated"] or words[:1] == ["retired"]


def is_timeless(text: str) -> bool:
    """Whether no word is left that only those present understand."""
    return _leftover_time(text) is None


def time_of(core: str, moments: Sequence[Moment], said_at: int, tense: Tense) -> Moment | None:
    """The moment that something happened or will: the first that fits its tense and is not the date of a thing.

    What was arranged "on 25 March" may have been arranged then, or for then: it has no moment.
    """
    times = [each for each in moments if not _names_a_thing(core[: each.start])]
    if tense == "future":
        return next((each for each in times if each.is_future or each.end > said_at), None)
    if _arranges(core) and any(_has_no_year(core[each.start : each.stop]) for each in times):
        return None
    return next(
        (each for each in times if each.begin <= said_at and not core[: each.start].endswith("for ")), None
    )


_names_a_thing = re.compile(
    r"(?:\b(?:the|a|an|my|our|your|his|her|their|this|with|about)|'s)\s$", re.IGNORECASE
).search
_arranges = re.compile(
    r"\b(?:invited|booked|scheduled|agreed|planned|registered|reserved|arranged|confirmed|promised|enrolled|set"
    r"|signed|aiming|goal|target|due|deadline)\b"
).search
_has_no_year = re.compile(r"(?=.*\d)(?!.*\b\d{4}\b)(?!.*\bago\b)").match
