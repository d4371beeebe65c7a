"""What a model answers about a memcell is read with patience, and never takes more than it is worth."""

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.extraction.answer import MAX_FACTS, MAX_PLANS, parse_memcell_answer
from recollect.domain.extraction.answer_json import MAX_ANSWER, find_object
from recollect.domain.extraction.draft import Draft, Extraction, Kind, Quoted
from recollect.domain.extraction.prompts import repair_messages
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import JsonObject
from tests.unit.awkward_text import unhurried
from tests.unit.made_cells import NOON, SECOND, cell_of

CELL = cell_of(
    ("user", "I live in Berlin. I adopted a dog yesterday."),
    ("assistant", "How nice!"),
    ("user", "On 3 June I fly to Lisbon."),
)
FACT: JsonObject = {
    "text": "Ann lives in Berlin.",
    "about": "Ann",
    "category": "home",
    "when": "2026-05",
    "until": None,
    "quotes": [{"message": 1, "words": "I live in Berlin"}],
    "replaces": ["f2"],
    "ends": [],
}
PLAN: JsonObject = {
    "text": "Ann flies to Lisbon.",
    "when": "2026-06-03",
    "until": None,
    "quotes": [{"message": 3, "words": "On 3 June"}],
}
ANSWER: JsonObject = {
    "episode": {"title": "Ann in Berlin", "text": "Ann lives in Berlin."},
    "facts": [FACT],
    "foresight": [PLAN],
    "case": None,
}
MIDNIGHT_IN_BERLIN = NOON - 14 * 3_600_000
"""Of the day on which it was said."""
DAY = 86_400_000
WHOLE = json.dumps(ANSWER)


def parse(answer: object) -> Extraction:
    return parse_memcell_answer(answer if isinstance(answer, str) else json.dumps(answer), CELL)


def told(draft: Draft) -> dict[str, str]:
    return {name: value for name, value in draft.properties.items() if value}


def day(number: int, milliseconds: int = 0) -> str:
    """When the day begins in Berlin, so many days after the one on which it was said."""
    return write_time(MIDNIGHT_IN_BERLIN + number * DAY + milliseconds)


def reasons(extraction: Extraction) -> list[str]:
    return [refused.reason for refused in extraction.refused]


def test_an_answer_gives_an_episode_facts_and_plans_with_the_turns_they_cite() -> None:
    episode, fact, plan = parse(ANSWER).drafts
    assert (episode.kind, episode.title, episode.text) == (
        "episodes",
        "Ann in Berlin",
        "Ann lives in Berlin.",
    )
    assert episode.turn_ids == ("t-1", "t-2", "t-3")
    assert (fact.kind, told(fact)) == (
        "facts",
        {"subject": "user", "category": "home", "happened": "2026-05"},
    )
    assert (fact.quotes, fact.replaces, fact.ends) == ((Quoted("t-1", "I live in Berlin"),), ("f2",), ())
    assert (fact.turn_ids, fact.when) == (("t-1",), NOON + SECOND)
    assert (plan.kind, plan.turn_ids) == ("foresight", ("t-3",))


@pytest.mark.parametrize(
    ("when", "until", "days"),
    [
        ("2026-06-03", None, (26, 27)),
        ("2026-06-03", "2026-06-05", (26, 29)),
        ("2026-06-05", "2026-06-03", (26, 29)),
        ("2026-06", None, (24, 54)),
    ],
)
def test_a_plan_is_about_whole_days_in_the_zone_of_the_user(
    when: str, until: str | None, days: tuple[int, int]
) -> None:
    (plan,) = parse({"foresight": [PLAN | {"when": when, "until": until}]}).drafts
    assert told(plan) == {"about": day(days[0]), "lapses": day(days[1], -1)}


@pytest.mark.parametrize(
    ("told", "asks"),
    [({}, None), ({"asks": []}, ()), ({"asks": [1, 2, 9]}, ("t-1",)), ({"asks": "1"}, ("t-1",))],
)
def test_an_answer_may_say_which_messages_of_people_only_ask(
    told: JsonObject, asks: tuple[str, ...] | None
) -> None:
    cell = cell_of(("user", "where do I live"), ("assistant", "Where?"))
    assert parse_memcell_answer(json.dumps({"episode": None, **told}), cell).asks == asks


def test_a_plan_of_which_only_the_end_is_known_begins_when_it_is_said() -> None:
    (plan,) = parse({"foresight": [PLAN | {"when": None, "until": "2026-05-08"}]}).drafts
    assert told(plan) == {"about": day(0), "lapses": day(1, -1)}


@pytest.mark.parametrize("day", ["", "null", None])
def test_a_plan_without_a_day_is_about_no_time(day: str | None) -> None:
    (plan,) = parse({"foresight": [PLAN | {"when": day, "until": day}]}).drafts
    assert told(plan) == {}


@pytest.mark.parametrize("name", ["when", "until"])
@pytest.mark.parametrize("day", ["soon", "2026-06-31", "0000-01-01", "03.06.2026"])
def test_a_date_that_is_none_refuses_the_statement_alone(name: str, day: str) -> None:
    found = parse({"facts": [FACT | {name: day}], "foresight": [PLAN | {name: day}]})
    assert (found.drafts, reasons(found)) == ((), ["a date of it can't be read"] * 2)


@pytest.mark.parametrize(("until", "days"), [("2026-05-08", 1), ("2026-05", 24), ("2026-05-08T18:00:00Z", 1)])
def test_a_fact_that_ends_holds_to_the_end_of_that_time(until: str, days: int) -> None:
    (fact,) = parse({"facts": [FACT | {"until": until}]}).drafts
    assert told(fact)["lapses"] == day(days, -1)


@pytest.mark.parametrize("about", ["user", "The user", "Ann", "ANN", None])
def test_a_fact_about_the_owner_is_about_the_user(about: str | None) -> None:
    (fact,) = parse({"facts": [FACT | {"about": about}]}).drafts
    assert told(fact)["subject"] == "user"


def test_a_fact_about_somebody_else_names_them_with_their_relation() -> None:
    (fact,) = parse({"facts": [FACT | {"about": "Marta, Ann's sister"}]}).drafts
    assert told(fact)["subject"] == "Marta, Ann's sister"


def test_a_fact_is_as_old_as_the_newest_words_of_a_person_that_it_quotes() -> None:
    quotes = [{"message": number, "words": "I"} for number in (1, 3, 2)]
    (fact,) = parse({"facts": [FACT | {"quotes": quotes}]}).drafts
    assert (fact.when, fact.turn_ids) == (NOON + 3 * SECOND, ("t-1", "t-3", "t-2"))


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{WHOLE}\n```",
        f"Sure! Here {{it}} is:\n{WHOLE}\nAnything else?",
        f"<think>{{\"facts\": []}} hm, {{{{</think>{WHOLE}",
        f"so they want JSON</think>\n{WHOLE}",
        f"[{WHOLE}]",
        f'{{"answer": {WHOLE}}}',
        WHOLE.replace("}]", "},]").replace('"f2"]', '"f2",]'),
        WHOLE.replace('"message": 1', '"message": "1"').replace('"message": 3', '"message": "turn 3"'),
        WHOLE.replace('"message": 1', '"message": 1.0').replace('["f2"]', '"[F2]"'),
        WHOLE.replace('"episode"', '"Episode"').replace('"quotes"', '"QUOTES"'),
        WHOLE.replace('"title"', '"score": NaN, "title"'),
        WHOLE.replace('"title"', '"title": "a draft", "title"'),
        WHOLE.replace("[{", "{").replace("}]", "}"),
        WHOLE.replace('"', "'").replace("'title'", "title"),
        WHOLE.replace('"case": null', '"case": ""'),
        f'{{"episode": null, "facts": []}}\n{WHOLE}',
    ],
    ids=[
        "fence", "prose", "thought", "end of a thought", "list", "wrapped", "commas", "numbers as texts", "lone numbers",
        "capitals", "not a number", "key twice", "object for list", "other quotes", "empty for null", "draft first",
    ],
)  # fmt: skip
def test_an_answer_is_understood_whatever_its_form(text: str) -> None:
    assert parse(text) == parse(ANSWER)


def test_complete_items_of_an_answer_that_is_cut_off_are_kept_and_the_rest_is_reported() -> None:
    answer = json.dumps({"facts": [FACT, FACT | {"text": "Ann has a dog."}, FACT | {"text": "Ann sings."}]})
    cut = parse(answer[: answer.index("sings")])
    assert [draft.text for draft in cut.drafts] == ["Ann lives in Berlin.", "Ann has a dog."]
    assert [(refused.kind, refused.reason) for refused in cut.refused] == [
        ("facts", "the answer is cut off here")
    ]


@pytest.mark.parametrize(
    ("cut_in", "missing"),
    [
        ("episode", ["episodes", "facts", "foresight", "cases"]),
        ("facts", ["facts", "foresight", "cases"]),
        ("foresight", ["foresight", "cases"]),
        ("case", ["cases"]),
    ],
)
def test_what_an_answer_that_is_cut_off_never_told_is_missing(cut_in: str, missing: list[str]) -> None:
    cut = parse(WHOLE[: WHOLE.index(f'"{cut_in}": ') + len(cut_in) + 6])
    kinds: tuple[Kind, ...] = ("episodes", "facts", "foresight", "cases")
    assert [kind for kind in kinds if cut.is_missing(kind)] == missing
    assert not any(parse(WHOLE).is_missing(kind) for kind in kinds)


@given(st.integers(0, len(WHOLE)))
def test_wherever_an_answer_is_cut_off_nothing_of_it_is_made_up(length: int) -> None:
    try:
        cut = parse(WHOLE[:length])
    except ValueError:
        return
    whole = parse(ANSWER)
    assert all(draft in whole.drafts for draft in (*cut.of("facts"), *cut.of("foresight")))
    assert [draft.text for draft in cut.of("episodes")] in ([], ["Ann lives in Berlin."])


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "no JSON object"),
        ("I remember nothing.", "no JSON object"),
        ('<think>{"facts": []}', "no JSON object"),
        ('{"reasoning": "nothing"}', "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ('{"facts": 7}', "'facts' is not a list"),
        ('{"facts": [7]}', "no item of 'facts' can be read: an item is not an object"),
        ('{"facts": [{"quotes": []}]}', "no item of 'facts' can be read: 'text' is missing"),
        ('{"facts": [{"text": {"a": 1}}]}', "'text' is not a text"),
        ('{"episode": {"title": ["secret"], "text": "x"}}', "'title' is not a text"),
        ('{"facts": [secret]}', "an item is not an object"),
        ('{"facts" ' + "x" * 15_000 + "}", "not JSON"),
        ('{"facts": ' + "9" * 5_000 + "}", "a number that is too long"),
        ('{"facts": ' + "[" * 100_000, "nested too deeply"),
        ('{"a":' * 30_000, "nested too deeply"),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused_in_words(answer: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        parse(answer)
    assert "secret" not in str(caught.value)


@unhurried
@given(st.text(st.sampled_from('{}[]":,\\ntrue10.-NaN <think>/'), max_size=60))
def test_no_text_makes_the_reader_raise_anything_but_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert "t" in find_object(text, ["t"]).value


@pytest.mark.parametrize(
    "text",
    ["{" * 1_000_000, '{"' * 500_000, '{"a' * 300_000, "[" * 1_000_000, '"' * 1_000_000, "{\"episode\": \"" + "x" * 1_000_000],
    ids=["braces", "strings", "keys", "brackets", "quotes", "a long text"],
)  # fmt: skip
def test_a_huge_answer_takes_no_time(text: str) -> None:
    started = time.thread_time()
    with pytest.raises(ValueError, match="the answer"):
        parse(text)
    assert time.thread_time() - started < 1


def test_an_answer_that_is_too_long_counts_as_cut_off() -> None:
    longest = json.dumps({"facts": [FACT]})[:-1] + "," + " " * MAX_ANSWER + '"foresight": []}'
    cut = parse(longest)
    assert [draft.text for draft in cut.drafts] == ["Ann lives in Berlin."]
    assert reasons(cut) == ["the answer is cut off here"]


def test_a_broken_item_does_not_take_its_neighbours_along() -> None:
    result = parse({"facts": [FACT, {"quotes": []}, "text"]})
    assert [draft.text for draft in result.drafts] == ["Ann lives in Berlin."]
    assert reasons(result) == ["'text' is missing", "an item is not an object"]


def test_more_than_the_limits_is_counted_and_left_out() -> None:
    facts = [FACT | {"text": f"Ann has {number} hats."} for number in range(MAX_FACTS + 3)]
    plans = [PLAN | {"text": f"Ann buys hat {number}."} for number in range(MAX_PLANS + 1)]
    result = parse({"facts": facts, "foresight": plans})
    assert (len(result.of("facts")), len(result.of("foresight"))) == (MAX_FACTS, MAX_PLANS)
    assert reasons(result) == ["there are more than 20"] * 3 + ["there are more than 10"]


def test_a_text_that_is_too_long_is_refused_and_an_episode_is_cut_at_a_sentence() -> None:
    result = parse({"episode": "Ann sings. " * 300, "facts": [FACT, FACT | {"text": "Ann " * 101}]})
    (episode,) = result.of("episodes")
    assert len(episode.text) <= 2_000
    assert episode.text.endswith("sings.")
    assert reasons(result) == ["a text has more than 400 characters"]


def test_the_same_fact_twice_is_one_that_cites_both_turns() -> None:
    again = FACT | {"quotes": [{"message": 3, "words": "I"}], "text": "Ann lives in Berlin", "ends": ["f3"]}
    (fact,) = parse({"facts": [FACT, again]}).drafts
    assert (fact.turn_ids, len(fact.quotes)) == (("t-1", "t-3"), 2)
    assert (fact.replaces, fact.ends) == (("f2",), ("f3",))


def test_a_category_that_is_none_of_ours_is_an_event() -> None:
    (draft,) = parse({"facts": [FACT | {"category": "stars"}]}).drafts
    assert told(draft)["category"] == "event"


def test_an_episode_without_a_title_begins_with_what_it_tells() -> None:
    (episode,) = parse({"episode": "Ann lives in Berlin."}).drafts
    assert (episode.title, episode.text) == ("Ann lives in Berlin", "Ann lives in Berlin.")


def test_texts_are_one_line_that_can_be_stored() -> None:
    (draft,) = parse('{"facts": [{"text": "Ann\\n lives \\u0000in \\ud800Berlin."}]}').drafts
    assert draft.text == "Ann lives in ?Berlin."


# The repair round


def test_a_repair_shows_the_answer_and_says_what_is_wrong_with_it() -> None:
    prompt = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    *first, answer, request = repair_messages(prompt, "nonsense", "the answer holds no JSON object")
    assert first == prompt
    assert answer == {"role": "assistant", "content": "nonsense"}
    assert request["role"] == "user"
    assert "the answer holds no JSON object" in request["content"]


@pytest.mark.parametrize("answer", ["", "x" * 100_000, "\ud800"])
def test_a_repair_can_always_be_sent(answer: str) -> None:
    messages = repair_messages([{"role": "user", "content": "u"}], answer, "it is empty")
    assert all(message["content"].encode() for message in messages)
    assert sum(len(message["content"]) for message in messages) < 5_000


def test_the_same_words_about_two_people_of_one_name_are_two_facts() -> None:
    tea = FACT | {"text": "Anna likes tea."}
    abouts = ["Anna (school friend)", "Anna (colleague)", "anna (Colleague)"]
    drafts = parse({"facts": [tea | {"about": about} for about in abouts]}).drafts
    assert [told(draft)["subject"] for draft in drafts] == abouts[:2]


def test_the_same_plan_for_two_days_is_two_plans() -> None:
    days = ["2026-06-03", "2026-07-03", "2026-06-03"]
    assert len(parse({"foresight": [PLAN | {"when": day} for day in days]}).drafts) == 2


def test_a_plan_names_what_it_replaces_and_ends_or_nothing() -> None:
    for when in ("2026-06-03", None):
        plan = PLAN | {"when": when}
        named, silent = parse(
            {"foresight": [plan | {"replaces": ["f1"], "ends": ["F2"]}, plan | {"text": "Ann flies."}]}
        ).drafts
        assert (named.replaces, named.ends, silent.replaces, silent.ends) == (("f1",), ("f2",), (), ())
