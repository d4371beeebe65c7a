"""What a name tells of its bearer: common first names, titles, kin, places, and the words that names end with.

Hints, not knowledge: they only decide which of several names a pronoun means.
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MALE_NAMES = _words(
    "adam alan albert alejandro alex alexander ali andrea andreas andrew andy anthony antonio ben benjamin bernard bill "
    "bob brian carl carlos charles chris christian christopher daniel dave david dennis diego dmitri donald douglas "
    "edward elon emmanuel eric erik ernest felix fernando francis francisco frank frederick friedrich fritz gary "
    "george georg giovanni gordon greg hans harold harry heinrich helmut henri henry hugo ian isaac ivan jack jacques "
    "jakob james jan javier jean jeff jeremy jim joe johann john johnny jonathan jorge jose joseph josé juan jürgen "
    "karl keith ken kevin klaus konrad larry lars leo leonardo lewis louis luca lucas ludwig luis luke manuel marc "
    "marco marcus mario mark martin matthew max michael miguel mike mohamed mohammed muhammad napoleon nelson "
    "nicholas nick nicolas oliver olaf oscar otto pablo patrick paul pedro peter phil philip pierre rafael ralph "
    "raymond rené ricardo richard rob robert roger roland ronald roberto samuel sebastian sergei simon stefan stephen "
    "steve steven stuart terry theodore thomas tim timothy tom tony victor vincent vladimir walter werner wilhelm "
    "will william winston wolfgang yuri"
)
FEMALE_NAMES = _words(
    "agatha alice alicia amanda amelia amy ana anastasia angela anita ann anna anne annie astrid audrey barbara "
    "beatrice bettina beth betty birgit brigitte camilla carla carmen carol caroline catherine cecilia charlotte chloe "
    "christina claire clara claudia cleopatra cristina deborah denise diana donna dorothy elena eleanor elisabeth "
    "elizabeth ella emilia emily emma erika eva eve fiona florence frances frida gabriela gabriele gisela giulia grace "
    "greta hannah heather heidi helen helena hillary ida inga ingrid irene isabel isabella ivanka jane janet jennifer "
    "jenny jessica joan joanna josephine judith judy julia julie juliet karen kate katherine kathleen kathy katrin "
    "laura leonie lena linda lisa louise lucia lucy luisa madeleine margaret margarita maria marie marilyn marta "
    "martha mary maya melania melanie melinda mia michelle monica monika nadia nancy natalie natasha nicole nina nora "
    "olga olivia pamela patricia paula petra rachel rebecca renate rosa rose ruth sabine sally sandra sara sarah "
    "serena sofia sonia sophia sophie stephanie susan susanne sylvia taylor teresa theresa tina ursula valentina "
    "vanessa vera veronica victoria virginia wendy yoko zoe"
)
MALE_TITLES = _words("mr sir lord king prince uncle herr monsieur señor don father pope sheikh")
FEMALE_TITLES = _words("mrs ms miss madam lady queen princess aunt frau madame mademoiselle señora doña")
TITLES = (
    MALE_TITLES
    | FEMALE_TITLES
    | _words("dr prof professor doctor president chancellor senator captain general saint")
)

MALE_KIN = _words(
    "father dad brother son husband uncle grandfather grandpa nephew boyfriend man boy guy king prince actor waiter "
    "gentleman groom vater bruder sohn mann onkel père frère fils mari padre hermano hijo marido"
)
FEMALE_KIN = _words(
    "mother mom mum sister daughter wife aunt grandmother grandma niece girlfriend woman girl lady queen princess "
    "actress waitress bride mutter schwester tochter frau tante mère sœur fille femme madre hermana hija esposa"
)
PERSON_NOUNS = (
    MALE_KIN
    | FEMALE_KIN
    | _words(
        "person friend boss colleague manager doctor teacher neighbour neighbor cousin partner child kid baby student "
        "president chancellor minister author writer singer painter composer scientist player director founder ceo "
        "leader driver lawyer nurse landlord guest customer user roommate coach"
    )
)

PLACES = _words(
    "africa amsterdam argentina asia athens australia austria bangkok barcelona beijing belgium berlin bern bogotá "
    "boston brazil brussels budapest cairo california canada chicago chile china cologne copenhagen croatia denmark "
    "dublin egypt england europe finland florence france geneva genf germany greece hamburg helsinki hungary iceland "
    "india indonesia ireland israel istanbul italy japan kenya korea kyiv lima lisbon lisboa london lyon madrid "
    "manchester marseille mexico miami milan moscow mumbai munich münchen naples netherlands nice nigeria norway "
    "osaka oslo paris peru poland porto portugal prague rom roma rome russia scotland seattle seoul shanghai "
    "singapore spain stockholm sweden switzerland sydney tokyo toronto turin turkey ukraine valencia vancouver "
    "venice vienna vietnam wales warsaw wien zurich zürich berlín parís londres múnich deutschland frankreich "
    "spanien italien allemagne espagne españa italie"
)
PLACE_ENDINGS = _words(
    "city town village street avenue road square river lake mountain mount island islands beach valley park airport "
    "station hotel restaurant county kingdom republic states coast desert"
)
GROUP_ENDINGS = _words(
    "inc corp corporation ltd llc gmbh ag company group bank university college institute committee council party "
    "team band orchestra airlines foundation association agency ministry department brothers union club beatles"
)
THING_ENDINGS = _words(
    "tower bridge building museum castle church cathedral temple act treaty war revolution prize cup award league "
    "protocol theorem algorithm api engine framework language"
)

KNOWN_FIRST = MALE_NAMES | FEMALE_NAMES | TITLES
"""A name that begins with one of these is somebody's."""

PARTICLES = _words(
    "van von der den de del della di da do dos das du la le el al bin ibn ben ter ten zu zum of the y e"
)
"""Stand inside names, and never at their ends."""

PLURAL_ENDINGS = _words("brothers sisters twins beatles states islands")

# Capitalised for other reasons than being a name.
CALENDAR = _words(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar "
    "märz mai juni juli oktober dezember christmas easter"
)
NOT_NAMES = CALENDAR | _words(
    "i i'm i've i'd i'll ok okay yes no english german french spanish italian chinese japanese portuguese russian "
    "he him his she her hers they them their it its this that these those there dutch usd eur am pm faq tv asap ps btw ich sie ihnen ihr ihre ihren yeah yep yup wow oh ah hmm haha hey thanks thank "
    "congrats congratulations sounds great awesome nice cool amazing absolutely definitely totally god sure note step tip"
)
