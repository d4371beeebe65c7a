"""Names in Chinese and Japanese, where no capital marks them: by what stands around them."""

import re
from collections.abc import Iterator
from typing import Literal

# ruff: noqa: RUF001 - punctuation of these scripts is meant


_Kind = Literal["person", "place", "group", "thing", "unknown"]
_Gender = Literal["male", "female", ""]
_Found = tuple[str, _Kind, _Gender, bool, int]

_has_cjk = re.compile("[\u3040-\u30ff\u3400-\u9fff]").search
_PLACES = (
    "北京|上海|广州|深圳|成都|杭州|南京|武汉|西安|香港|台北|東京|东京|大阪|京都|横浜|首尔|柏林|巴黎|伦敦|纽约|罗马|马德里|里斯本"
    "|莫斯科|维也纳|慕尼黑|旧金山|洛杉矶|中国|日本|美国|英国|法国|德国|意大利|西班牙|葡萄牙|韩国|印度|俄罗斯|加拿大|澳大利亚"
    "|ベルリン|パリ|ロンドン|ローマ|ニューヨーク|マドリード|リスボン|ソウル|ドイツ|フランス|イタリア|スペイン|アメリカ|イギリス"
)
_SURNAMES = "王李张張刘劉陈陳杨楊赵趙黄吴吳周徐孙孫马馬朱胡郭何高林罗羅郑鄭梁谢謝宋唐许許韩韓冯馮邓鄧曹彭曾肖田董袁潘于蒋蔡余杜叶葉程苏蘇魏吕丁任沈姚卢姜崔钟谭陆汪范金石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤"
_AFTER_NAME = "是的在了和与跟有去说說住来來也会會要想喜到从从把被给給对對吗呢，。？！、：；,?! "
_LETTERS = "(?:(?![是的在了和与跟有去说說住也会會要到把被给給对對吗呢谁誰])[\u3400-\u9fff\u30a0-\u30fa\u30fc-\u30ff]){1,8}"
_patterns: tuple[tuple[re.Pattern[str], _Kind], ...] = (
    (re.compile(r"《([^《》\n]{1,40})》|「([^「」\n]{1,40})」|『([^『』\n]{1,40})』"), "thing"),
    (
        re.compile(f"({_LETTERS}(?:[·・]{_LETTERS}){{1,3}})"),
        "person",
    ),
    (
        re.compile(
            r"([\u3400-\u9fff\u30a0-\u30ff]{1,8}?)(?:さん|くん|君は|ちゃん|様|氏|先生)(?=[はがのをにともへ、。？!?]|$)"
        ),
        "person",
    ),
    (re.compile(f"({_PLACES})"), "place"),
    (re.compile(r"(?:^|[，。？！\n])([\u3400-\u9fff]{2,4}?)(?:是谁|是誰|是什么人)"), "person"),
    (re.compile(r"(?:谁是|誰是)([\u3400-\u9fff]{2,6})(?=[？?。，]|$)"), "person"),
    (re.compile(r"(?:^|[、。？\n])([\u3400-\u9fff\u30a0-\u30ff]{2,10})(?:とは|は誰|って誰)"), "person"),
    (re.compile(f"([{_SURNAMES}][\u3400-\u9fff]{{1,2}}?)(?=[{_AFTER_NAME}]|$)"), "person"),
    (re.compile(r"((?<![\u30a0-\u30ff])[\u30a1-\u30ff]{3,16})"), "unknown"),
    (re.compile(r"(?:^|[，。？！\n])([\u3400-\u9fff]{2,8}?)(?:是什么|是什麼|怎么用)"), "thing"),
)
_she = re.compile("她|彼女").search
_he = re.compile("(?<!其)(?<!吉)他(?![人乡们])|彼(?![女ら])").search
_EVIDENCE_CHARS = 60


def cjk_entities(text: str) -> Iterator[_Found]:
    """The fields of each entity: name, kind, gender, whether it is many, and where it stands."""
    if text.isascii() or not _has_cjk(text):
        return
    for pattern, kind in _patterns:
        for found in pattern.finditer(text):
            group = next(number for number, value in enumerate(found.groups(), 1) if value)
            gender = _gender(text[found.end() : found.end() + _EVIDENCE_CHARS]) if kind == "person" else ""
            yield found[group], kind, gender, False, found.start(group)


def _gender(after: str) -> _Gender:
    he, she = _he(after), _she(after)
    if he and (not she or he.start() < she.start()):
        return "male"
    return "female" if she else ""
