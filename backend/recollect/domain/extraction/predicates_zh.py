"""What a Chinese predicate says of somebody: 住在上海 is where they live."""

import re
from collections.abc import Iterator

from recollect.domain.extraction.predicates_en import Trait

# ruff: noqa: RUF001 - Chinese punctuation is meant


_KIN = {
    "has_sibling": "姐姐 妹妹 哥哥 弟弟 姐 妹 哥 弟",
    "has_parent": "妈妈 爸爸 母亲 父亲 媽媽 母親 父親 妈 爸",
    "has_child": "女儿 儿子 女兒 兒子 孩子 宝宝",
    "partner": "老公 老婆 丈夫 妻子 男朋友 女朋友 男友 女友 太太 先生 爱人 未婚夫 未婚妻",
    "has_pet": "猫 狗 貓 兔子 仓鼠 乌龟 鹦鹉 金鱼 小猫 小狗",
    "": "朋友 同事 老板 经理 室友 邻居 表哥 表弟 表姐 表妹 堂哥 堂弟 奶奶 爷爷 外婆 外公 姥姥 姥爷 叔叔 阿姨 老师 同学",
}
KIN_ATTRIBUTE = {word: attribute for attribute, words in _KIN.items() for word in words.split()}
KIN = "|".join(sorted(KIN_ATTRIBUTE, key=len, reverse=True))
"""A pattern for whoever one has."""
_children, _siblings, _pets = (
    "|".join(sorted(_KIN[attribute].split(), key=len, reverse=True))
    for attribute in ("has_child", "has_sibling", "has_pet")
)
_so = r"(?:也|还|還|现在|現在|目前|一直|其实|其實|就|都|平时|平時|已经|已經|刚|剛|倒是|真的|本来|從小|从小)*"
_much = r"(?:最|很|非常|特别|特別|也|挺|还|還|超|超级|一直|十分|比较|比較|真的|都)*"
_some = r"(?:[一两兩二三四五六七八九十几幾]|\d{1,2})"
_since = r"(?:(?:快|已经|已經|有|差不多)?[一二两兩三四五六七八九十几幾半好多\d]{1,4}(?:年|[个個]多?月|[周週]|天)[多半]?)?"
_jobs = (
    "护士|護士|医生|醫生|老师|老師|教师|教師|工程师|工程師|程序员|程式設計師|律师|律師|厨师|厨師|司机|司機|会计|會計|教授|学生|學生|研究生|大学生"
    "|设计师|設計師|演员|演員|记者|記者|作家|画家|畫家|经理|經理|店员|店員|警察|消防员|军人|翻译|編輯|编辑|摄影师|攝影師|咖啡师|农民|工人|公务员|公務員"
    "|飞行员|空姐|药剂师|藥劑師|牙医|牙醫|兽医|心理咨询师|分析师|产品经理|销售|顾问|架构师|科学家|研究员|博士生|音乐家|歌手|导演|老板"
)
_CITIES = frozenset(
    ["北京", "上海", "广州", "深圳", "杭州", "南京", "成都", "重庆", "武汉", "西安", "天津", "苏州", "长沙", "青岛", "厦门", "大连", "沈阳",
     "郑州", "济南", "合肥", "福州", "昆明", "台北", "香港", "澳门", "东京", "大阪", "新加坡", "伦敦", "纽约", "巴黎", "柏林", "国外", "外地",
     "家", "家里", "北方", "南方", "臺北", "廣州", "重慶", "武漢"]
)  # fmt: skip
_town = r"(?P<v>(?:(?!宿舍|公司|办公室|辦公室|单位|單位|学校|學校|公寓|房子|出租屋|家里|家裡|老家|父母|爸|妈|媽|云|雲|数据库|數據庫|平台|服务器|伺服器|那儿|那里|那裡|那边|那邊|楼|樓)[\u4e00-\u9fffA-Za-z]){2,12}?)"
LEAVINGS = (
    rf"(?:搬离|搬離|搬出)了{_town}$",
    rf"(?:搬离|搬離|搬出){_town}了$",
    rf"(?:从|從){_town}(?:搬走|搬离|搬離|搬出|搬出来|搬出來|搬出去)了$",
    rf"(?:离开|離開)了?{_town}(?:的家)?搬走了$",
)
"""How one tells that one lives somewhere no longer, and not where instead."""
QUITTINGS = (
    r"(?:从|從)(?P<v>(?!公司|单位|單位)[\u4e00-\u9fffA-Za-z0-9]{2,15}?)(?:离职|離職|辞职|辭職|退休)了$",
    r"被(?P<v>(?!公司|单位|單位|老板|老闆|领导)[\u4e00-\u9fffA-Za-z0-9]{2,15}?)(?:裁了|裁员了|裁員了|辞退了|辭退了|开除了|開除了)$",
)
_TRAITS = tuple(
    (attribute, re.compile(f"(?P<told>{_so}{source})").match)
    for attribute, source in (
        ("name", r"(?:的?名字)?(?:叫|名叫|叫做|名字是|名字叫)(?P<v>[\u4e00-\u9fffA-Za-z·]{1,12})$"),
        ("lives_in", r"不再?(?:住|居住)在(?P<v>[\u4e00-\u9fffA-Za-z]{2,12}?)了?$"),
        *(("lives_in", leaving) for leaving in LEAVINGS),
        *(("works_at", quitting) for quitting in QUITTINGS),
        ("works_at", r"不再?在(?P<v>[\u4e00-\u9fffA-Za-z0-9]{2,15}?)(?:工作|上班|任职|任職)了?$"),
        ("lives_in", rf"(?:从|從)[\u4e00-\u9fffA-Za-z]{{2,12}}?(?:搬到了?|搬去了?|搬来了?|搬來了?)(?P<v>[\u4e00-\u9fffA-Za-z]{{2,12}}?){_since}了?$"),
        ("lives_in", rf"(?:住在|定居在|居住在|搬到了?|搬去了?|搬来了?|搬來了?|家在)(?P<v>[\u4e00-\u9fffA-Za-z]{{2,12}}?)(?:生活|居住)?{_since}(?:了|的)?$"),
        ("age", r"(?:今年)?(?P<v>\d{1,3}|[一二三四五六七八九十]{1,4})[岁歲](?:了)?$"),
        ("birthday", r"的?生日[是在](?P<v>(?:\d{4}年)?[\d一二三四五六七八九十]{1,3}月[\d一二三四五六七八九十]{1,3}[日号號])"),
        ("email", r"的?(?:邮箱|電郵|郵箱|电子邮件|email)(?:地址)?[是：:]\s?(?P<v>[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4})"),
        ("phone", r"的?(?:电话|電話|手机|手機)(?:号码?|號碼?)?是(?P<v>\+?[\d -]{6,20})"),
        ("native_language", r"的?母[语語]是(?P<v>[\u4e00-\u9fff]{2,6})"),
        ("comes_from", r"(?:来自|來自|老家[在是])(?P<v>[\u4e00-\u9fff]{2,8})$"),
        ("comes_from", r"是(?P<v>(?!好|坏|男|女|老|新|年轻|普通|个|個|什么|本地|外地|大|一|主持|负责|負責|当事)[\u4e00-\u9fff]{2,6}?)人$"),
        ("comes_from", r"(?:出生在|在)(?P<v>[\u4e00-\u9fff]{2,8}?)(?:出生|长大|長大)(?:的)?$"),
        ("works_as", rf"(?:是|当|當)(?![过過前])(?:[一]?[名位个個])?(?P<v>[\u4e00-\u9fffA-Za-z]{{0,8}}?(?:{_jobs}))$"),
        ("works_at", r"在(?P<v>[\u4e00-\u9fffA-Za-z0-9]{2,15}?)(?:工作|上班|任职|任職)(?:了)?$"),
        ("studies", r"在(?P<v>[\u4e00-\u9fff]{2,12}?)(?:读书|讀書|上学|上學|念书|念書|读研|读博)$"),
        ("studies", r"(?:主修|学的是|學的是|的?专业是|的?專業是|攻读|攻讀)(?P<v>[\u4e00-\u9fff]{2,12})$"),
        ("allergic_to", r"不再[对對](?P<v>[\u4e00-\u9fff、和]{1,12}?)(?:过敏|過敏)了?$"),
        ("allergic_to", r"[对對](?P<v>[\u4e00-\u9fff、和]{1,12}?)(?:已经|已經)?不再?(?:过敏|過敏)了$"),
        ("allergic_to", r"[对對](?P<v>(?:(?![不没沒])[\u4e00-\u9fff、和]){1,12}?)(?:严重|嚴重)?(?:过敏|過敏)"),
        ("diet", r"(?:是)?(?P<v>吃素|吃素的|素食者|素食主义者|纯素)$"),
        ("diet", r"不再?(?:是)?(?P<v>吃素|素食者|素食主义者)了?$"),
        ("avoids", r"不(?:能|太|再)?吃(?P<v>[\u4e00-\u9fff、和]{1,8}?)了?$"),
        ("relationship", r"(?P<v>结婚了|結婚了|已婚|单身|單身|离婚了|離婚了|未婚|订婚了)$"),
        ("prefers", r"(?:更喜欢|更喜歡|更爱|宁愿|寧願|比较喜欢|比較喜歡)(?P<v>[\u4e00-\u9fffA-Za-z0-9 ]{1,20})$"),
        ("likes", r"最(?:喜欢|喜歡|爱|愛)的[\u4e00-\u9fff]{1,6}?是(?P<v>(?!你|您|他|她|它|什|哪|谁|誰|不|没|沒)[\u4e00-\u9fffA-Za-z0-9 《》]{1,20})$"),
        ("dislikes", rf"{_much}(?:不再?太?(?:喜欢|喜歡|爱[吃喝看]?|愛[吃喝看]?)|讨厌|討厭|受不了|最怕)(?!的|了$)(?P<v>[\u4e00-\u9fffA-Za-z0-9 ]{{1,20}}?)[了的]?$"),
        ("likes", rf"{_much}(?:喜欢|喜歡|热爱|熱愛|酷爱|爱吃|爱喝|爱看|愛吃|愛喝|愛看)(?!的|上|过|[极極]?了$|得|第)(?P<v>[\u4e00-\u9fffA-Za-z0-9 、和]{{1,20}}?)了?$"),
        ("speaks", r"(?:会|會)(?:说|說|讲|講)(?P<v>[\u4e00-\u9fff、和]{2,20})$"),
        ("plays", r"(?:会|會)?(?:弹|彈|拉|吹|打)(?P<v>钢琴|鋼琴|吉他|小提琴|大提琴|二胡|古筝|古箏|笛子|篮球|籃球|羽毛球|网球|乒乓球|排球|鼓)"),
        ("can", r"(?:不)?(?:会|會)(?P<v>开车|開車|游泳|做饭|做飯|滑雪|编程|跳舞|唱歌|骑车|騎車)了?$"),
        ("has_pet", rf"(?:领养|領養|收养|收養|养|養|有)(?:了|着)?(?P<v>{_some}?[只隻条條匹个個](?:[\u4e00-\u9fff]{{0,4}}?)(?:{_pets}))$"),
        ("has_child", rf"有(?:了)?(?P<v>{_some}?[个個](?:[\u4e00-\u9fff]{{0,4}}?)(?:{_children}))$"),
        ("has_sibling", rf"有(?P<v>{_some}?[个個](?:[\u4e00-\u9fff]{{0,2}}?)(?:{_siblings}))$"),
        ("owns", rf"(?:有|买了|買了)(?P<v>{_some}[辆輛套台臺架栋棟][\u4e00-\u9fffA-Za-z0-9]{{1,10}})$"),
    )
)  # fmt: skip


_leaves, _quits = (
    tuple(re.compile(f".*?{each}").match for each in phrases) for phrases in (LEAVINGS, QUITTINGS)
)


def what_follows(predicate: str, value: str) -> str:
    """What else is so when somebody left a place or a job; nothing for what is so by itself."""
    if any(leaves(predicate) for leaves in _leaves):
        return f"，不再住在{value}"
    return f"，不再在{value}工作" if any(quits(predicate) for quits in _quits) else ""


def chinese_traits(predicate: str) -> Iterator[Trait]:
    """The first attribute that the predicate names."""
    for attribute, matches in _TRAITS:
        found = matches(predicate)
        if found is None:
            continue
        value = found["v"]
        kind = "other" if attribute == "works_at" and value in _CITIES else attribute
        yield Trait(kind, value, found["told"])
        return
