"""A follow-up becomes a query that names what it is about; a complete message stays as it is."""
# ruff: noqa: RUF001 - punctuation of other scripts is meant

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.followups.rewriting import Rewrite, rewrite_by_rules
from recollect.domain.model import Role, Turn
from tests.unit.awkward_text import texts

TRUMP = ("Who is Donald Trump?", "Donald Trump is the 45th president. He was born in Queens to Fred Trump.")
MERKEL = ("Who is Angela Merkel?", "Angela Merkel was the chancellor of Germany. She studied physics.")
BERLIN = ("What is the weather in Berlin?", "It is sunny in Berlin today.")
MARTA = ("My sister Marta is moving to Porto!", "That is lovely news. When does she leave?")
EGG = ("How do I boil an egg?", "Put the egg into boiling water for seven minutes.")
LISTED = ("Which bike should I buy?", "Some ideas:\n1. Brompton C Line\n2. Canyon Roadlite\n3. Cube Nature")
DOCKER = ("What is Docker?", "Docker is a platform that runs software in containers.")
PARIS = ("What is the capital of France?", "The capital of France is Paris.")
HAMLET = ("Who wrote Hamlet?", "Hamlet was written by William Shakespeare.")
COUPLE = ("Do you remember Ann and Bob?", "Yes, they are your neighbours.")

RESOLVED = [
    # A pronoun means the one who was asked about.
    (TRUMP, "who are his children?", "who are Donald Trump's children?"),
    (TRUMP, "How old is he?", "How old is Donald Trump?"),
    (TRUMP, "Did anybody ever beat him?", "Did anybody ever beat Donald Trump?"),
    (TRUMP, "Who was president before him?", "Who was president before Donald Trump?"),
    (MERKEL, "Who was the chancellor after her?", "Who was the chancellor after Angela Merkel?"),
    (TRUMP, "When did Zelensky meet him?", "When did Zelensky meet Donald Trump?"),
    (TRUMP, "What's he famous for", "What's Donald Trump famous for"),
    (TRUMP, "he's how old?", "Donald Trump's how old?"),
    (TRUMP, "Is it true that he owns a golf club?", "Is it true that Donald Trump owns a golf club?"),
    (TRUMP, "Where was HE born?", "Where was Donald Trump born?"),
    (TRUMP, "who’s his wife?", "who's Donald Trump's wife?"),
    (MERKEL, "Where did she study?", "Where did Angela Merkel study?"),
    (MERKEL, "and her husband?", "Who is Angela Merkel's husband?"),
    (MERKEL, "what do people think of her?", "what do people think of Angela Merkel?"),
    ((*TRUMP, *MERKEL), "is she older than he?", "is Angela Merkel older than Donald Trump?"),
    ((*MERKEL, *TRUMP), "where did she study?", "where did Angela Merkel study?"),
    ((*TRUMP, "Who is Barack Obama?", "The 44th president."), "where was he born?", "where was Barack Obama born?"),
    (("Who is Zelensky?", "He is the president of Ukraine."), "is he married?", "is Zelensky married?"),
    (("Tell me about Ludwig van Beethoven.", "A composer."), "was he deaf?", "was Ludwig van Beethoven deaf?"),
    (("My boss Robin called.", "What did Robin want?"), "what did he say about it", "what did Robin say about it"),
    (HAMLET, "when was he born?", "when was William Shakespeare born?"),
    (HAMLET, "how long is it?", "how long is Hamlet?"),
    (PARIS, "how big is it?", "how big is Paris?"),
    (PARIS, "what can I see there?", "what can I see in Paris?"),
    (MARTA, "when does she start?", "when does Marta start?"),
    (MARTA, "What is there to see there?", "What is there to see in Porto?"),
    (DOCKER, "how do I install it?", "how do I install Docker?"),
    (DOCKER, "what are its limits?", "what are Docker's limits?"),
    (("I like Tolkien.", "So do I."), "what did he say about it?", "what did Tolkien say about it?"),
    (("Who runs NASA?", "I do not know."), "what do they do?", "what do NASA do?"),
    (COUPLE, "where do they live?", "where do Ann, Bob live?"),
    (COUPLE, "what is their dog called?", "what is Ann, Bob's dog called?"),
    (("Who are the Beatles?", "A band from Liverpool."), "when did they split?", "when did Beatles split?"),
    (('Have you read "The Name of the Rose"?', "Yes."), "who wrote it?", "who wrote The Name of the Rose?"),
    (("What does parse_date do?", "It reads a date."), "where is it called?", "where is parse_date called?"),
    (("Who is @jane_doe?", "A user of the forum."), "what did she post?", "what did @jane_doe post?"),
    # What it cannot name, it takes from the last exchange.
    (EGG, "How long does it take?", "How long does it take? (How do I boil an egg?)"),
    (EGG, "why?", "why? (How do I boil an egg?)"),
    (EGG, "Tell me more!", "Tell me more! (How do I boil an egg?)"),
    (EGG, "why is that so important?", "why is that so important? (How do I boil an egg?)"),
    (EGG, "what do you think of that?", "what do you think of that? (How do I boil an egg?)"),
    (EGG, "summarize that in one sentence", "How do I boil an egg?"),
    (EGG, "Could you please rephrase your answer?", "How do I boil an egg?"),
    (EGG, "repeat that but shorter", "How do I boil an egg?"),
    (EGG, "translate it to French", "How do I boil an egg?"),
    (EGG, "make it shorter please", "How do I boil an egg?"),
    (EGG, "in one sentence", "How do I boil an egg?"),
    (HAMLET, "explain that again", "Who wrote Hamlet? William Shakespeare"),
    (TRUMP, "Summarize that in one sentence.", "Who is Donald Trump?"),
    ((*TRUMP, "who are his children?", "Five of them."), "why?", "why? (who are Donald Trump's children?)"),
    (EGG, "Now do the same with milk", "Now do the same with milk (How do I boil an egg?)"),
    (EGG, "which is better?", "which is better? (How do I boil an egg?)"),
    (EGG, "give me three more", "give me three more (How do I boil an egg?)"),
    (PARIS, "who else was there", "who else was in Paris"),
    (("¿Quién es Pedro Sánchez?", "El presidente."), "¿cuántos años tiene?", "¿cuántos años tiene? (¿Quién es Pedro Sánchez?)"),
    (LISTED, "and the second one?", "and the second one? (Canyon Roadlite)"),
    (LISTED, "tell me about the last one", "tell me about the last one (Cube Nature)"),
    (LISTED, "What about the first?", "What about the first? (Brompton C Line)"),
    (("Compare Ann and Bob", "Ann is tall, Bob is small."), "where is the latter?", "where is the latter? (Bob)"),
    (("Compare Ann and Bob", "Ann is tall, Bob is small."), "the former?", "the former? (Ann)"),
    (EGG, "how is that going?", "how is that going? (How do I boil an egg?)"),
    # The last question, asked of something else.
    (BERLIN, "and in Paris?", "What is the weather in Paris?"),
    (BERLIN, "What about Madrid?", "What is the weather in Madrid?"),
    (BERLIN, "In Rome?", "What is the weather in Rome?"),
    (BERLIN, "how about New York", "What is the weather in New York?"),
    (BERLIN, "and tomorrow?", "What is the weather in Berlin? tomorrow"),
    ((*BERLIN, "and in Paris?", "Rain."), "and in Rome?", "What is the weather in Rome?"),
    (("Where does Marta live?", "In Porto."), "what about her sister?", "Where does Marta's sister live?"),
    (("Where does Marta live?", "In Porto."), "and Bob?", "Where does Bob live?"),
    (("Where does Marta live?", "In Porto."), "what about my brother?", "Where does my brother live?"),
    ((*TRUMP, "and his wife?", "Melania."), "and his children?", "Who is Donald Trump's children?"),
    (("Where does Marta's older sister live?", "In Porto."), "and her brother?", "Where does Marta's brother live?"),
    (("What is Ann's job?", "She is a nurse."), "and her salary?", "What is Ann's salary?"),
    (("What is Ann's job?", "She is a nurse."), "and Bob's?", "What is Bob's job?"),
    # German, French, Spanish.
    (("Wie ist das Wetter in Berlin?", "Sonnig."), "und in Paris?", "Wie ist das Wetter in Paris?"),
    (("Wer ist Angela Merkel?", "Eine Politikerin."), "wo wurde sie geboren?", "wo wurde sie geboren? (Angela Merkel)"),
    (("Wer ist Olaf Scholz?", "Ein Politiker."), "wer ist seine Frau?", "wer ist seine Frau? (Olaf Scholz)"),
    (("Wer ist Olaf Scholz?", "Ein Politiker."), "Warum?", "Warum? (Wer ist Olaf Scholz?)"),
    (("Wer ist Olaf Scholz?", "Ein Politiker."), "Fass das bitte zusammen", "Wer ist Olaf Scholz?"),
    (("Quel temps fait-il à Berlin ?", "Il fait beau."), "et à Paris ?", "Quel temps fait-il à Paris ?"),
    (("Qui est Victor Hugo ?", "Un écrivain."), "où est-il né ?", "où est-il né ? (Victor Hugo)"),
    (("Qui est Victor Hugo ?", "Un écrivain."), "quels sont ses livres ?", "quels sont ses livres ? (Victor Hugo)"),
    (("¿Qué tiempo hace en Berlín?", "Sol."), "¿y en París?", "¿Qué tiempo hace en París?"),
    (("¿Quién es Frida Kahlo?", "Una pintora."), "¿quiénes son sus hijos?", "¿quiénes son sus hijos? (Frida Kahlo)"),
    (("¿Quién es Frida Kahlo?", "Una pintora."), "¿dónde vivía ella?", "¿dónde vivía ella? (Frida Kahlo)"),
    # Chinese, Japanese.
    (("唐纳德·特朗普是谁？", "他是美国总统。"), "他的孩子是谁？", "唐纳德·特朗普的孩子是谁？"),
    (("李娜是谁？", "她是网球运动员。"), "她住在哪里？", "李娜住在哪里？"),
    (("《红楼梦》讲什么？", "一个家族的故事。"), "它的作者是谁？", "红楼梦的作者是谁？"),
    (("柏林的天气怎么样？", "晴天。"), "那巴黎呢？", "巴黎的天气怎么样？"),
    (("柏林的天气怎么样？", "晴天。"), "为什么？", "为什么？ (柏林的天气怎么样？)"),
    (("柏林的天气怎么样？", "晴天。"), "总结一下", "柏林的天气怎么样？"),
    (("田中さんは誰ですか？", "先生です。"), "彼はどこに住んでいますか？", "田中はどこに住んでいますか？"),
    (("花子さんはどこですか？", "京都です。"), "彼女の仕事は？", "花子の仕事は？"),
    (("ベルリンの天気は？", "晴れです。"), "パリは？", "パリの天気は？"),
]  # fmt: skip

COMPLETE = [
    (TRUMP, "What is the history of Rome?"),
    (TRUMP, "Is Italy larger than Spain?"),
    (TRUMP, "Who is the chancellor of Germany?"),
    (TRUMP, "it is raining again"),
    (TRUMP, "Is it true that the earth is round?"),
    (TRUMP, "What time is it?"),
    (TRUMP, "Is there a doctor in town?"),
    (TRUMP, "There are three apples on the table."),
    (TRUMP, "Hi there!"),
    (TRUMP, "Does Ann like her new job?"),
    (TRUMP, "What would be a good hobby related to his dreams for Tim to pick up?"),
    (TRUMP, "How long did it take for Jon to open his studio?"),
    (TRUMP, "What did my brother say about his car?"),
    (TRUMP, "I bought a car and it broke down, what now?"),
    (TRUMP, "If the test fails, does it run again?"),
    (TRUMP, "Why do cats purr when they sleep?"),
    (TRUMP, "And who is the president of France?"),
    (TRUMP, "What shall I cook this week?"),
    (TRUMP, "I think that Berlin is too big for me."),
    (TRUMP, "Translate 'good morning' to French"),
    (TRUMP, "Explain to me how magnets work"),
    (TRUMP, "How about we cook pasta tonight?"),
    (TRUMP, "Summarize the book Moby Dick"),
    (TRUMP, "Thanks!"),
    (TRUMP, "Write a poem about autumn."),
    (TRUMP, "其他国家怎么样？"),
    (TRUMP, "Es regnet in Hamburg."),
    (TRUMP, "Il pleut à Lyon ?"),
    (TRUMP, "Können Sie mir ein Rezept geben?"),
    (TRUMP, "Who was the first president of the United States?"),
    ((), "who are his children?"),
    ((), "and in Paris?"),
    ((), "why?"),
    ((), "summarize that"),
]  # fmt: skip


def turn(number: int, content: str, role: Role | None = None) -> Turn:
    spoken: Role = role or ("assistant" if number % 2 else "user")
    return Turn(f"t-{number}", f"m{number}", spoken, spoken, content, 1_700_000_000_000 + number)


def after(history: tuple[str, ...], message: str) -> Rewrite:
    return rewrite_by_rules(message, [turn(number, content) for number, content in enumerate(history)])


@pytest.mark.parametrize(
    ("history", "message", "query"), RESOLVED, ids=[f"{h[-2][:16]}…{m}" for h, m, _ in RESOLVED]
)
def test_a_follow_up_names_what_it_is_about(history: tuple[str, ...], message: str, query: str) -> None:
    rewrite = after(history, message)
    assert rewrite.query == query
    assert rewrite.changed
    assert rewrite.why


@pytest.mark.parametrize(("history", "message"), COMPLETE, ids=[m for _, m in COMPLETE])
def test_a_complete_message_stays_as_it_is(history: tuple[str, ...], message: str) -> None:
    rewrite = after(history, message)
    assert rewrite.query == message
    assert not rewrite.changed


def test_why_says_whom_a_pronoun_means() -> None:
    assert after(TRUMP, "who are his children?").why == "'his' is Donald Trump"


@pytest.mark.parametrize("role", ["system", "tool"])
def test_nobody_is_taken_from_instructions_or_tools(role: Role) -> None:
    recent = [turn(0, "Hello, how are you?"), turn(1, "You are Sherlock Holmes.", role)]
    assert "Sherlock" not in rewrite_by_rules("how old is he?", recent).query


@pytest.mark.parametrize("mark", ["[Context]", "[Summary]"])
def test_nobody_is_taken_from_a_context_block(mark: str) -> None:
    recent = [turn(0, "Who is Donald Trump?"), turn(2, f'{mark}\n- 2026-05-08, Ann said: "Bob Dylan sings."')]
    assert rewrite_by_rules("how old is he?", recent).query == "how old is Donald Trump?"


def test_how_a_sentence_begins_is_no_name() -> None:
    assert after(
        ("You've been busy. It's fine.", "They'll come. We're ready."), "how old is he?"
    ).query.startswith("how old is he? (")


def test_a_long_message_speaks_for_itself() -> None:
    message = "He said this and that. " * 20
    assert not after(TRUMP, message).changed


def test_what_was_said_long_ago_is_not_meant() -> None:
    chatter = tuple(f"Give me the number {number}, please." for number in range(20))
    assert "Trump" not in after((*TRUMP, *chatter), "how old is he?").query


@given(st.lists(texts, max_size=6), texts)
def test_any_text_is_taken(history: list[str], message: str) -> None:
    rewrite = after(tuple(history), message)
    assert rewrite.changed or rewrite.query == message


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "Ab ",
        "A.",
        "it ",
        "_",
        "他",
        "ア",
        '"',
        "@a",
        "and in ",
        "the a and ",
        "please ",
        "Mr. ",
        "'s ",
        "1. ",
        "«",
        "\n- x",
    ],
)
def test_endless_texts_take_no_endless_time(piece: str) -> None:
    huge = piece * (1_000_000 // len(piece))
    history = (huge,) * 12
    started = time.perf_counter()
    after(history, huge)
    after(history, huge[:300])
    assert time.perf_counter() - started < 2
