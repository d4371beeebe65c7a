"""What is worth putting into a prompt: how near a memory must be to the query, and which texts tell nothing."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.memory.text_signs import question_share
from recollect.memory.words import words_in

_LEAST_CHARS = 8
_LEAST_UNSPACED = 3
_LONGEST_QUESTION = 60
_letters = re.compile(r"[^\W\d_]").findall
_unspaced = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
).findall
_words = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?").findall
_SMALL_TALK = frozenset(
    (  # noqa: SIM905 - a hundred lines of one word each say no more
        "hi hello hey hiya howdy yo good morning afternoon evening night day bye goodbye see you later soon take care thanks "
        "thank thx ty cheers please welcome you're ok okay k kk yes yeah yep no nope sure fine great nice cool awesome perfect "
        "wow lol haha right exactly agreed got it understood sorry oops how are doing what's up there again very much so a lot "
        "hallo guten morgen tag abend danke bitte tschüss ja nein gut super bonjour bonsoir salut merci oui non au revoir hola "
        "gracias buenos días buenas sí adiós vale ciao grazie for your the help all i'm well to meet"
    ).split()
)
_SMALL_TALK_CJK = re.compile(
    r"(?:你好|您好|谢谢|謝謝|再见|早上好|晚上好|好的|是的|嗯|こんにちは|おはよう(?:ございます)?|こんばんは|ありがとう(?:ございます)?|はい|いいえ|さようなら)+[!?。！？~ ]*"  # noqa: RUF001
).fullmatch


@dataclass(frozen=True, slots=True)
class Floor:
    """The least evidence that a memory is about what was asked.

    Likeness is the cosine of query and memory. The figures fit all-MiniLM-L6-v2, chosen on two of LoCoMo's and six of
    BEAM's conversations, with their own questions, with those of others, and with thirty everyday requests: of the
    requests that no memory answers, 3 to 12 % still got one (all of them without a floor), and of the evidence among
    the first five hits 97 % stayed. Standing out among the owner's own rows told far less: something always does.
    """

    alike: float = 0.35
    """Enough by itself."""
    alike_with_words: float = 0.25
    """Enough together with `shared_words`."""
    shared_words: float = 0.3
    """Of the query's telling words, the part that the memory holds too."""
    words_alone: float = 0.34
    """The same, where there is no likeness to go by."""

    def lets_pass(self, likeness: float | None, query: str, words: Sequence[str], text: str) -> bool:
        """`words` are the query's telling words."""
        held = len(set(words).intersection(words_in(text)))
        share = held / max(1, len(words))
        if likeness is None or not is_latin(query):
            # An English model finds all texts in another script alike: there a shared word is needed.
            pairs = 2 if _unspaced(query) else len(words)
            return share >= self.words_alone or (held >= pairs > 0)
        return likeness >= self.alike or (likeness >= self.alike_with_words and share >= self.shared_words)


def is_latin(text: str) -> bool:
    """Most of its letters are."""
    if text.isascii():
        return True
    letters: list[str] = _letters(text)
    return sum(letter < "\u0250" for letter in letters) * 2 > len(letters)


def is_small_talk(text: str) -> bool:
    """Greetings, thanks and the like: nothing in them can be looked for."""
    said = [word.casefold() for word in _words(text[:200].replace("\u2019", "'"))]
    return not said or all(word in _SMALL_TALK for word in said) or bool(_SMALL_TALK_CJK(text.strip()[:200]))


def tells_nothing(text: str) -> bool:
    """Too short, small talk, or a question and nothing else: whoever asked once did not tell."""
    bare = text.strip()
    least = _LEAST_UNSPACED if _unspaced(bare) else _LEAST_CHARS
    return (
        len(bare) < least
        or (len(bare) <= _LONGEST_QUESTION and question_share(bare) > 0.99)
        or (len(bare) <= 200 and is_small_talk(bare))
    )
