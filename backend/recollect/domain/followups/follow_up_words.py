"""The words by which a message leans on what was said before: pronouns, openings, and whole messages that do nothing else.

English, German, French, Spanish, Chinese and Japanese.
"""

import re
from dataclasses import dataclass
from typing import Literal

# ruff: noqa: RUF001 - punctuation of other scripts is meant


Language = Literal["en", "de", "fr", "es"]
Wanted = Literal["male", "female", "someone", "many", "thing", "place"]


@dataclass(frozen=True, slots=True)
class Pronoun:
    """What a pronoun stands for, and whether it says that something belongs to it."""

    wanted: Wanted
    possessive: bool = False


def _table(**groups: tuple[Wanted, bool, str]) -> dict[str, Pronoun]:
    return {word: Pronoun(wanted, owns) for wanted, owns, words in groups.values() for word in words.split()}


PRONOUNS: dict[Language, dict[str, Pronoun]] = {
    "en": _table(
        he=("male", False, "he him himself he's he'd he'll"),
        his=("male", True, "his"),
        she=("female", False, "she hers herself she's she'd she'll"),
        her=("female", True, "her"),
        they=("many", False, "they them themselves theirs they're they've they'd they'll"),
        their=("many", True, "their"),
        it=("thing", False, "it itself it's it'd it'll"),
        its=("thing", True, "its"),
        there=("place", False, "there"),
    ),
    "de": _table(
        er=("male", False, "er ihn ihm"),
        sein=("male", True, "sein seine seinen seinem seiner seines"),
        sie=("female", False, "sie"),
        ihr=("female", True, "ihr ihre ihren ihrem ihrer ihres"),
        they=("many", False, "ihnen denen"),
        es=("thing", False, "es"),
        there=("place", False, "dort dorthin"),
    ),
    "fr": _table(
        il=("male", False, "il"),
        elle=("female", False, "elle"),
        one=("someone", False, "lui"),
        son=("someone", True, "son sa ses"),
        they=("many", False, "ils elles eux"),
        leur=("many", True, "leur leurs"),
        there=("place", False, "là-bas"),
    ),
    "es": _table(
        el=("male", False, "él"),
        ella=("female", False, "ella"),
        su=("someone", True, "su sus suyo suya"),
        they=("many", False, "ellos ellas"),
        ello=("thing", False, "ello"),
        there=("place", False, "allí allá ahí"),
    ),
}

LANGUAGE_WORDS: dict[Language, frozenset[str]] = {
    "en": frozenset("the is are was who what where when why how of and in to does did do her his it they".split()),  # noqa: SIM905
    "de": frozenset("der die das ist sind war wer was wo wann warum wie und nicht mit seine ihre er sie hat dort wie von".split()),  # noqa: SIM905
    "fr": frozenset("le les est sont qui que quoi où quand pourquoi comment et ses sa son elle il dans avec est-il a-t-il quel quelle".split()),  # noqa: SIM905
    "es": frozenset("el los es son quién qué dónde cuándo cómo por y sus su ella él con en cuál quiénes está".split()),  # noqa: SIM905
}  # fmt: skip

# "It" and "there" that stand for nothing.
EXPLETIVE = re.compile(
    r"""\bit(?:'s|\ is|\ was|\ will\ be|'ll\ be|\ has\ been|\ seems?|\ looks?\ like|\ turns\ out|\ takes\ (?:time|courage))?\ +
            (?:not\ |so\ |very\ |really\ |quite\ |too\ |still\ |getting\ )?
            (?:rain\w*|snow\w*|hail\w*|hot|cold|warm|dark|late|early|sunny|windy|cloudy|time|true\ that|possible|necessary
            |important|likely|clear|obvious|safe\ to|okay\ to|ok\ to|better\ to|best\ to|hard\ to|easy\ to|worth\ \w+ing
            |that|like\ that|as\ if|about\ time|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b
      | \b(?:is|was|isn't|will|does|would|did)\ it\ +(?:be\ )?(?:really\ |ever\ )?
            (?:true|possible|necessary|important|likely|safe|okay|ok|worth|better|legal|normal|bad|hard|easy|common
            |rain\w*|snow\w*|cold|hot|warm|dark|late|take\ to|mean\ to|make\ sense\ to)\b
      | \bwhat\ (?:time|day|date|year)\ is\ it\b | \bhow\ (?:is|was|'s)?\ ?it\ going\b | \bma(?:k|d)e\ it\ to\b
      | \bit\ (?:take|took|takes)\ (?:me|us|you|him|her|them|for|to)\b | \bit\ (?:is|was|feels|felt)\ like\b
      | \b(?:like|hate|love|appreciate)\ it\ (?:when|if)\b | \btake\ it\ (?:easy|that)\b | \bit's\ me\b
      | \bthere\ (?:is|are|was|were|will|has|have|must|should|might|may|can|exists?|isn't|aren't)\b | \bthere's\b
      | \b(?:is|are|was|were|will|isn't|aren't|wasn't|be)\ there\b(?=\ \w) | \b(?:hi|hello|hey|who's|anybody|anyone)\ there\b
      | \bes\ (?:regnet|schneit|gibt|geht|ist\ (?:kalt|warm|heiß|spät|möglich|wahr|wichtig))\b | \bgibt\ es\b | \bgeht\ es\b
      | \bist\ es\ (?:wahr|möglich|kalt|warm|spät)\b
      | \bil\ (?:y\ a|faut|pleut|neige|fait|est\ (?:possible|vrai|important|\w+\ heures?))\b | \b(?:heure\ est|fait|pleut|faut|y\ a-t)-il\b
    """,
    re.IGNORECASE | re.VERBOSE,
)  # fmt: skip

# Messages that are about the last answer and say nothing of what it was.
_AGAIN = r"(?:that|this|it|them|these|those|the\ (?:above|answer|text|last\ (?:answer|part|one|point))|your\ (?:last\ )?(?:answer|reply|response|explanation))"
ABOUT_THE_ANSWER = re.compile(
    rf"""(?:(?:ok(?:ay)?|now|and|so|then|thanks|great)[,.!]?\ +)*
        (?:please\ +)?(?:(?:can|could|would|will)\ you\ +)?(?:please\ +)?(?:just\ +)?
        (?: (?:summari[sz]e|sum\ up|shorten|repeat|rephrase|reword|rewrite|paraphrase|translate|simplify|explain|expand(?:\ on)?
              |elaborate(?:\ on)?|clarify|continue|condense|format|proofread|correct|improve|restate|recap)
            (?: \ +{_AGAIN}(?:\b.{{0,80}})?
              | (?:\ +(?:again|briefly|further|more|shorter|differently|in\ (?:more\ )?detail|once\ more
                  |(?:in|into|to)\ +(?:(?:one|two|three|a\ few|fewer|simple|simpler|plain|other)\ \w+|\w+)
                  |for\ (?:a|an)\ (?:child|kid|beginner|layman)|like\ i(?:'m|\ am)\ five))* )
          | (?:say|put|write|do|try)\ +{_AGAIN}\ +(?:again|in|as|more|differently|shorter|simply|once)\b.{{0,60}}
          | make\ +{_AGAIN}\ +(?:a\ (?:bit|little)\ +)?(?:much\ +)?(?:more|less|shorter|longer|simpler|clearer|briefer|funnier|better|into)\b.{{0,60}}
          | (?:a\ (?:bit|little)\ +)?(?:shorter|longer|simpler|briefer|in\ (?:one|two|three|a\ few|simple)\ \w+|in\ other\ words|as\ a\ (?:list|table))
        )(?:,?\ please)?
      | (?:bitte\ +)?(?:kannst\ du\ +)?(?:fasse?|wiederhole?|übersetze?|erkläre?|kürze?)\ +(?:das|es|dies)\b.{{0,60}}
      | (?:kannst\ du\ das|das\ bitte)\ .{{0,40}}(?:zusammenfassen|wiederholen|kürzen|übersetzen|erklären)
      | (?:kürzer|noch\ einmal|nochmal|in\ einem\ satz)(?:,?\ bitte)?
      | (?:peux-tu\ +)?(?:résume|répète|traduis|explique|raccourcis|reformule)r?(?:-le|-la|-les|-moi)?(?:\ +(?:ça|cela|ceci))?\b.{{0,40}}
      | (?:puedes\ +)?(?:resume|resúmelo|repite|repítelo|traduce|tradúcelo|explica|explícalo|acorta)r?(?:lo)?(?:\ +(?:eso|esto))?(?:\ +(?:en|más|otra)\b.{{0,40}})?
      | (?:请|請)?(?:把(?:它|这|那|这个|那个))?(?:总结|總結|概括|重复|翻译|解释)(?:一下)?(?:它|这个|那个|这|那|成.{{0,6}})?(?:吧)?
      | (?:用)?一句话(?:总结|概括)?(?:一下)?
      | (?:それ|これ)を.{{0,10}}(?:要約|まとめ|翻訳|説明|繰り返)\w{{0,8}} | (?:もっと)?短く(?:して)?(?:ください)? | (?:要約|まとめ)て?(?:して)?(?:ください)?
    """,
    re.IGNORECASE | re.VERBOSE,
)  # fmt: skip

# Messages that only ask for more.
CONTINUES = re.compile(
    r"""(?:and\ |but\ |so\ )?(?:why|why\ not|how|how\ so|how\ come|really|since\ when|when|where|who|which|which\ one|what\ else|who\ else
        |what\ then|then\ what|for\ example|such\ as|like\ what|go\ on|continue|carry\ on|tell\ me\ more|more|more\ details?|any\ more
        |anything\ else|are\ you\ sure|is\ that\ (?:true|right|so|all)|says\ who|what\ do\ you\ mean(?:\ by\ that)?|elaborate|explain
        |give\ me\ (?:an\ example|more(?:\ details?)?|examples)|how\ (?:many|much|long|far|often|old)|why\ is\ that|how\ does\ that\ work
        |what\ does\ that\ mean|which\ (?:one\ )?is\ (?:the\ )?(?:\w+er|\w+est|best|worse)|(?:give|show|tell|list|suggest|name)(?:\ me)?(?:\ \w+)?\ more|with\ whom|by\ whom|until\ when|what\ for)
      | (?:und\ |aber\ )?(?:warum|wieso|weshalb|wie|wann|wo|wer|wirklich|weiter|mehr|mehr\ details|zum\ beispiel|wie\ das|was\ noch
        |wer\ noch|bist\ du\ sicher|erzähl\ mir\ mehr|warum\ nicht)
      | (?:et\ |mais\ )?(?:pourquoi|comment|quand|où|qui|vraiment|continue|encore|par\ exemple|pourquoi\ pas|quoi\ d'autre|dis-m'en\ plus)
      | (?:y\ |pero\ )?(?:por\ qué|cómo|cuándo|dónde|quién|de\ verdad|continúa|sigue|más|por\ ejemplo|por\ qué\ no|qué\ más|cuéntame\ más
        |cuántos\ años\ tiene|dónde\ (?:vive|nació|está)|cuándo\ (?:nació|murió|llega))
      | (?:那)?(?:为什么|為什麼|怎么|什么时候|在哪里|哪里|谁|真的吗|继续|然后呢|还有呢|还有吗|比如|怎么会|详细说说|再说一点)(?:呢|呀|啊)?
      | (?:なぜ|どうして|なんで|いつ|どこ|誰|本当|続けて|それで|他には|例えば|もっと(?:教えて|詳しく)?)(?:ですか|に)?
    """,
    re.IGNORECASE | re.VERBOSE,
)  # fmt: skip

# "And in Paris?": the last question, with something else in its place.
INSTEAD = re.compile(
    r"""^[¿¡\s]*(?:
        (?:and|but|ok(?:ay)?,?|so)?\ *(?:what|how)\ +about\ +(?!(?:we|you|i|us)\b)
      | (?:and|or)\ +(?:what\ +)?(?:of\ +)?
      | (?:und|oder)\ +(?:was\ ist\ mit\ +|wie\ (?:ist|sieht)\ es\ (?:mit|in|aus\ in)\ +)?
      | was\ ist\ mit\ +
      | (?:et|ou)\ +(?:pour\ +|qu'en\ est-il\ de\ +)?
      | (?:y|o)\ +(?:qué\ tal\ +|qué\ pasa\ con\ +)?
    )(?P<rest>\S.*?)[\s?!.]*$""",
    re.IGNORECASE | re.VERBOSE,
)  # fmt: skip
INSTEAD_CJK = re.compile(
    r"^(?:那么?)?(?P<zh>[^，。？?\s]{1,12}?)呢[？?]?$|^(?:じゃあ、?)?(?P<ja>[^、。？?\s]{1,12}?)は[？?]$"
)

PREPOSITIONS = frozenset(
    (  # noqa: SIM905
        "in at on to from for with by about near during since before after of between without im am nach aus für mit von "
        "bei zu seit à a en au aux dans pour avec chez depuis de du para con desde sobre"
    ).split()
)
ASKING = frozenset(
    (  # noqa: SIM905
        "who what when where why how which whose is are was were do does did can could should would will has have if "
        "then i you we he she it they wer was wann wo warum wie welche welcher welches ist sind hat haben kann wird qui que "
        "quoi quand où pourquoi comment quel quelle est est-ce quién qué cuándo dónde cómo cuál es por"
    ).split()
)
"""What begins with one of these, or holds a verb of them, is a question of its own."""

ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1, "former": 1, "latter": -1, "1st": 1, "2nd": 2, "3rd": 3,
    "erste": 1, "zweite": 2, "dritte": 3, "letzte": -1, "premier": 1, "première": 1, "deuxième": 2, "seconde": 2,
    "troisième": 3, "dernier": -1, "dernière": -1, "primero": 1, "primera": 1, "segundo": 2, "segunda": 2,
    "tercero": 3, "tercera": 3, "último": -1, "última": -1,
}  # fmt: skip
NTH = re.compile(
    r"\b(?:the|der|die|das|den|dem|le|la|l'|el)\s*(?P<nth>" + "|".join(map(re.escape, ORDINALS)) + r")"
    r"(?:\s+(?:one|option|point|item|idea|suggestion|answer|choice))?(?=\s*(?:[?!.,;]|$|\b(?:is|are|was|in|do|does|and|better)\b))"
    r"|第(?P<zh>[一二三四五])(?:个|個|つ|の|番目)?",
    re.IGNORECASE,
)
CHINESE_NUMBERS = {"一": 1, "二": 2, "三": 3, "四": 4, "五": 5}

# "That" and "this" that stand alone, or before a word that only makes sense with what was said.
POINTING = re.compile(
    r"""\b(?:(?:about|like|of|after|before|than|with|for|is|was|does|did|do|why|how|mean|explain|understand|know|said|say|see
            |about\ all|doing|need|use|fix|change|try|want|think\ of|because\ of|from|over)\ +(?:that|this|these|those)
          (?=\s*(?:[?!.,;]|$|\b(?:in|to|for|with|again|but|and|as|by|mean|means|work|works|happen|happened|so|true|possible|called
            |different|important|one|too|all|better|now|then|when|because|if|going|done|over)\b))
        | ^\W*(?:that|this|these|those)(?:'s|\ (?:is|was|are|were|one|sounds|means|makes|works|does|doesn't|didn't|isn't)\b)
        | \b(?:that|those|the\ (?:same|other|former|latter))\ +(?:ones?|book|film|movie|person|place|thing|idea|city|country|project|trip
            |problem|error|function|topic|subject|company|case|man|woman|guy|way|event|story|song|plan|part|answer|question|word)\b
        | \b(?:do|make|try|say)\ the\ same\b
        | \b(?:was\ (?:ist|bedeutet|heißt)|warum\ ist|wie\ (?:geht|funktioniert)|und)\ das(?=\s*(?:[?!.]|$|so\b|genau\b))
        | \bdavon\b | \bdarüber\b | \bdamit\b | \bdazu\b | \bça\b | \bcela\b | \bceci\b | \beso\b | \besto\b
      )""",
    re.IGNORECASE | re.VERBOSE,
)  # fmt: skip

CJK_PRONOUN = re.compile(
    "(?P<many>他们|她们|它们|他們|她們|彼らの?|彼女ら|彼女たち)|(?P<female>她|彼女)|(?P<male>(?<![其吉排])他(?![人乡鄉])|彼(?!岸))"
    "|(?P<thing>它|(?<![^\u3040-\u309f]で)それ(?!から|で|なら|とも|に)|これ(?!から|で|まで))|(?P<place>那里|那裡|那儿|那边|そこ(?!で、)|あそこ)"
)
CJK_POINTING = re.compile("(?:这|那|這)(?:个|個|些|件|本|部|样)|その(?!後|他|うち|ため)|あの(?!、)|这是|那是")
