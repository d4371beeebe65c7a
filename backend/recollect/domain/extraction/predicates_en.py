"""What an English predicate in the third person says of somebody: "lives in Berlin" is where they live."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from recollect.domain.extraction.draft import OPPOSED
from recollect.domain.extraction.not_places import may_be_home

# ruff: noqa: RUF001 - dashes and quotation marks as people type them


_PLACE = r"(?:the\s)?[A-Z][\w.'-]{1,30}(?:[ -](?:[A-Z][\w.'-]{0,30}|(?:de|la|del|upon|am|el|do|da)\b)){0,4}(?:,\s[A-Z][\w.]{1,20}(?:\s[A-Z]\w{1,20})?)?"
_SOME = r"(?:a|an|one|two|three|four|five|six|seven|eight|nine|ten|\d{1,2}|several|some)"
_ADJ = r"(?:[\w'-]{2,20}\s){0,2}"
_JOBS = (
    "nurse|doctor|teacher|engineer|developer|programmer|librarian|lawyer|chef|cook|baker|pilot|driver|student"
    "|designer|writer|author|artist"
    "|painter|photographer|journalist|scientist|researcher|professor|lecturer|accountant|carpenter|plumber"
    "|electrician|mechanic|farmer|gardener"
    "|architect|dentist|vet|veterinarian|therapist|psychologist|counselor|counsellor|pharmacist|chemist|biologist"
    "|physicist|mathematician"
    "|musician|singer|dancer|actor|actress|manager|consultant|analyst|translator|interpreter|waiter|waitress"
    "|barista|bartender|hairdresser"
    "|firefighter|paramedic|policeman|soldier|officer|clerk|secretary|salesman|cashier|tutor|coach|instructor"
    "|editor|producer|director|nanny"
    "|surgeon|physiotherapist|midwife|economist|historian|geologist|civil servant|social worker|entrepreneur"
    "|freelancer|contractor|recruiter"
    "|banker|broker|judge|tailor|florist|optician|technician|administrator|data scientist|product manager"
    "|project manager|bus driver|welder"
)
_ANIMALS = "dogs?|cats?|pupp(?:y|ies)|kittens?|rabbits?|hamsters?|parrots?|horses?|turtles?|tortoises?|snakes?|guinea pigs?|birds?|goldfish|lizards?|geckos?|pets|ferrets?|chickens|budgies?|beagles?|labradors?|poodles?|terriers?"
_KNOWN_THE = r"(?!the\s(?:sea|beach|ocean|outdoors|mountains|countryside|theatre|theater|opera|cinema|gym|forest|snow|rain|cold|heat|dark|violin|piano|guitar|cello|drums|flute)(?:$|\s(?:and|or|in|at|with)\b)|the\s[A-Z])the\s"
_NOT = r"(?:is\snot|does\snot|is\sno\slonger|no\slonger)\s"
_EMPLOYER = r"[A-Z][\w.&'-]{0,30}(?:\s[A-Z][\w.&'-]{0,30}){0,4}"
LEAVING_A_JOB = (
    r"(?:(?:quit|left|lost)\s(?:my|his|her|their)\sjob\s(?:at|with)|(?:resigned|retired)\sfrom|(?:quit|stopped)\sworking\s(?:at|for)"
    r"|(?:got|was|has\sbeen|been)\s(?:fired|sacked|laid\soff|let\sgo)\sfrom)"
)
ON_AND_ON = r"has\s(?:been\s)?"
_so_long = r"(?:(?=\ssince\b)|\sfor\s(?:over\s|almost\s|about\s|nearly\s|more\sthan\s)?[\w-]{1,12}\s(?:years?|months?|weeks?|decades?)(?:\snow)?(?=$|[,.;!]|\s(?:and|but|so)\b))"
"""It began long ago, and goes on."""
_ANY_MORE = r"any\s?(?:more|longer)(?=$|[,.;!]|\s(?:and|but|so|since|because)\b)"
_LIKED = r"(?P<v>(?:[^,.;!()–—]|\.(?=\w)|(?<=\b[MDS][rst])\.(?=\s[A-Z])){2,120})"
"""A dot ends it but for one within a name: Node.js, Dr. Who."""
_for_now = (
    r".*\b(?:now|today|tonight|tomorrow|yet|currently|nowadays|until|when|while|unless|anything|at\s(?:the\smoment|present)"
    r"|these\sdays|this\s\w+)\b|(?!.*\bany\s?(?:more|longer)\b).*\bbecause\b"
)
"""What somebody cannot do for a time, or under conditions, they can."""
_no_work = r"(?:\w+ly\s|pretty\s|very\s)?(?:former|ex|good|great|decent|okay|fine|nice|excellent|amazing|brilliant|bad|terrible|horrible|awful|lousy|poor|mediocre|slow|fast|careful|careless|nervous|better|worse|keen|natural|born|wannabe|would-be|failed|hopeless|useless|hobby|weekend|closet)\b"
"""How well somebody cooks or drives is no trade."""
_PET = rf"{_SOME}\s{_ADJ}(?:{_ANIMALS})(?:\s(?:named|called)\s[A-Z]\w{{1,20}})?"
_ends = r"(?=$|[,.;!]|\s(?:and|but|so|because|with|for|now|from|since|where|which|who|in|at|on|near|right|by|as|when|while|currently|though|these)\b)"
_for_good = (
    r"(?!.*\b(?:back|return(?:ed|ing)?|in\sfavou?r)\b)(?=$|[.;!]|,(?!\s(?:but|then|only)\b)"
    r"|\s(?:last|this|in|on|yesterday|today|recently|because|and\snow|a|two|three|several|some|\d{1,2})\b)"
)
"""After a place that somebody left: no way back follows, and nowhere that they went instead."""


@dataclass(frozen=True, slots=True)
class Trait:
    """An attribute, its value, and how much of the predicate says so."""

    attribute: str
    value: str
    predicate: str


def _pattern(source: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(
        rf"(?P<told>(?:(?:still|now|currently|also|just|recently|actually|originally|really|absolutely|truly|mostly"
        rf"|officially|already|finally|always|generally|usually|totally|definitely|normally)\s){{0,3}}{source})"
    ).match


_TRAITS: tuple[tuple[str, Callable[[str], re.Match[str] | None]], ...] = tuple(
    (attribute, _pattern(source))
    for attribute, source in (
        ("lives_in", rf"{_NOT}(?:lives?|living|resides?)\sin\s(?P<v>{_PLACE})"),
        ("lives_in", rf"(?:has\s)?(?:just\s|recently\s)?(?:moved|relocated)\s(?:away\sfrom|out\sof)\s(?P<v>{_PLACE})(?:\sfor\sgood)?{_for_good}"),
        ("lives_in", rf"(?:has\s)?(?:just\s|recently\s)?left\s(?P<v>{_PLACE})\sfor\sgood{_for_good}"),
        ("works_at", rf"(?:has\s)?(?:just\s|recently\s)?{LEAVING_A_JOB}\s(?P<v>{_EMPLOYER})(?=$|[,.;!]|\s(?:last|this|in|on|yesterday|today|recently|because|after|and|a|two|three|\d{{1,2}})\b)"),
        ("works_at", rf"{_NOT}(?:works?|working)\s(?:at|for)\s(?P<v>[\w&' -]{{2,40}}?)(?=$|[,.;!]|\s(?:any\s?more|either)\b)"),
        ("lives_in", rf"(?:lives|is (?:still |now |currently )?living|is (?:now )?based|resides)\s(?:here\s)?in\s(?P<v>{_PLACE})"),
        ("lives_in", rf"(?:has\s)?(?:just\s|recently\s)?(?:moved|relocated)\s(?:back\s|over\s)?(?:from\s{_PLACE}\s)?to\s(?P<v>{_PLACE})"),
        ("lives_in", rf"{ON_AND_ON}(?:living|lived)\sin\s(?P<v>{_PLACE}){_so_long}"),
        ("works_at", rf"{ON_AND_ON}(?:working|worked)\s(?:at|for)\s(?P<v>{_EMPLOYER}){_so_long}"),
        ("comes_from", rf"(?:is|comes)\s(?:originally\s)?from\s(?P<v>{_PLACE})"),
        ("comes_from", rf"grew\sup\sin\s(?P<v>{_PLACE})"),
        ("comes_from", rf"was\sborn\s(?:and\sraised\s)?in\s(?P<v>(?!\d){_PLACE})"),
        ("age", r"(?:is|just turned|turned)\s(?P<v>\d{1,3})(?:\syears\sold)?(?=$|[,.;!]|\sand\b|\snow\b)"),
        ("relationship", r"(?:is|got|has been)\s(?:happily\s|recently\s|newly\s)?(?P<v>married|single|divorced|engaged(?!\sin\s[a-z]|\swith\s(?:the|a|this)\b)|widowed)" + _ends),
        ("diet", r"is\s(?:no\slonger|not)\s(?:a\s|an\s)?(?:strict\s)?(?P<v>vegetarian|vegan|pescatarian|pescetarian)"),
        ("diet", r"is\s(?:a\s|an\s)?(?:strict\s|lifelong\s)?(?P<v>vegetarian|vegan|pescatarian|pescetarian)"),
        ("avoids", r"(?:does not|never)\seats?\s(?!out\b|here\b)(?P<v>[\w ]{2,40}?)(?=$|[,.;!]|\s(?:and|but|so|because|since)\b)"),
        ("diet", r"(?:only\seats|eats\sonly)\s(?!(?:on|at|in|when|once|twice|if|after|before|with|to|for|because|one|two)\b)(?P<v>[\w ]{2,40}?)" + _ends),
        ("allergic_to", r"is\sno\slonger\sallergic\sto\s(?P<v>[\w ]{2,40}?)(?=$|[,.;!]|\s(?:but|so|because|that|which)\b)"),
        ("allergic_to", rf"is\snot\sallergic\sto\s(?P<v>[\w ]{{2,40}}?)\s{_ANY_MORE}"),
        ("allergic_to", r"is\s(?:very\s|severely\s|badly\s|quite\s)?allergic\sto\s(?!(?:bullshit|nonsense|stupidity|idiots|people|work|meetings|mornings|exercise|effort)\b)(?P<v>[\w ]{2,40}?(?:(?:,\s|\sand\s|\sor\s)[\w]{2,20}){0,3})(?=$|[,.;!]|\s(?:but|so|because|that|which)\b)"),
        ("allergic_to", r"is\s(?P<v>lactose|gluten|fructose|histamine)[ -]intolerant"),
        ("allergic_to", r"has\s(?:a|an)\s(?P<v>[\w ]{2,30}?)\sallergy"),
        ("native_language", r"is\sa\snative\s(?P<v>[A-Z]\w{2,20})\sspeaker"),
        ("works_as", rf"works\sas\s(?P<v>(?:a|an|the)\s[\w' -]{{2,40}}?){_ends}"),
        ("works_as", rf"is\s(?P<v>(?:a|an)\s(?!{_no_work}){_ADJ}(?:{_JOBS})){_ends}"),
        ("works_at", rf"works\s(?:at|for)\s(?P<v>(?:a\s|an\s|the\s)?(?:[A-Z][\w.&'-]{{0,30}}(?:\s[A-Z][\w.&'-]{{0,30}}){{0,4}}|{_ADJ}(?:company|bank|startup|school|university|hospital|shop|agency|firm|clinic|lab|library|museum|restaurant|hotel|ngo|charity))){_ends}"),
        ("studies", rf"(?:studies|is\s(?:currently\s)?studying|majors\sin|is\smajoring\sin|is\sdoing\s(?:a|my)\s(?:PhD|master'?s|bachelor'?s|degree)\sin)\s(?!for\b|hard\b|abroad\b)(?P<v>[\w' &-]{{2,40}}?){_ends}"),
        ("speaks", r"(?:speaks|can\sspeak)\s(?P<v>(?:a little\s|some\s|fluent\s)?[A-Z]\w{2,20}(?:(?:,\s|,?\sand\s)(?:a little\s|some\s|a bit of\s)?[A-Z]\w{2,20}){0,5})"),
        ("plays", rf"(?:plays|can\splay)\s(?!with\b|a\srole|around|along|it\b|out\b|the\sfool\b|devil|dumb\b|dead\b|hard\b|safe\b|games\b)(?P<v>(?:the\s)?[\w' -]{{2,30}}?){_ends}"),
        ("can", rf"can\s(?P<v>(?:drive|swim|cook|bake|code|sew|ski|dance|sing|juggle|knit|ride)\b[\w' -]{{0,30}}?){_ends}"),
        ("can", rf"(?:cannot|can\sno\slonger)\s(?P<v>(?:drive|swim|cook|bake|code|sew|ski|dance|sing|juggle|knit|ride)\b(?!{_for_now})[\w' -]{{0,30}}?)(?=$|[,.;!]|\s(?:and|but|so|because)\b)"),
        ("prefers", r"(?:prefers)\s(?!(?:the\s)?(?:option|version|variant|choice|answer|approach)\b)" + _LIKED),
        ("dislikes", r"(?:no\slonger\s(?:likes|enjoys)|hates|dislikes|detests|cannot\sstand|does\snot\s(?:really\s)?(?:like|enjoy))\s(?!when\b|how\b|to\ssay|that\b)" + _LIKED),
        ("likes", r"(?:really\s|absolutely\s|also\s)?(?:loves|likes|enjoys|adores)\s(?!how\b|when\b|that\b|what\b|the\sway|the\sidea|to\ssee\b|to\shear\b|to\sknow\b|hearing|seeing|being\sable)" + _LIKED),
        ("likes", r"is\s(?:a\s)?(?:really\s|very\s|also\s)?(?:big\s|huge\s|massive\s)?(?:fan\sof|into|keen\son|crazy\sabout|passionate\sabout|fond\sof|obsessed\swith)\s" + _LIKED),
        ("has_pet", rf"no\slonger\shas\s(?P<v>{_PET})(?=$|[,.;!]|\s(?:and|but|so)\b)"),
        ("has_pet", rf"does\snot\shave\s(?P<v>{_PET})\s{_ANY_MORE}"),
        ("has_pet", rf"(?:has|have|has got|owns)\s(?P<v>{_SOME}\s{_ADJ}(?:{_ANIMALS})(?:\s(?:named|called)\s[A-Z][\w]{{1,20}}(?:(?:,\s|\sand\s)[A-Z]\w{{1,20}}){{0,4}})?)(?=$|[,.;!]|\s(?:and|but|so|at|who|that|as|with|now|named|called|too)\b)"),
        ("has_child", rf"(?:has|has got)\s(?P<v>{_SOME}\s{_ADJ}(?:kids?|child(?:ren)?|sons?|daughters?|boys|girls)(?:\s(?:named|called)\s[A-Z]\w{{1,20}}(?:(?:,\s|\sand\s)[A-Z]\w{{1,20}}){{0,4}})?)" + _ends),
        ("has_sibling", rf"(?:has|has got)\s(?P<v>{_SOME}\s{_ADJ}(?:sisters?|brothers?|siblings?)(?:\s(?:named|called)\s[A-Z]\w{{1,20}}(?:(?:,\s|\sand\s)[A-Z]\w{{1,20}}){{0,4}})?)" + _ends),
        ("owns", rf"(?:owns|drives)\s(?!a\shard\sbargain)(?P<v>{_SOME}\s[\w' -]{{2,40}}?){_ends}"),
        ("owns", rf"(?:has|has got)\s(?P<v>(?:a|an)\s{_ADJ}(?:car|bike|bicycle|motorbike|motorcycle|boat|house|flat|apartment|cottage|piano|guitar|violin|cello|telescope|camera|van)){_ends}"),
        ("other", rf"(?:is|has\sbeen)\s(?P<v>learning\s(?!a\s(?:lot|ton|bit)|so\b|how\b|more\b|to\b|that\b|from\b|about\b)[\w' -]{{2,40}}?){_ends}"),
        ("other", rf"(?P<v>volunteers\s(?:at|for|with)\s[\w&' -]{{2,50}}?){_ends}"),
        ("other", rf"works\s(?P<v>in\s[\w&' -]{{2,40}}?){_ends}"),
        ("other", rf"is\s(?P<v>(?:afraid|scared|terrified)\sof\s[\w' -]{{2,40}}?){_ends}"),
    )
)  # fmt: skip
_at_employer = re.compile(
    r"(?:\sat|\sfor)\s(?P<v>(?:a\s|an\s|the\s)?(?:small\s|large\s"
    r"|big\s)?(?:[A-Z][\w.&'-]{0,30}(?:\s[A-Z][\w.&'-]{0,30}){0,4}|company|bank|startup|school|university|hospital"
    r"|agency|firm|clinic))"
).match
_from_place = re.compile(rf"\sfrom\s(?P<v>{_PLACE})").match
_is_denied = re.compile(_NOT).match
_leaves = re.compile(r"(?:has\s)?(?:just\s|recently\s)?(?:(?:moved|relocated)\s(?:away|out)|left)\s").match
_quits = re.compile(rf"(?:has\s)?(?:just\s|recently\s)?{LEAVING_A_JOB}\s").match
_no_longer = re.compile(r"\s+(?:any\s?more|anymore|no longer|used to)\b").search
_loose_value = re.compile(_KNOWN_THE).match
_cut = re.compile(
    r"\s+(?:-+\s|so much|a lot|the most|very much|as much|too much|because|since|when|while|where|which|who|though"
    r"|although|if|so that|so|but|as it|as they|and (?:it|that|this|they|he|she|I|we|you|the|have|had|has|is|was|am"
    r"|can|will|would|always|want|hope|never|think|feel)|these days|right now|at the moment|nowadays|ever since"
    r"|after all|after a|thanks to|for sure)\b.*$",
    re.IGNORECASE,
).sub
_lately = re.compile(r"\s+(?<!and\s)(?:now|again|any\s?more|any\slonger)$", re.IGNORECASE).sub
_not_wholly = re.compile(r"\s+(?:when|while|where|if)\b", re.IGNORECASE).match
_only_some = re.compile(r"\s+(?:who|which|where)\b", re.IGNORECASE).match
_not_much = re.compile(r"\s+(?:(?:so|very|as|too)\smuch|a\slot|the\smost)\b", re.IGNORECASE).match
_of_listener = re.compile(
    r"(?:all\s)?(?:your|yours|you|the\sfact|all\sthe|both|everything|how)\b", re.IGNORECASE
).match
_article_and_word = re.compile(r"\b(?:a|an|the|very|more|my)\s\w+$").search
_LOOSE = frozenset(["likes", "dislikes", "prefers"])
_MOST_WORDS = 12


def what_follows(trait: Trait) -> str:
    """What else is so when somebody left a place or a job; nothing for what is so by itself."""
    if trait.attribute == "lives_in" and _leaves(trait.predicate):
        return ", and no longer lives there"
    return ", and no longer works there" if trait.attribute == "works_at" and _quits(trait.predicate) else ""


def traits_in(predicate: str) -> list[Trait]:
    """The first attribute that the predicate names, and what hangs on it."""
    for attribute, matches in _TRAITS:
        found = matches(predicate)
        if found is None:
            continue
        if attribute == "lives_in" and not may_be_home(found["v"]):
            return []
        is_over = (
            _no_longer(predicate, found.end("v")) or found["v"].endswith(" no more")
        ) and attribute not in ("other", "diet", "avoids", "dislikes")
        if is_over and not _is_denied(predicate):
            return []
        return _with_company(attribute, found, predicate)
    return []


def _is_cut_short(value: str, after: str) -> bool:
    """Whether it ends amid "a sleek, modern look"."""
    return after.startswith(",") and _article_and_word(value) is not None


def _is_disliked_in_part(found: re.Match[str], value: str) -> bool:
    """Who does not like it very much, or hates it when it rains, may like it."""
    rest = found["v"][len(value) :]
    return _not_wholly(rest) is not None or (" not " in found["told"] and _not_much(rest) is not None)


def _with_company(attribute: str, found: re.Match[str], predicate: str) -> list[Trait]:
    value = _cut("", found["v"]).strip()
    if attribute == "dislikes" and _is_disliked_in_part(found, value):
        return []
    if attribute in _LOOSE and _only_some(found["v"][len(value) :]):
        return []
    if attribute in OPPOSED or attribute == "avoids":
        value = _lately("", value)
    if attribute in _LOOSE and (_is_cut_short(value, predicate[found.end("v") :]) or value == "to"):
        return []
    if attribute in _LOOSE and (
        _loose_value(value) or _of_listener(value) or len(value.split()) > _MOST_WORDS
    ):
        return []
    told = (
        found["told"][: found.start("v") + len(value)]
        if found.end("v") == found.end("told")
        else found["told"]
    )
    traits = [Trait(attribute, value, told)]
    if attribute == "works_as":
        if employer := _at_employer(predicate, found.end("v")):
            traits.append(Trait("works_at", employer["v"], f"works at {employer['v']}"))
        if place := _from_place(predicate, found.end("v")):
            traits.append(Trait("comes_from", place["v"], f"is from {place['v']}"))
    return traits
