"""A query is taken apart: what it asks for, and how it asks."""

import time

import pytest
from hypothesis import given

from recollect.domain.recall.dates import Span, without_times
from recollect.domain.recall.query import read_query
from recollect.domain.recall.words import words_asked_for
from tests.unit.awkward_text import texts

NAMES = {"Ann": ("ann",), "Ann Lee": ("ann", "lee"), "Bob": ("bob",), "王小明": ("王小", "小明")}


def words(text: str) -> tuple[str, ...]:
    return read_query(text, 0).words


def test_the_words_of_asking_are_not_looked_for() -> None:
    assert words("Could you please tell me where Marta's dog lives?") == ("marta", "dog", "live")


def test_a_query_of_little_words_alone_is_looked_for_as_it_is() -> None:
    assert words("who is it") == tuple(dict.fromkeys(words_asked_for("who is it")))


def test_a_query_that_is_all_request_keeps_its_words() -> None:
    query = read_query("please", 0)
    assert query.focus == "please"
    assert query.words == ("pleas",)


def test_an_empty_query_asks_for_nothing() -> None:
    assert words("") == ()
    assert words(" ?! ") == ()


@pytest.mark.parametrize(
    ("text", "word"), [("北京烤鸭在哪里", "烤鸭"), ("where is getUserName", "user"), ("👍?", "👍")]
)
def test_words_of_every_script_are_asked_for(text: str, word: str) -> None:
    assert word in words(text)


def test_times_are_read_from_the_query() -> None:
    assert read_query("What did I do in July?", 0).spans == (Span(month=7),)


def test_a_date_alone_is_looked_for_by_its_words_too() -> None:
    query = read_query("on 2026-11-01", 0)
    assert (query.words, query.day_words) == (("2026", "11", "01"), ())


@pytest.mark.parametrize("text", ["Summarize my week", "give me an overview", "总结一下"])
def test_a_summary_is_recognised(text: str) -> None:
    assert read_query(text, 0).wants_summary
    assert not read_query("What is my dog's name?", 0).wants_summary


@given(texts)
def test_any_text_can_be_asked(text: str) -> None:
    query = read_query(text, 0)
    assert query.text == text
    asked = words_asked_for(query.focus) + words_asked_for(without_times(query.focus, 0))
    assert set(query.words) <= set(asked)


@pytest.mark.parametrize(
    "piece", ["can you ", "in order ", " ", "mention only ", "i have ", "a full ", "summar", "how "]
)
def test_long_queries_are_read_in_bounded_time(piece: str) -> None:
    begun = time.process_time()
    read_query(piece * (50_000 // len(piece)), 0)
    assert time.process_time() - begun < 2


def test_a_query_of_signs_that_stand_for_many_letters_is_cut() -> None:
    assert len(read_query("ﷺ" * 10_000, 0).text) == 10_000
