"""Windows shrink in halves, at a user's turn, and never leave the newest one behind."""

from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.model import Role, Turn
from recollect.domain.prompt import Window, answer_tokens, block_tokens, half, planned_cut, shares


def turns(roles: str) -> list[Turn]:
    names: dict[str, Role] = {"u": "user", "a": "assistant", "t": "tool"}
    return [Turn(f"t-{n}", f"m{n}", names[role], "x", "word " * 10, 0) for n, role in enumerate(roles, 1)]


def test_the_newer_half_is_kept() -> None:
    talk = turns("uauauauau")
    assert half(talk, [1] * 9, Window(8)) == 6


def test_tokens_count_too() -> None:
    talk = turns("uauauauau")
    assert half(talk, [100] * 9, Window(100, tokens=800)) == 6
    assert half(talk, [10] * 8 + [390], Window(100, tokens=800)) == 8


def test_a_tools_result_is_never_parted_from_its_call() -> None:
    talk = turns("uauatatau")
    assert half(talk, [1] * 9, Window(6)) == 8
    assert half(turns("uatatatat"), [1] * 9, Window(4)) == 0


def test_the_newest_message_is_kept_however_large_it_is() -> None:
    talk = turns("uau")
    assert half(talk, [10, 10, 9_000], Window(10, tokens=800)) == 2


def test_the_cut_that_is_planned_is_the_one_that_is_made() -> None:
    window = Window(8)
    full = turns("uauauauau")
    assert planned_cut(full[:7], [1] * 7, window) == 4
    assert planned_cut(full[:4], [1] * 4, window) is None
    assert window.is_nearly_over(7, 0)
    assert not window.is_nearly_over(6, 0)


def test_room_for_the_answer_and_for_a_block() -> None:
    assert (answer_tokens(300, 2048), answer_tokens(None, 2048), answer_tokens(None, None)) == (
        300,
        512,
        1024,
    )
    assert (block_tokens(2048), block_tokens(100_000), block_tokens(None)) == (102, 400, 400)


@given(st.text("uat", min_size=1, max_size=30), st.integers(2, 12), st.integers(50, 400), st.data())
def test_what_is_kept_ends_with_the_newest_and_begins_with_a_user(
    roles: str, most: int, tokens: int, data: st.DataObject
) -> None:
    talk = turns(roles + "u")
    counts = data.draw(st.lists(st.integers(1, 200), min_size=len(talk), max_size=len(talk)))
    cut = half(talk, counts, Window(most, tokens))
    assert 0 <= cut < len(talk)
    assert cut == 0 or talk[cut].role == "user"
    kept = talk[cut:]
    fits = len(kept) <= max(1, most // 2) and sum(counts[cut:]) <= tokens // 2
    newest_user = max(n for n, turn in enumerate(talk) if turn.role == "user")
    assert fits or cut in (0, newest_user) or all(turn.role != "user" for turn in talk[cut + 1 :])
    assert sum(shares(talk, 1000)) <= 1000
