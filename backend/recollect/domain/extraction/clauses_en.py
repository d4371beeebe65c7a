"""English sentences taken apart: clauses with a subject that the speaker is or owns, told in the third person."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from recollect.domain.extraction.statement import Speaker
from recollect.domain.extraction.verbs_en import AUXILIARIES, plural_of, told_verb, without_adverbs

# ruff: noqa: RUF001 - dashes and quotation marks as people type them


_lead = re.compile(
    r"""(?:(?:hi|hey|hello|yeah|yes|yep|yup|no|nope|nah|well|so|and|but|also|oh|ah|wow|hmm|thanks|thank\ you|thx|cool|great|nice|true
    |awesome|by\ the\ way|btw|actually|anyway|anyways|honestly|frankly|to\ be\ honest|tbh|you\ know|guess\ what|in\ fact|of\ course|sure|ok|okay
    |haha+|lol|good\ (?:morning|evening|afternoon)|speaking\ of\ which|as\ you\ know|fun\ fact|fyi|in\ real\ life|personally|right|plus|then|glad(?:ly)?
    |for\ context|a\ bit\ about\ me|about\ me|morning|totally|absolutely|definitely|exactly|unfortunately|luckily|sadly|fortunately|besides|congrats
    |sorry|sounds\ good|these\ days|at\ the\ moment|right\ now|currently|nowadays|because|cause|since\ then|meanwhile|one\ more\ thing|hope\ you're\ well)
    (?:\ [A-Z]\w{1,20})?[,!:.\s–—-]+
    |(?:please\ )?(?:remember|note|don't\ forget|keep\ in\ mind|know)\ that\ (?=I\b|I'|my\b)
    |(?:I\ (?:just\ )?(?:wanted|want)\ (?:you\ )?to\ (?:tell\ you|let\ you\ know|know|mention|say)\ (?:that\ )?)
    |(?:just|only)\ (?=yesterday|last|this|today)
    |(?:I\ (?:can't|cannot)\ believe\ (?:that\ )?)(?=I\b|my\b))""",
    re.IGNORECASE | re.VERBOSE,
).match
_MOST_LEADS = 6
_boundary = re.compile(
    r"(?:\s*[;:–—…]\s*|\s+-+\s+|,\s*|\s+(?=(?:and|but|so|because|plus|though|while)\s))"
    r"(?:(?:and|but|so|plus|because|cause|cuz|as|though|although|yet|while|also|then|since)\s+)?"
    r"(?:(?:by the way|also|now|then|actually|honestly|recently|currently)\s*,?\s+)?"
    r"(?=(?:I|I'm|I've|I'll|my|we|we're|we've|we'll|our)\b"
    r"|(?:just )?(?:last|next|this|yesterday|tomorrow|today)\b(?:\s\w{1,12}){0,2},?\s(?:I|I'm|we|my|our)\b)"
).split
_TRAILING = (
    "by the way", "btw", "though", "too", "as well", "either", "haha", "hahaha", "lol", "actually", "honestly", "you know", "right", "sadly",
    "thankfully", "unfortunately", "luckily", "finally", "of course", "to be honest", "I think",
)  # fmt: skip
_SIGNS = " .!…:;,~)-"
_question_tail = re.compile(
    r"(?:,|;| -|\s–)\s+(?:and |but |so )?(?=(?:correct|true|yeah|no|wasn't|haven't|hasn't|doesn't|didn't|aren't|am|what|how|do|does|did|can|could|would|should|is|are|where|which|who"
    r"|why|when|any|have|has|will|you|right|isn't|don't)\b)",
    re.IGNORECASE,
).finditer
_asking_start = re.compile(
    r"(?:what|how|do|does|did|can|could|would|should|is|are|am|was|were|where|which|who|whom|whose|why|when|any|have"
    r"|has|will|shall|isn't|aren't|don't|won't|may)\b",
    re.IGNORECASE,
).match
_is_tag = re.compile(
    r"[,;\s–-]+(?:right|correct|true|yeah|no|(?:isn't|aren't|don't|doesn't|didn't|haven't|hasn't|wasn't|won't|can't|do|did|am|is|have)"
    r"\s(?:I|it|we|he|she|they|that))\s*\?[\s.!?…]*$",
    re.IGNORECASE,
).match
"""It asks whether all that stands before it is so."""
_ADVERB = r"(?:(?:just|recently|finally|actually|also|even|already|still|really|currently|now|absolutely|totally|definitely|always|usually|often|mostly|mainly|simply|truly|only|originally|sometimes|never|honestly|happily|generally|normally|once|kinda|mostly|officially)\s+){0,3}"
_person = re.compile(
    rf"(?P<who>I|i|We|we)\b(?P<short>'m|'re|'ve|'ll|'d)?\s+(?P<adverb>{_ADVERB}(?:no longer\s+(?=(?:live|work|like|enjoy|have)\b))?)(?P<rest>\S.*)"
).fullmatch
_pair = re.compile(
    r"(?:My|my)\s+(?P<other>[\w'-]{2,20}(?:\s(?!(?:is|are|was|were|has|had|have|will|works?|lives?)\b)[\w'-]{2,20}){0,3})"
    r"\s+and\s+I\s+(?P<rest>\S.*)"
).fullmatch
_NAME = r"(?!(?:I|The|And|Also|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)\b)[A-Z][\w'-]{0,30}(?:\s[A-Z][\w-]{0,30}){0,2}"
_KIN = {
    "has_sibling": "sister brother twin sibling stepsister stepbrother half-sister half-brother",
    "has_parent": "mother mom mum mama father dad papa stepmother stepfather stepmom stepdad",
    "has_child": "son daughter kid child baby toddler stepson stepdaughter",
    "partner": "wife husband partner boyfriend girlfriend fiancé fiancée fiance fiancee spouse",
    "has_pet": "dog cat puppy kitten rabbit hamster parrot horse turtle tortoise snake guinea-pig bird goldfish lizard gecko pet",
    "": "friend cousin aunt uncle grandma grandmother grandpa grandfather granddaughter grandson niece nephew boss manager "
    "colleague coworker co-worker roommate flatmate housemate neighbour neighbor landlord teacher doctor coach therapist "
    "mother-in-law father-in-law sister-in-law brother-in-law mentor bandmate team band",
}
_do = re.compile(r"^do (?=(?:really )?(?:like|love|enjoy|live|work|have|eat|speak)\b)").sub
"""Of "I do like it", after the one who speaks."""
_DENIED = {"isn't": "is not", "doesn't": "does not", "can't": "cannot"}
KIN_ATTRIBUTE = {word: attribute for attribute, words in _KIN.items() for word in words.split()}
_kin = "|".join(sorted(map(re.escape, KIN_ATTRIBUTE), key=len, reverse=True))
_theirs = re.compile(
    rf"(?:My|my|Our|our)\s+(?P<relation>(?:(?:best|older|younger|little|big|elder|twin|eldest|youngest|oldest|late"
    rf"|good|close|new|old|baby|first|second|ex)[ -]){{0,2}}(?:{_kin})),?"
    rf"(?:\s+(?P<name>{_NAME}),?)?(?P<rest>'s\s.*|\s+\S.*)"
).fullmatch
_thing = re.compile(
    r"(?:My|my|Our|our)\s+(?P<thing>[\w' -]{1,60}?)\s+(?P<rest>(?:is|are|was|were|starts?|begins?|ends?|expires?"
    r"|takes? place|comes?|opens?|arrives?|leaves?|runs? out|got|has|have|will|broke|died|fell|[a-z]{3,}ed)\b.*)"
).fullmatch
_DANGLING = frozenset(
    ["it", "its", "it's", "he", "she", "they", "him", "them", "this", "that", "these", "those", "there",
     "here", "one", "ones", "such", "theirs", "she's", "he's", "they're", "they've", "that's", "us"]
)  # fmt: skip
_LEANING = frozenset(["her", "his", "their", "himself", "herself", "themselves"])
_loose_this = re.compile(
    r"\bthis(?=\s(?:cute|cool|great|new|really|big|beautiful|lovely|nice|huge|crazy|super|wonderful|fantastic|gorgeous)\b)"
).sub
_word = re.compile(r"[\w']+").findall
_names_someone = re.compile(
    rf"\b(?:{_kin}|kids|children|parents|family|friends|fam|girls|boys|daughters|sons|sisters|brothers|pets|dogs|cats)\b"
).search
_first_person = re.compile(
    r"\b(?:my|our|mine|ours|me|myself|ourselves|you|your|yours|yourself|I|I'm|I've|we|us)\b"
).sub


@dataclass(frozen=True, slots=True)
class Clause:
    """Somebody and what is said of them: `Ann`, `lives in Berlin`."""

    subject: str
    """Whom it is about: the speaker, a name, or "Ann's sister"."""
    full_subject: str
    """The same for a sentence: "Marta, Ann's sister,"."""
    predicate: str
    """In the third person, the speaker's words otherwise."""
    relation: str = ""
    """What the subject is to the speaker: `sister`."""
    thing: str = ""
    """What of the speaker's it is about: `birthday`."""
    is_many: bool = False


def clauses_of(sentence: str, speaker: Speaker) -> Iterator[tuple[str, Clause | None]]:
    """The clauses as they were said, each with what it is about, None where that is not clear."""
    statement = _without_question(_without_leads(sentence))
    parts = [statement] if _pair(without_trail(statement)) else _boundary(statement)
    for part in parts:
        said = without_trail(_without_leads(part)).strip()
        if said:
            yield said, clause_in(said, speaker)


def clause_in(said: str, speaker: Speaker) -> Clause | None:
    if found := _person(said):
        return _of_person(found, speaker)
    if found := _pair(said):
        return _of_pair(found, speaker)
    if found := _theirs(said):
        return _of_kin(found, speaker)
    if found := _thing(said):
        owner = _possessive(speaker.name)
        thing = found["thing"]
        return Clause(f"{owner} {thing}", f"{owner} {thing}", found["rest"], thing=thing)
    return None


def without_trail(clause: str) -> str:
    """Without the signs and the empty words at its end."""
    clause = clause.rstrip(_SIGNS)
    while ending := next((each for each in _TRAILING if clause.endswith((f" {each}", f",{each}"))), None):
        clause = clause[: -len(ending)].rstrip(_SIGNS)
    return clause


def told_by(speaker: Speaker, phrase: str) -> str | None:
    """The phrase with names for persons; None where it leans on something that was said before."""
    phrase = _loose_this("a", phrase)
    words = [word.lower() for word in _word(phrase)]
    if _DANGLING.intersection(words):
        return None
    leaning = next((word for word in _word(phrase) if word.lower() in _LEANING), None)
    if leaning and not _names_someone(phrase[: phrase.index(leaning)]):
        return None
    told = _first_person(lambda found: _named(found[0], speaker), phrase)
    return None if "\0" in told else told


def _of_person(found: re.Match[str], speaker: Speaker) -> Clause | None:
    is_many = found["who"].lower() == "we"
    rest, short = found["rest"], found["short"]
    adverb = found["adverb"]
    if short == "'d":
        return None
    if short == "'ve" and rest.startswith("got "):
        short, rest = None, "have " + rest[4:]
    if short:
        auxiliary = AUXILIARIES[short]
        predicate = f"{plural_of(auxiliary) if is_many else auxiliary} {without_adverbs(adverb + rest)}"
    else:
        verb, _, after = _do("", rest).partition(" ")
        told = told_verb(verb, is_many=is_many)
        if told is None or (not is_many and verb in ("are", "were")):
            return None
        predicate = f"{adverb}{told} {after}".strip()
    predicate = without_adverbs(predicate)
    subject = f"{speaker.name} and others" if is_many else speaker.name
    return Clause(speaker.name, subject, predicate, is_many=is_many)


def _of_pair(found: re.Match[str], speaker: Speaker) -> Clause | None:
    verb, _, after = without_adverbs(found["rest"]).partition(" ")
    told = told_verb(verb, is_many=True)
    if told is None:
        return None
    both = f"{speaker.name} and {_possessive(speaker.name)} {found['other']}"
    return Clause(speaker.name, both, f"{told} {after}".strip(), is_many=True)


def _of_kin(found: re.Match[str], speaker: Speaker) -> Clause:
    relation, name, rest = found["relation"], found["name"], found["rest"].strip()
    owned = f"{_possessive(speaker.name)} {relation}"
    if rest.startswith("'s "):
        rest = "is " + rest[3:] if not rest.startswith("'s name ") else rest
    verb, _, after = rest.partition(" ")
    rest = f"{_DENIED.get(verb, verb)} {after}".strip()
    full = f"{name}, {owned}," if name else owned
    return Clause(name or owned, full, rest, relation=relation)


def _possessive(name: str) -> str:
    return f"{name}'s"


def _named(word: str, speaker: Speaker) -> str:
    word = word.lower()
    if word in ("my", "our", "mine", "ours"):
        return _possessive(speaker.name)
    if word == "me":
        return speaker.name
    if word == "you" and speaker.listener:
        return speaker.listener
    if word in ("your", "yours") and speaker.listener:
        return _possessive(speaker.listener)
    return "\0"


def _without_leads(sentence: str) -> str:
    for _ in range(_MOST_LEADS):
        found = _lead(sentence)
        if not found or not found[0]:
            break
        sentence = sentence[found.end() :]
    return sentence


def _without_question(sentence: str) -> str:
    """What a sentence states before it asks; nothing where it only asks."""
    if not sentence.rstrip("!.… ").endswith("?"):
        return sentence
    tails = [found.start() for found in _question_tail(sentence)]
    if not tails or _asking_start(sentence) or _is_tag(sentence, tails[-1]):
        return ""
    return sentence[: tails[0]]
