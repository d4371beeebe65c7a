"""English verbs: their tenses, and the third person."""

from recollect.domain.recall.words import BASE_FORM


def third_person(verb: str) -> str:
    """Of a verb in the present tense: "go" is "goes"."""
    if verb in ("have", "do", "be"):
        return {"have": "has", "do": "does", "be": "is"}[verb]
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else verb + "s"


def is_past(verb: str) -> bool:
    verb = verb.lower()
    return verb in _PAST or (verb.endswith("ed") and len(verb) > 3 and verb not in _NO_PAST)


_PRESENT_OF_IRREGULAR = frozenset(
    ["am", "is", "are", "does", "goes", "has", "been", "gone", "done", "seen", "taken", "known", "given",
     "written", "spoken", "grown", "fallen", "drawn", "broken", "driven", "worn", "chosen", "eaten", "sung",
     "swum", "flown", "ridden", "thrown", "drunk", "forgotten", "shown", "hidden", "woken", "kids",
     "children", "men", "women", "people", "feet", "teeth", "mice", "wives", "gotten"]
)  # fmt: skip
_PAST = (frozenset(BASE_FORM) - _PRESENT_OF_IRREGULAR) | frozenset(
    ["read", "put", "cut", "set", "hit", "hurt", "quit", "let", "dealt", "dug", "fed", "froze", "hung", "laid",
     "lent", "lit", "rang", "rose", "shook", "shut", "sank", "stole", "struck", "swore", "tore", "wept",
     "bent", "bet", "bit", "bled", "blew", "burnt", "dreamt", "knelt", "learnt", "leapt", "sewed", "slid",
     "stuck", "swept", "swung", "spilt", "split", "rebuilt", "signed"]
)  # fmt: skip
_NO_PAST = frozenset(["need", "feed", "speed", "exceed", "succeed", "proceed", "embed", "indeed"])
AUXILIARIES = {"am": "is", "'m": "is", "are": "are", "'re": "are", "was": "was", "were": "were", "'ve": "has", "'ll": "will",
           "will": "will", "can": "can", "can't": "cannot", "cannot": "cannot", "don't": "does not", "didn't": "did not",
           "won't": "will not", "haven't": "has not", "wasn't": "was not", "must": "must", "couldn't": "could not"}  # fmt: skip


def without_adverbs(predicate: str) -> str:
    """Without the small words before a verb that say nothing of it."""
    words = predicate.split()
    while words and words[0] in _EMPTY_ADVERBS:
        words.pop(0)
    return " ".join(words)


_EMPTY_ADVERBS = frozenset(
    ["just", "recently", "finally", "also", "actually", "already", "even", "still", "really", "now",
     "currently", "absolutely", "definitely", "truly", "totally", "officially", "honestly", "kinda",
     "happily", "then"]
)  # fmt: skip


def told_verb(verb: str, *, is_many: bool) -> str | None:
    """A verb after "I" or "we" in the third person; None for what is no verb in lower case."""
    if verb in AUXILIARIES:
        return plural_of(AUXILIARIES[verb]) if is_many else AUXILIARIES[verb]
    if not verb.isalpha() or not verb.islower():
        return None
    return verb if is_past(verb) or is_many else third_person(verb)


def plural_of(auxiliary: str) -> str:
    swapped = {
        "is": "are",
        "has": "have",
        "does not": "do not",
        "has not": "have not",
        "was": "were",
        "was not": "were not",
    }
    return swapped.get(auxiliary, auxiliary)
