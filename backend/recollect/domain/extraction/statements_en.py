"""Statements in English sentences."""

import re
from collections.abc import Iterator
from dataclasses import replace

from recollect.domain.extraction.clauses_en import KIN_ATTRIBUTE, Clause, clause_in, clauses_of, told_by
from recollect.domain.extraction.earnest import is_unsure, reports, supposes
from recollect.domain.extraction.events_en import (
    Tense,
    core_of,
    is_event,
    is_life_event,
    is_timeless,
    says_what,
    shortened,
    tense_of,
    time_of,
)
from recollect.domain.extraction.moments import Moment, moments_in, written_out
from recollect.domain.extraction.own_words import OMITTED
from recollect.domain.extraction.predicates_en import ON_AND_ON, traits_in, what_follows
from recollect.domain.extraction.statement import Said, Statement
from recollect.domain.extraction.verbs_en import is_past, without_adverbs

_named_is = re.compile(
    r"(?:'s name is|is (?:called|named)|is (?=[A-Z]\w+$))\s*(?P<v>[A-Z][\w'-]{0,30}(?:\s[A-Z][\w-]{0,30}){0,2})"
).match
_died = re.compile(
    r"(?:(?:has|just|recently|sadly|suddenly)\s)*(?:died|passed\saway|(?:was|had\sto\sbe)\sput\s(?:down|to\ssleep))"
    r"(?=$|[,.;!]|\s(?:last|this|yesterday|today|recently|suddenly|of|from|a|two|three|several|some|\d{1,2}"
    r"|(?:in|on)\s[A-Z\d]\w*)\b)"
).match
_goes_on = re.compile(rf"{ON_AND_ON}(?:living|lived|working|worked)\s").match
_SINCE = ("lives_in", "works_at")
_dies = re.compile(r"\b(?:died|passed away|put (?:down|to sleep))\b").search
_own_name = re.compile(
    r"(?:(?i:my (?:full )?name is|my name's)|(?i:I'm called|I am called|I go by)(?=\s+[A-Z]))\s+"
    r"(?!(?i:not|on|in|at|the|an?|no|of|from|to|too|very|really|quite|so|pretty|rather|hard|difficult|easy|long|short|common|rare"
    r"|unusual|weird|strange|funny|boring|spell?ed|spelt|written|pronounced|listed|mentioned|missing|misspell?ed|misspelt|wrong|right"
    r"|correct|unknown|private|secret|none|nobody|irrelevant|important|unimportant|known|taken|all|also|always|usually|actually|just"
    r"|only|what|whatever|based|unique|foreign|after|for|with|under|up|out|off|mud|your|my|his|her|its|their|our|that|this|it)\b)"
    r"(?P<v>[A-Z][\w'-]{0,30}(?:\s[A-Z][\w-]{0,30}){0,2}|[a-z][a-z'-]{1,20}(?:\s[a-z][a-z-]{1,20})?(?=$|[,.;!]))"
).match
"""A name in small letters ends the clause: other words may follow one in capitals."""
_email = re.compile(
    r"my (?:new )?e?-?mail(?: address)? is\s+(?P<v>[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4})",
    re.IGNORECASE,
).match
_phone = re.compile(
    r"my (?:new )?(?:phone|mobile|cell|telephone)(?: number)? is\s+(?P<v>\+?[\d() .-]{6,20}\d)", re.IGNORECASE
).match
_birthday = re.compile(
    r"(?:my birthday is|I was born on)\s+(?:on\s+)?(?P<v>(?:the\s)?(?:\d{1,2}(?:st|nd|rd|th)?\s(?:of\s)?[A-Z]\w{2,8}"
    r"|[A-Z]\w{2,8}\s\d{1,2}(?:st|nd|rd|th)?)(?:,?\s\d{4})?)",
    re.IGNORECASE,
).match
_mother_tongue = re.compile(
    r"my (?:native language|mother tongue|first language) is\s+(?P<v>(?!not\b)[A-Z]\w{2,20})", re.IGNORECASE
).match
_zone = re.compile(r"my time ?zone is\s+(?P<v>(?!not\b)[\w/+:-]{2,40})", re.IGNORECASE).match
_favourite = re.compile(
    r"my (?P<what>(?:all-time )?(?:favou?rite)\s[\w' -]{2,30}?)\s(?:is|are)\s(?P<v>(?:[^,.;!]|\.(?=\w)){2,60})",
    re.IGNORECASE,
).match
_LABELLED = (
    ("name", _own_name, "{name}'s name is {value}."),
    ("email", _email, "{name}'s email address is {value}."),
    ("phone", _phone, "{name}'s phone number is {value}."),
    ("birthday", _birthday, "{name}'s birthday is {value}."),
    ("native_language", _mother_tongue, "{name}'s native language is {value}."),
    ("time_zone", _zone, "{name}'s time zone is {value}."),
)
_quotes = re.compile(
    r"(?:he|she|they|my\s\w{1,20}|(?!I\b)[A-Z]\w{0,20})\s(?:said|says|told\sme|told\sus|wrote|writes|replied|answered)",
    re.IGNORECASE,
).fullmatch
"""Before a comma: what follows are somebody else's words, or what they think."""
_dated_thing = re.compile(
    r"(?P<thing>(?:the|our|my|this)\s(?:[\w'-]{1,20}\s){0,5}?)(?P<rest>(?:is|are|starts?|begins?|ends?|expires?"
    r"|takes? place|comes? (?:off|out)|opens?|closes?)\b.*)",
    re.IGNORECASE,
).fullmatch
_remind = re.compile(
    r"(?:please |can you |could you )?remind me (?P<v>(?:to|about|of|that)\s.{3,120})", re.IGNORECASE
).match
_headless = re.compile(
    r"(?:(?:just|finally|recently)\s)?(?:went|got|took|had|finished|started|saw|visited|met|bought|made|joined"
    r"|attended|ran|signed|came|spent|celebrated|moved|adopted|tried|gonna|going to|planning to|off to)\s",
    re.IGNORECASE,
).match
_DATED_NOUNS = re.compile(
    r"\b(?:deadline|exam|test|appointment|meeting|interview|flight|train|concert|wedding|birthday|party|conference"
    r"|release|launch|trip|surgery|operation|lease|contract|passport|visa|rent|invoice|report|thesis|paper"
    r"|presentation|cast|course|class|game|match|tournament|race|show|exhibition|festival|holiday|vacation"
    r"|anniversary|graduation|ceremony|event|visit|move|delivery|package|due date|hearing|check-?up|lesson|workshop"
    r"|performance|recital|audition|competition|gig|tour|retreat|hike|picnic|dinner|parents|reunion|parade)\b",
    re.IGNORECASE,
).search


def english_statements(said: Said) -> Iterator[Statement]:
    """What the speaker states in this sentence about themselves or theirs."""
    if OMITTED in said.text and supposes(said.text):
        return
    conditional = supposes(said.text)
    opening = ""
    for words, clause in clauses_of(said.text, said.speaker):
        if supposes(words):
            return
        if _quotes(words):
            return
        if OMITTED in words or is_unsure(words) or reports(words):
            opening = ""
            continue
        if clause is None and _is_time(words, said):
            opening = f"{words} "
            continue
        yield from _in_clause(opening + words, None if opening else clause, said, allow_plans=not conditional)
        opening = ""


def _is_time(words: str, said: Said) -> bool:
    """Whether it only says when: "last Friday" before ", I went …"."""
    moments = moments_in(words, said.at, said.time_zone)
    return bool(moments) and (moments[0].start, moments[0].stop) == (0, len(words))


def _in_clause(words: str, clause: Clause | None, said: Said, *, allow_plans: bool) -> Iterator[Statement]:
    labelled = list(_labelled(words, said))
    if labelled:
        yield from labelled
        return
    event = _event(words, clause, said)
    if event is not None and event.is_plan and not allow_plans:
        event = None
    if clause is None or clause.thing or clause.is_many:
        yield from [event] if event else []
        return
    yield from _kinship(clause, said)
    traits = [] if event is not None and event.is_plan else list(_traits(clause, said))
    moved = next((trait for trait in traits if trait.attribute in _SINCE and event is not None), None)
    if event is not None and moved is not None:
        # One statement says both: where, and since when.
        follows = "".join(what_follows(trait) for trait in traits_in(clause.predicate))
        yield replace(
            moved,
            text=f"{event.text.removesuffix('.')}{follows}.",
            moment=None if _goes_on(clause.predicate) else event.moment,
        )
        return
    yield from [event] if event else []
    yield from traits
    if event is None and is_life_event(clause.predicate) and not traits:
        yield from _life_event(clause, said)


def _labelled(words: str, said: Said) -> Iterator[Statement]:
    name = said.speaker.name
    for attribute, matches, wording in _LABELLED:
        if found := matches(words):
            text = wording.format(name=name, value=found["v"])
            yield Statement(text, name, attribute, found["v"])
    if found := _favourite(words):
        value = told_by(said.speaker, core_of("is " + found["v"]) or "it")
        if value is not None:
            text = f"{name}'s {found['what'].lower()} {value}."
            yield Statement(text, name, "likes", value.removeprefix("is "))


def _traits(clause: Clause, said: Said) -> Iterator[Statement]:
    for trait in traits_in(clause.predicate):
        told, value = told_by(said.speaker, trait.predicate), told_by(said.speaker, trait.value)
        if told is None or value is None or not is_timeless(told):
            continue
        text = f"{clause.full_subject} {told}{what_follows(trait)}."
        yield Statement(text, clause.subject, trait.attribute, value)


def _kinship(clause: Clause, said: Said) -> Iterator[Statement]:
    """That the speaker has a sister of that name; of an animal that died, that they no longer have it."""
    relation = clause.relation
    attribute = KIN_ATTRIBUTE.get(relation.split(" ")[-1], "") if relation else ""
    name = clause.subject if "," in clause.full_subject else ""
    if not name and relation and (found := _named_is(clause.predicate)):
        name = found["v"]
        attribute = attribute or "other"
    if name and attribute:
        article = "an" if relation[0] in "aeio" else "a"
        speaker, thing = said.speaker.name, f"{article} {relation} named {name}"
        if attribute == "has_pet" and _dies(clause.predicate):
            if _died(clause.predicate):
                yield Statement(f"{speaker} no longer has {thing}.", speaker, attribute, name)
        else:
            yield Statement(f"{speaker} has {thing}.", speaker, attribute, name)


def _event(words: str, clause: Clause | None, said: Said) -> Statement | None:
    if found := _remind(words):
        return _told_event(
            "wants to be reminded " + found["v"], said.speaker.name, said.speaker.name, "future", said
        )
    if clause is None:
        return _event_elsewhere(words, said)
    tense = tense_of(clause.predicate)
    if tense is None or (tense == "past" and not is_event(clause.predicate)):
        return None
    if clause.thing and tense == "future" and not _DATED_NOUNS(clause.thing):
        return None
    subject = said.speaker.name if clause.thing or clause.is_many else clause.subject
    return _told_event(clause.predicate, clause.full_subject, subject, tense, said)


def _event_elsewhere(words: str, said: Said) -> Statement | None:
    """In "last week I went …", "the deadline is …" and "went to … yesterday"."""
    name = said.speaker.name
    moments = moments_in(words, said.at, said.time_zone, leaning="past")
    if moments and moments[0].start == 0:
        opening = words[: moments[0].stop]
        rest = words[moments[0].stop :].lstrip(" ,")
        clause = clause_in(rest, said.speaker)
        core = core_of(clause.predicate) if clause else None
        if clause is None or core is None:
            return None
        tense = tense_of(clause.predicate)
        if tense is None or (tense == "past" and not is_event(clause.predicate)):
            return None
        subject = said.speaker.name if clause.is_many or clause.thing else clause.subject
        return _told_event(
            f"{core} {opening[0].lower()}{opening[1:]}", clause.full_subject, subject, tense, said
        )
    if (found := _dated_thing(words)) and _DATED_NOUNS(found["thing"]):
        thing = found["thing"].strip()
        return _told_event(found["rest"], thing[0].upper() + thing[1:], name, "future", said)
    first = words.split(" ", 1)[0]
    if _headless(words) or (first[:1].isupper() and is_past(first)):
        predicate = without_adverbs(words[0].lower() + words[1:])
        for opening in ("gonna", "going to", "planning to", "off to"):
            if predicate.startswith(opening + " "):
                return _told_event(
                    "is " + predicate.replace("gonna", "going to", 1), name, name, "future", said
                )
        return _told_event(predicate, name, name, "past", said) if is_event(predicate) else None
    return None


def _told_event(
    predicate: str, full_subject: str, subject: str, tense: Tense, said: Said
) -> Statement | None:
    whole = told_by(said.speaker, full_subject) if full_subject != said.speaker.name else full_subject
    core = core_of(predicate)
    while core is not None and whole is not None:
        moments = moments_in(core, said.at, said.time_zone, leaning=tense)
        moment = time_of(core, moments, said.at, tense)
        if moment is None:
            return None
        told = _self_contained(core, moments, said)
        if told is not None and (whole != said.speaker.name or says_what(_without(core, moments))):
            value = _without(core, moments)
            return Statement(f"{whole} {told}.", subject, "did" if tense == "past" else "", value, moment)
        core = shortened(core)
    return None


def _self_contained(core: str, moments: list[Moment], said: Said) -> str | None:
    bare = _without(core, moments)
    if told_by(said.speaker, bare) is None or not is_timeless(bare):
        return None
    return told_by(said.speaker, written_out(core, moments))


def _without(core: str, moments: list[Moment]) -> str:
    edges = [0, *(edge for moment in moments for edge in (moment.start, moment.stop)), len(core)]
    kept = [core[begin:end].strip() for begin, end in zip(edges[::2], edges[1::2], strict=True)]
    return " ".join(part for part in kept if part)


def _life_event(clause: Clause, said: Said) -> Iterator[Statement]:
    """What changes a life is kept without its date too."""
    core = core_of(without_adverbs(clause.predicate))
    told = told_by(said.speaker, core) if core else None
    if core and told is not None and is_timeless(told):
        yield Statement(f"{clause.full_subject} {told}.", clause.subject, "did", core)
