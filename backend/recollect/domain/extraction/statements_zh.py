"""Statements in Chinese sentences, simplified and traditional."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from recollect.domain.extraction.earnest import asks_in_chinese, is_unsure, reports, supposes
from recollect.domain.extraction.moments import Moment, moments_in, written_out
from recollect.domain.extraction.own_words import OMITTED
from recollect.domain.extraction.predicates_zh import (
    KIN,
    KIN_ATTRIBUTE,
    LEAVINGS,
    QUITTINGS,
    chinese_traits,
    what_follows,
)
from recollect.domain.extraction.statement import Said, Statement

# ruff: noqa: RUF001 - Chinese punctuation is meant


_kana = re.compile(r"[\u3041-\u30ff]").search
_clauses = re.compile(r"[，,；;：:。！!\s]+").split
_lead = re.compile(
    r"(?:你好|您好|嗨|对了|對了|是啊|是的|对|對|嗯|好的|好|其实|其實|不过|不過|但是|但|而且|另外|还有|還有|所以|因为|因為|顺便说一下|请记住|請記住|记住|記住|说实话|老实说|真的|哈哈|谢谢|謝謝)+(?=我|$)"
).sub
_speaker = re.compile(
    r"(?:我家(?=[有养養])|我(?!们|們|想|觉得|覺得|猜|怕|希望|以为|以為|听|聽)|本人)(?P<rest>.+)"
).fullmatch
_SURNAMES = (
    "王李张張刘劉陈陳杨楊黄黃赵趙吴吳周徐孙孫马馬朱胡郭何高林罗羅郑鄭梁谢謝宋唐许許韩韓冯馮邓鄧曹彭曾肖蕭田董袁潘蔡蒋蔣余"
    "杜叶葉程苏蘇魏吕呂丁任沈姚卢盧姜崔钟鐘谭譚陆陸汪范金石廖贾賈夏韦韋方白邹鄒孟熊秦邱江尹薛阎段雷侯龙龍史陶黎贺賀顾顧毛郝龚"
    "龔邵万萬钱錢严嚴武戴莫孔向汤湯"
)
_called = (
    rf"(?!{KIN}|白天|周[末一二三四五六日天]|高中|高兴|高興|大多|大概|大学|大學|大约|大約|大家|大二|大三|老是|老家|小学|小學|小时|小時|马上|馬上"
    r"|曾经|曾經|向来|向來|任何|万一|萬一|何时|刚刚|剛剛|常常|天天|往往|渐渐|偏偏|慢慢|好好|年年|偶偶|仅仅|整整|明明|单单)"
    rf"(?:[小阿老大][\u4e00-\u9fff]|(?P<twice>[\u4e00-\u9fff])(?P=twice)|[{_SURNAMES}][\u4e00-\u9fff]{{1,2}}?)"
)
"""A pattern for what somebody may be called by: 小雨, 浩浩, 李明."""
_no_name = re.compile(
    rf"[了着过過来來去吃喝帮幫给給做送别別我你您他她它谁誰们們人车車快不这這那]|外[卖賣]|什[么麼]|{KIN}"
).search
"""叫了外卖 and 叫朋友来 call for something, and tell no name."""
_LONGEST_NAME = 4
_theirs = re.compile(
    rf"我(?:家的|的|家)?(?P<relation>{KIN})(?P<name>{_called}|)"
    r"(?P<rest>(?:现在|現在|目前|一直|平时|平時|其实|其實|都|就|还|還|是|叫|住|在|也|很|最|不|喜欢|喜歡|讨厌|討厭|今年|对|對|有|养|養|会|會|要|搬|去|来自|來自|已经|已經|刚|剛|吃|死|病死|离世|離世|[0-9上下昨明后後]).*)"
).fullmatch
_quotes = re.compile(r"(?<!我)(?:说|說|告诉我|告訴我|问我|問我)$").search
"""Before a comma: what follows are somebody else's words, or what they think."""
_carries_on = re.compile(
    r"(?:也|还|還|现在|現在|目前|今年)*(?:住在|住|是一|是个|是個|是名|叫|对|對|不吃|吃素|喜欢|喜歡|不喜欢|不喜歡|讨厌|討厭|会说|會說|在.{2,15}工作|主修|专业|專業|来自|來自|今年|养|養|有)"
).match
_names = re.compile(r"(?:名字?)?叫").match
_introduces = re.compile(
    r"(?:(?:[一两兩二三四五六七八九十几幾有]|\d{1,2}|了)[个個只隻条條匹位名部本首款家张張辆輛台臺套]|很多|许多|許多|好多|一些)"
    r"[\u4e00-\u9fffA-Za-z]{1,12}$"
).search
"""What comes next may be said of whom or what it ends with."""
_of_one = re.compile(
    rf"(?<=有|养|養|了)([一]?[个個只隻条條匹位名][\u4e00-\u9fff]{{0,4}}?(?:{KIN}))(?=名?叫|名字叫)"
).sub
_DANGLING = re.compile(
    r"它|这个|這個|那个|那個|那里|那裡|这里|這裡|那边|那邊|这边|他|她|咱|你|您|此|其中"
).search
_past_sign = re.compile(r"了|过|過|开始|開始|认识的|認識的").search
_plan_sign = re.compile(
    r"要|将|將|打算|计划|計劃|准备|準備|得|必须|必須|有|去|飞|飛|回|参加|參加|出发|出發|截止|是|带|帶|到期|开始|開始|考|搬|见|見|开会|開會|结婚|結婚|出差|面试|面試|手术|手術"
).search
_no_plan = re.compile(r"本来|本來|原本|原来|原來|取消|想|应该|應該|不用|没|沒|别|別|喜欢|喜歡|每").search
_dated_thing = re.compile(
    r"(?:[\u4e00-\u9fffA-Za-z0-9]{0,12}?)(?:截止|期限|考试|考試|会议|會議|婚礼|婚禮|面试|面試|比赛|比賽|演出|航班|手术|手術|发布会|報告|报告|护照|合同"
    r"|签证)[\u4e00-\u9fff]{0,8}?(?:是|在|定在|到期)"
).match
_tells_age = re.compile(r"\d+[岁歲]了?$|[一二三四五六七八九十]+[岁歲]了?$").search
_also = re.compile(r"^(?:也|还|還|倒是|其实|其實|就|都)+").sub
_died = re.compile(r".*?(?:去世|离世|離世|死)了").fullmatch
_us = re.compile(r"我们|我們|咱们").sub
_home = r"(?:(?!办公|辦公|客厅|客廳|卧室|臥室|房间|房間|云|雲|平台|服务器|伺服器|数据库|數據庫)[\u4e00-\u9fffA-Za-z])"
_moves = tuple(
    (attribute, re.compile(pattern).match)
    for attribute, pattern in (
        (
            "lives_in",
            rf"[^把将將帮幫替]{{0,16}}?(?:搬到了?|搬去了?|搬来了?|搬來了?)(?P<v>{_home}{{2,12}}?)了?$",
        ),
        *(("lives_in", rf"[^没沒不想要别別]{{0,16}}?{leaving}") for leaving in LEAVINGS),
        *(("works_at", rf"[^没沒不想要别別]{{0,16}}?{quitting}") for quitting in QUITTINGS),
    )
)
_OF_ONESELF = ("works_as", "works_at", "studies")
"""是一名护士 ends with what one is oneself."""
_LONGEST = 60
_SHORTEST_QUESTION = 3
"""Characters: 对吗, 是吧."""


@dataclass(frozen=True, slots=True)
class _Subject:
    name: str
    full: str
    relation: str = ""
    is_told: bool = True
    """Whether the last clause said something of them that is understood, so that the next may say what they are called."""


def chinese_statements(said: Said) -> Iterator[Statement]:
    """What the speaker states in this sentence about themselves or theirs."""
    if _kana(said.text) or supposes(said.text):
        return
    subject: _Subject | None = None
    for part in _stated(said.text):
        clause = _lead("", part)
        if _quotes(clause):
            return
        if not clause or len(clause) > _LONGEST or OMITTED in clause or reports(clause) or is_unsure(clause):
            subject = None
            continue
        subject, predicate = _parsed(clause, subject, said)
        event = _event(clause, subject, said)
        moved = _moved(predicate) if event is not None and not event.is_plan else None
        if event is not None:
            yield _as_move(event, predicate, *moved) if moved else event
        if subject is not None:
            if not (event and event.is_plan) and not moved:
                yield from _traits(subject, predicate, said)
            subject = _narrowed(subject, predicate, said)


def _moved(predicate: str) -> tuple[str, str] | None:
    """Where somebody lives or works from then on, or no longer: the attribute and the place."""
    return next(
        ((attribute, found["v"]) for attribute, matches in _moves if (found := matches(predicate))), None
    )


def _as_move(event: Statement, predicate: str, attribute: str, place: str) -> Statement:
    text = f"{event.text.removesuffix('。')}{what_follows(predicate, place)}。"
    return replace(event, text=text, attribute=attribute, value=place)


def _stated(sentence: str) -> list[str]:
    """The clauses, without those that ask; none where the last one only asks whether the others are so."""
    clauses = [clause for clause in _clauses(_of_one(r"\1，", sentence)) if clause]
    if sentence.rstrip().endswith(("？", "?")) and clauses:
        last = clauses.pop()
        if len(last) <= _SHORTEST_QUESTION:
            return []
    return [clause for clause in clauses if not asks_in_chinese(clause)]


def _parsed(clause: str, before: _Subject | None, said: Said) -> tuple[_Subject | None, str]:
    name = said.speaker.name
    if found := _theirs(clause):
        relation, called = found["relation"], found["name"]
        owned = f"{_spaced(name)}的{relation}"
        full = f"{called}（{owned}）" if called else owned
        return _Subject(called or owned, full, relation), found["rest"]
    if found := _speaker(clause):
        return _Subject(name, _spaced(name)), found["rest"].removeprefix("的")
    if (
        before is not None
        and _carries_on(clause)
        and (before.is_told or before.relation or not _names(clause))
    ):
        return before, clause
    return None, ""


def _traits(subject: _Subject, predicate: str, said: Said) -> Iterator[Statement]:
    name = said.speaker.name
    for trait in chinese_traits(predicate):
        if _DANGLING(trait.value) or (trait.attribute == "name" and not _is_name(trait.value)):
            continue
        told = _also("", trait.predicate)
        if trait.attribute == "age":
            told = written_out(told, moments_in(told, said.at, said.time_zone, leaning="past"))
        told = told.replace("我", _spaced(name))
        if trait.attribute == "name" and subject.relation:
            attribute = KIN_ATTRIBUTE[subject.relation] or "other"
            text = f"{_spaced(name)}的{subject.relation}{told}。"
            yield Statement(text, name, attribute, trait.value)
        else:
            text = f"{subject.full}{told}{what_follows(trait.predicate, trait.value)}。"
            yield Statement(text, subject.name, trait.attribute, trait.value)
    if subject.relation and subject.full.endswith("）"):
        attribute = KIN_ATTRIBUTE[subject.relation] or "other"
        text = f"{_spaced(name)}的{subject.relation}叫{subject.name}。"
        if attribute == "has_pet" and _died(predicate):
            text = f"{_spaced(name)}不再有叫{subject.name}的{subject.relation}。"
        yield Statement(text, name, attribute, subject.name)


def _is_name(value: str) -> bool:
    return not _no_name(value) and (value[0].isascii() or len(value) <= _LONGEST_NAME or "和" in value)


def _narrowed(subject: _Subject, predicate: str, said: Said) -> _Subject | None:
    """After "I have a daughter", "is called …" is said of her; of a plural, or of a film, of nobody that is known."""
    traits = list(chinese_traits(predicate))
    for trait in traits:
        if trait.attribute in ("has_child", "has_sibling", "has_pet"):
            relation = next(
                (kin for kin in sorted(KIN_ATTRIBUTE, key=len, reverse=True) if trait.value.endswith(kin)),
                None,
            )
            if relation is None:
                return None
            owned = f"{_spaced(said.speaker.name)}的{relation}"
            return _Subject(owned, owned, relation)
        if trait.attribute == "name" and subject.relation and _is_name(trait.value):
            return _Subject(
                trait.value,
                f"{trait.value}（{_spaced(said.speaker.name)}的{subject.relation}）",
                subject.relation,
            )
    if _introduces(predicate) and not any(trait.attribute in _OF_ONESELF for trait in traits):
        return None
    return replace(subject, is_told=bool(traits))


def _event(clause: str, subject: _Subject | None, said: Said) -> Statement | None:
    if not ("我" in clause or _dated_thing(clause)) or "生日" in clause or _tells_age(clause):
        return None
    past = moments_in(clause, said.at, said.time_zone, leaning="past")
    if not past or _DANGLING(clause.replace("其他", "")):
        return None
    moments = moments_in(clause, said.at, said.time_zone, leaning="future")
    ahead = next((each for each in moments if each.is_future or each.end > said.at), None)
    behind = next((each for each in past if each.begin <= said.at), None)
    owner = subject.name if subject is not None and subject.relation else said.speaker.name
    if (
        behind is not None
        and _past_sign(clause)
        and not (ahead is not None and ahead.is_future and "了" not in clause)
    ):
        return _told(clause, past, owner, "did", behind, said)
    if ahead is not None and _plan_sign(clause) and not _no_plan(clause):
        return _told(clause, moments, owner, "", ahead, said)
    return None


def _told(
    clause: str, moments: list[Moment], subject: str, attribute: str, moment: Moment, said: Said
) -> Statement | None:
    name = _spaced(said.speaker.name)
    dated = written_out(clause, moments)
    text = _us(f"{name}等人", dated).replace("我", name)
    value = "".join(
        clause[begin:end]
        for begin, end in zip(
            [0, *(each.stop for each in moments)],
            [*(each.start for each in moments), len(clause)],
            strict=True,
        )
    )
    value = _us("", value).lstrip("我").strip()
    return Statement(f"{text}。", subject, attribute, value, moment) if value else None


def _spaced(name: str) -> str:
    """Latin letters stand apart from Chinese ones."""
    return f"{name} " if name and name[-1].isascii() else name
