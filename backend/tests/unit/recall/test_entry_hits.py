"""Entries among the hits: where they belong, what they show, and which turns they stand for."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from recollect.domain.entries.entry import EPISODES, PROFILE
from recollect.domain.recall.hits import Hit, Mode, Ranked, Scope, Selection, tokens
from recollect.domain.recall.query import read_query
from recollect.domain.recall.rows import IndexRow
from tests.unit.made_rows import MINUTE, T0, answered, corpus_of, found, remembered, said, scores_of, unit

TALK = (
    said(1, "My sister moved to Porto last week", tags=("home",)),
    said(2, "She is a nurse there", tags=("home",)),
    said(1, "Porto is rainy", "Bob", thread="t2", agent_id="tutor", tags=("work",)),
)
JOB = remembered("fa-1", "Marta works as a nurse in Porto since May 2023", "t1:1", "t1:2", sender="Marta")
MOVE = remembered("fa-2", "Ann's sister moved to Porto", "t1:1")


def hits(*entries: IndexRow, **scope: object) -> dict[str, Hit]:
    selection = Selection(scope=Scope(**scope))  # type: ignore[arg-type]
    return {hit.row.row_id: hit for hit in found(corpus_of((*TALK, *entries)), "Porto", selection)}


def test_an_entry_has_the_messages_the_thread_and_the_tags_of_its_turns() -> None:
    hit = hits(JOB, types=frozenset(["fact"]))["fa-1"]
    assert hit.message_ids == ["t1-m1", "t1-m2"]
    assert (hit.row.thread_id, hit.row.tags, hit.text) == ("t1", ("home",), JOB.text)


def test_an_entry_of_several_threads_is_in_none_of_them_alone() -> None:
    hit = hits(replace(JOB, sources=("t1#t-1", "t2#t-1")), types=frozenset(["fact"]))["fa-1"]
    assert (hit.row.thread_id, hit.row.agent_id) == ("", "")
    assert hit.message_ids == ["t1-m1", "t2-m1"]


@pytest.mark.parametrize("name", ["fact", "facts"])
def test_a_kind_is_asked_for_in_the_singular_and_the_plural(name: str) -> None:
    assert hits(JOB, types=frozenset([name])).keys() == {"fa-1"}


def test_a_fact_and_its_message_are_one_hit_that_scores_no_less_than_the_message() -> None:
    alone, together = hits(), hits(MOVE)
    assert together.keys() == {"fa-2", "t2:1"}
    assert together["fa-2"].message_ids == ["t1-m1"]
    assert together["fa-2"].score >= alone["t1:1"].score
    assert sum(together["fa-2"].why.values()) == pytest.approx(together["fa-2"].score, abs=1e-3)


@pytest.mark.parametrize("scope", [{"types": frozenset(["turn"])}, {"since": T0 + 1}])
def test_a_message_stands_for_itself_where_its_fact_is_out_of_scope(scope: dict[str, object]) -> None:
    assert hits(MOVE, **scope).keys() == {"t1:1", "t2:1"}


def test_a_message_of_which_its_fact_says_something_else_stays() -> None:
    rows = (
        said(1, "Rex barks at night, and my sister bought a boat"),
        remembered("fa-1", "Ann's dog Rex barks at night", "t1:1"),
        said(2, "Else"),
    )
    assert [hit.row.row_id for hit in found(corpus_of(rows), "Who bought a boat?")] == ["t1:1"]


MEATLESS = (
    said(1, "No meat for me any more, and the cellar is dry again"),
    said(2, "Else"),
    remembered("fa-1", "Ann is vegetarian", "t1:1"),
    remembered("fa-2", "Ann's cellar is dry", "t1:1"),
)
DIRECTIONS = (unit(1, 0), unit(0, 1), unit(1, 1), unit(0, 1))


@pytest.mark.parametrize(
    ("scope", "carried"),
    [
        ({}, [MEATLESS[0].text]),
        ({"types": frozenset(["facts"])}, []),
        ({"since": T0 - 1}, [MEATLESS[0].text]),
    ],
)
def test_a_fact_in_other_words_than_the_querys_leads_its_message_and_carries_its_words(
    scope: dict[str, object], carried: list[str]
) -> None:
    vectors = {row.row_id: vector for row, vector in zip(MEATLESS, DIRECTIONS, strict=True)}
    selection = Selection(scope=Scope(**scope))  # type: ignore[arg-type]
    hit, *others = found(corpus_of(MEATLESS, vectors), "Do I eat meat?", selection, unit(1, 0))
    assert (hit.row.row_id, [each.text for each in hit.said], hit.message_ids) == ("fa-1", carried, ["t1-m1"])
    assert "t1:1" not in {each.row.row_id for each in others}


def test_words_that_a_fact_carries_count_in_the_budget() -> None:
    vectors = {row.row_id: vector for row, vector in zip(MEATLESS, DIRECTIONS, strict=True)}
    corpus = corpus_of(MEATLESS, vectors)
    (hit,) = found(corpus, "Do I eat meat?", Selection(top_k=1), unit(1, 0))
    needed = tokens(hit.text) + tokens(hit.said[0].text)
    assert hit.tokens == needed
    for budget, carried in ((needed, 1), (needed - 1, 0), (tokens(hit.text), 0)):
        first, *_ = found(corpus, "Do I eat meat?", Selection(max_tokens=budget), unit(1, 0))
        assert (first.row.row_id, len(first.said)) == ("fa-1", carried), "without them before not at all"


def test_a_fact_that_ended_and_its_message_are_one_hit_that_says_when() -> None:
    rows = (*MEATLESS[:2], replace(MEATLESS[2], until=T0 + 9 * MINUTE), MEATLESS[3])
    vectors = {row.row_id: vector for row, vector in zip(rows, DIRECTIONS, strict=True)}
    query = f"Did I eat meat on {datetime.fromtimestamp(T0 / 1000, UTC):%Y-%m-%d}?"
    chosen = found(corpus_of(rows, vectors), query, Selection(), unit(1, 0))
    ends = {hit.row.row_id: (hit.until, [each.row.row_id for each in hit.said]) for hit in chosen}
    assert ends["fa-1"] == (T0 + 9 * MINUTE, ["t1:1"])
    assert "t1:1" not in ends


def test_a_fact_of_two_messages_is_not_shown_below_one_of_them() -> None:
    rows = (
        said(1, "My sister bought a boat, and a cap of felt"),
        said(2, "Rex barks", "Bob"),
        remembered("fa-1", "Ann's dog Rex barks at night, at the sister", "t1:1", "t1:2"),
    )
    chosen = [hit.row.row_id for hit in found(corpus_of(rows), "sister bought a boat, cap of felt")]
    assert chosen == ["t1:1", "t1:2"]


def test_of_two_facts_of_one_message_the_one_that_answers_takes_its_place() -> None:
    rows = (
        said(1, "Rex barks at night, and my sister bought a boat"),
        remembered("fa-1", "Ann's dog Rex barks at night", "t1:1"),
        remembered("fa-2", "Ann's sister bought a boat", "t1:1"),
        said(2, "Else"),
    )
    assert [hit.row.row_id for hit in found(corpus_of(rows), "Who bought a boat?")] == ["fa-2"]


def test_a_fact_that_ended_takes_the_place_of_its_message_and_says_when() -> None:
    old = replace(MOVE, until=T0 + 1, superseded_by="fa-3")
    new = remembered("fa-3", "Ann's sister left Porto", "t1:2", timestamp=T0 + 1)
    chosen = found(corpus_of((*TALK, old, new)), "Ann's sister Porto")
    assert [hit.row.row_id for hit in chosen] == ["fa-3", "fa-2", "t2:1"]
    assert (chosen[1].row.until, chosen[1].row.superseded_by) == (T0 + 1, "fa-3")


FLAT = said(1, "We live in Porto in a flat with a balcony near the river, and I swim every morning")
PORTO = remembered("fa-1", "Ann lives in Porto", "t1:1", until=T0 + 7)
SWIMS = remembered("fa-2", "Ann swims every morning", "t1:1")
PORTO_ENDS = T0 + 120 * MINUTE


@pytest.mark.parametrize(
    ("facts", "query", "until"),
    [
        ((PORTO,), "a flat with a balcony near the river", T0 + 7),
        ((PORTO, replace(SWIMS, until=T0 + 9)), "a flat with a balcony near the river", T0 + 9),
        ((PORTO, SWIMS), "live in a flat with a balcony near the river", T0 + 7),
        ((PORTO, SWIMS), "swim near the flat with a balcony by the river", 0),
        ((replace(PORTO, until=0), SWIMS), "live in a flat with a balcony near the river", 0),
    ],
)
def test_a_message_says_when_what_is_asked_of_it_ceased_to_hold(
    facts: tuple[IndexRow, ...], query: str, until: int
) -> None:
    chosen = found(corpus_of((FLAT, said(2, "Else"), *facts)), query)
    assert [(hit.row.row_id, hit.until) for hit in chosen] == [("t1:1", until)]


BERLIN = remembered("fa-3", "Ann lives in Berlin", "t3:1", timestamp=PORTO_ENDS)
MOVED = said(1, "The boxes are in Berlin", thread="t3", timestamp=PORTO_ENDS)


@pytest.mark.parametrize(
    ("text", "query", "minutes", "first"),
    [
        ("You live in Porto.", "Where do I live?", 60, "fa-3"),
        ("Good morning, and you live in lovely Porto.", "Which lovely place do I live in?", 60, "fa-3"),
        ("Good morning, and you live in lovely Berlin.", "Which lovely place do I live in?", 180, "t2:2"),
        ("Porto has six bridges.", "How many bridges does Porto have?", 60, "t2:2"),
        ("Your home is in Porto.", "So where is my home now?", 60, "fa-3"),
        ("Your home is in Berlin.", "So where is my home now?", 60, "t2:2"),
        ("Porto is rainy, as the guide of the museum said.", "What did the guide say?", 60, "t2:2"),
    ],
)
def test_a_fact_comes_before_what_an_assistant_said_before_it_took_anothers_place(
    text: str, query: str, minutes: int, first: str
) -> None:
    answer = answered(2, text, thread="t2", timestamp=T0 + minutes * MINUTE)
    ended = replace(PORTO, until=PORTO_ENDS, superseded_by="fa-3")
    rows = (FLAT, said(1, "Hm", thread="t2"), answer, ended, MOVED, BERLIN)
    chosen = found(corpus_of((*rows, said(2, "Else"))), query)
    assert (chosen[0].row.row_id, chosen[0].until) == (first, 0)


@pytest.mark.parametrize(
    ("home", "old", "new", "answer", "query"),
    [
        (
            "Wir wohnen hier",
            "Ann wohnt in Porto",
            "Ann wohnt in Berlin",
            "Dein Zuhause ist in Porto.",
            "Wo ist mein Zuhause?",
        ),
        (
            "Мы здесь",
            "Анна живёт в Порту",
            "Анна живёт в Берлине",
            "Твой дом в Порту.",
            "Где теперь мой дом?",
        ),
        (
            "いました",
            "アンはポルトに住んでいます",
            "アンはベルリンに住んでいます",
            "あなたの家はポルトにあります。",
            "今の家はどこですか",
        ),
        ("我们在这", "安住在波尔图", "安住在柏林", "你的家在波尔图。", "我现在的家在哪里"),
        ("نحن هنا", "آن تعيش في بورتو", "آن تعيش في برلين", "بيتك في بورتو.", "أين بيتي الآن"),
        ("हम यहाँ", "ऐन पोर्टो में रहती है", "ऐन बर्लिन में रहती है", "आपका घर पोर्टो में है।", "अब मेरा घर कहाँ है?"),
        (
            "My place is a flat near the river",
            "Ann lives in Porto",
            "Ann lives in Berlin",
            "Hm.",
            "Which flat is my place?",
        ),
    ],
    ids=["de", "ru", "ja", "zh", "ar", "hi", "message"],
)
def test_what_repeats_a_fact_that_ended_comes_behind_the_one_that_holds_instead(
    home: str, old: str, new: str, answer: str, query: str
) -> None:
    """By words alone, though the fact has none of the query's."""
    rows = (
        said(1, home),
        answered(2, answer, thread="t2", timestamp=T0 + 60 * MINUTE),
        said(1, "Berlin!", thread="t3", timestamp=PORTO_ENDS),
        remembered("fa-1", old, "t1:1", until=PORTO_ENDS, superseded_by="fa-3"),
        remembered("fa-3", new, "t3:1", timestamp=PORTO_ENDS),
    )
    first, second, *_ = found(corpus_of(rows), query)
    assert (first.row.row_id, first.until) == ("fa-3", 0)
    assert second.row.row_id in first.instead_of
    assert second.until == (PORTO_ENDS if second.row.row_id == "t1:1" else 0)


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_what_holds_instead_is_found_before_it_has_a_vector_or_a_word_of_the_query(mode: Mode) -> None:
    rows = (
        said(1, "We are in Porto"),
        said(1, "Berlin!", thread="t3", timestamp=PORTO_ENDS),
        said(2, "Else"),
        remembered("fa-1", "Ann lives in Porto", "t1:1", until=PORTO_ENDS, superseded_by="fa-3"),
        remembered("fa-3", "Ann lives in Berlin", "t3:1", timestamp=PORTO_ENDS),
    )
    vectors = {"t1:1": unit(1, 0), "fa-1": unit(1, 0.2), "t1:2": unit(0, 1)}
    hits = found(corpus_of(rows, vectors), "Which town is my home?", Selection(mode), vector=unit(1, 0.1))
    assert (hits[0].row.row_id, hits[0].until) == ("fa-3", 0)
    assert {hit.row.row_id for hit in hits if hit.until} == {"fa-1"}


def test_what_a_person_wrote_comes_before_the_only_thing_it_corrects_however_far_its_meaning() -> None:
    rows = (
        said(1, "I live in Graz"),
        said(1, "I am still living there", thread="t2"),
        remembered("fa-1", "Kim is at home in Leibnitz", "t1:1", corrected=PORTO_ENDS, edited=True),
    )
    vectors = {"t1:1": unit(1, 0, 0), "t2:1": unit(1, 0.5, 0), "fa-1": unit(-1, 0.2, 1)}
    first, second, *_ = found(corpus_of(rows, vectors), "Where do I live?", vector=unit(1, 0.1, 0))
    assert (first.row.row_id, second.row.row_id) == ("fa-1", "t1:1")
    assert second.until == PORTO_ENDS


@pytest.mark.parametrize(
    "before",
    [
        answered(2, "The town you live in now is Porto.", thread="t2", timestamp=T0 + 60 * MINUTE),
        remembered("ep-1", "The town: Ann said where they live now.", "t1:1", kind=EPISODES),
    ],
    ids=["answer", "episode"],
)
def test_what_a_person_corrected_comes_before_answers_and_episodes_of_before(before: IndexRow) -> None:
    braga = remembered("fa-1", "Ann lives in Braga", "t1:1", corrected=PORTO_ENDS, edited=True)
    rows = (said(1, "Porto is ours"), said(1, "Hm", thread="t2"), before, braga, said(2, "Else"))
    assert found(corpus_of(rows), "Which town do I live in now?")[0].row.row_id == "fa-1"


def test_a_message_is_another_version_of_itself_only_when_nothing_of_it_holds() -> None:
    rows = (FLAT, said(2, "Else"), PORTO, SWIMS)
    (in_part,) = found(corpus_of(rows), "live in a flat with a balcony near the river")
    assert in_part.row.until == 0
    (wholly,) = found(corpus_of(rows[:3]), "live in a flat with a balcony near the river")
    assert wholly.row.until == T0 + 7


def test_a_fact_that_a_person_wrote_is_shown_beside_its_message() -> None:
    rows = (FLAT, said(2, "Else"), replace(PORTO, until=0, edited=True))
    chosen = found(corpus_of(rows), "live in a flat with a balcony near the river")
    assert {hit.row.row_id for hit in chosen} == {"t1:1", "fa-1"}


WRITTEN = replace(PORTO, text="Ann lives in Braga", until=0, edited=True, corrected=T0 + 7 * MINUTE)


@pytest.mark.parametrize(
    ("facts", "query", "ranked"),
    [
        ((WRITTEN,), "live in a flat near the river", [("fa-1", 0), ("t1:1", WRITTEN.corrected)]),
        ((WRITTEN, SWIMS), "live in a flat near the river", [("fa-1", 0), ("t1:1", WRITTEN.corrected)]),
        ((WRITTEN, SWIMS), "swim near the flat with a balcony", [("fa-2", 0)]),
        ((replace(WRITTEN, corrected=T0),), "live in a flat", [("t1:1", 0), ("fa-1", 0)]),
    ],
)
def test_what_a_person_wrote_over_ends_the_messages_before_it_and_comes_first(
    facts: tuple[IndexRow, ...], query: str, ranked: list[tuple[str, int]]
) -> None:
    chosen = found(corpus_of((FLAT, said(2, "Else"), *facts)), query)
    assert [(hit.row.row_id, hit.until) for hit in chosen] == ranked


def line(*facts: str, text: str = "Ann lives in Porto") -> IndexRow:
    return remembered("pr-1", text, "t1:1", kind=PROFILE, sender="ann", shows=facts)


def test_a_line_of_the_profile_and_its_fact_are_one_hit() -> None:
    fact = replace(PORTO, until=0, sender="user")
    chosen = found(corpus_of((FLAT, said(2, "Else"), fact, line("fa-1"))), "lives in Porto")
    assert [hit.row.row_id for hit in chosen] == ["fa-1"]


def test_a_line_that_answers_far_better_than_each_of_its_facts_stands_for_all_of_them() -> None:
    page = line("fa-1", "fa-2", text="Ann lives by the harbour of Porto and swims")
    rows = (FLAT, said(2, "Else"), replace(PORTO, until=0), SWIMS, page)
    chosen = found(corpus_of(rows), "Who lives by a harbour and swims?")
    assert [hit.row.row_id for hit in chosen] == ["pr-1"]


def test_a_line_whose_fact_is_gone_stands_for_itself() -> None:
    chosen = found(corpus_of((FLAT, said(2, "Else"), line("fa-1"))), "lives in Porto")
    assert [hit.row.row_id for hit in chosen] == ["pr-1"]


TRIP = (
    said(1, "We took the train"),
    said(2, "The hotel was full", "Bob"),
    said(3, "So we slept in the harbour"),
    said(4, "And nobody asked for a ticket", "Bob"),
    said(9, "Nothing new", thread="t2", timestamp=T0 + 90 * 24 * 60 * MINUTE),
)
TOLD = remembered(
    "ep-1", "We took the train. The hotel was full.", *(f"t1:{n}" for n in range(1, 5)), kind=EPISODES
)


@pytest.mark.parametrize("query", ["What happened on 13 May 2023?", "Give me a recap"])
def test_an_episode_answers_what_happened_and_its_messages_are_not_told_again(query: str) -> None:
    vectors = {row.row_id: unit(1, number) for number, row in enumerate((*TRIP, TOLD))}
    chosen = found(corpus_of((*TRIP, TOLD), vectors), query, vector=unit(1, 9))
    episode, *others = [hit for hit in chosen if hit.row.row_id != "t2:9"]
    assert (episode.row.row_id, episode.message_ids) == ("ep-1", [f"t1-m{n}" for n in range(1, 5)])
    assert {hit.row.row_id for hit in others} == {"t1:3", "t1:4"}


def test_an_episode_that_is_far_more_relevant_than_each_of_its_messages_is_shown() -> None:
    whole = replace(TOLD, text="Train, full hotel, harbour, ticket")
    assert next(iter(found(corpus_of((*TRIP, whole)), "train hotel harbour ticket"))).row.row_id == "ep-1"


def test_a_message_that_answers_alone_is_not_told_again_by_its_episode() -> None:
    chosen = [hit.row.row_id for hit in found(corpus_of((*TRIP, TOLD)), "Which hotel was full?")]
    assert chosen == ["t1:2"]


def test_an_entry_stands_for_a_turn_that_is_out_of_scope() -> None:
    assert "fa-2" in hits(replace(MOVE, timestamp=T0 - 10), until=T0)


@pytest.mark.parametrize(
    ("scope", "is_found"),
    [
        ({"tags": frozenset(["home"])}, True),
        ({"tags": frozenset(["work"])}, False),
        ({"thread_id": "t1"}, True),
        ({"thread_id": "t2"}, False),
        ({"agent_id": "tutor"}, False),
        ({"since": T0 + 1}, False),
    ],
)
def test_an_entry_is_where_its_turns_are(scope: dict[str, object], is_found: bool) -> None:
    assert ("fa-1" in hits(JOB, types=frozenset(["facts"]), **scope)) is is_found


def test_an_untagged_profile_is_everywhere_and_a_tagged_one_is_not() -> None:
    line = remembered("pr-1", "Ann knows Porto", kind=PROFILE)
    untagged = replace(line, sources=("t3#t-1",))
    rows = (*TALK, said(1, "Hm", thread="t3"), untagged, replace(line, row_id="pr-2", sources=JOB.sources))
    selection = Selection(scope=Scope(types=frozenset(["profile"]), tags=frozenset(["work"])))
    assert [hit.row.row_id for hit in found(corpus_of(rows), "Porto", selection)] == ["pr-1"]


def test_an_entry_that_came_from_a_turn_that_is_passed_over_is_passed_over() -> None:
    corpus = corpus_of((*TALK, JOB))
    selection = Selection(scope=Scope(types=frozenset(["facts"])))
    ranked = Ranked(corpus, corpus.view(), scores_of(corpus, "Porto"), read_query("Porto", T0).words)
    assert [hit.row.row_id for hit in ranked.choose(selection).hits] == ["fa-1"]
    assert ranked.choose(selection, {corpus.places["t1:2"]}).hits == []


def test_an_entry_of_which_no_turn_is_left_is_not_shown() -> None:
    assert hits(replace(JOB, sources=("t9#t-1",)), types=frozenset(["facts"])) == {}


def test_what_a_person_wrote_without_sources_is_shown() -> None:
    assert hits(replace(JOB, sources=())).keys() >= {"fa-1"}


def test_two_entries_that_tell_the_same_are_one_hit() -> None:
    line = replace(JOB, row_id="pr-1", type=PROFILE, sources=("t2#t-1",))
    (hit,) = hits(JOB, line, types=frozenset(["facts", "profile"])).values()
    assert set(hit.message_ids) == {"t1-m1", "t1-m2", "t2-m1"}


def test_a_turn_is_found_by_the_words_of_an_entry() -> None:
    news = remembered("fa-3", "Marta is employed by Hospital São João", "t1:2")
    selection = Selection("keyword", Scope(types=frozenset(["turn"])))
    assert [hit.row.row_id for hit in found(corpus_of((*TALK, news)), "hospital", selection)] == ["t1:2"]
