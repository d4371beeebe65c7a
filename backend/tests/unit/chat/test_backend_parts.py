"""The parts of the backends that need no server: addresses, names, thoughts, lines, counts and words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.llm import find_model, is_alias, nearest_names, shown_name
from recollect.infra.backends.address import api_root, cloud_kind, host_and_port, is_local, server_root
from recollect.infra.backends.dialect import (
    EndlessLineError,
    JsonLines,
    ServerSentEvents,
    ThoughtSplitter,
    drops_reasoning,
    guess_tokens,
    wants_alternation,
)
from recollect.infra.backends.refusals import error_in
from recollect.infra.backends.server import Quoter, without_words_of
from recollect.setting_groups import BackendKind

# --- addresses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "api", "server"),
    [
        ("http://h:8080", "http://h:8080/v1", "http://h:8080"),
        ("http://h:8080/v1/", "http://h:8080/v1", "http://h:8080"),
        ("https://h/llama/v1", "https://h/llama/v1", "https://h/llama"),
        ("https://h/v1beta/openai", "https://h/v1beta/openai", "https://h"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1", "https://openrouter.ai/api"),
        ("http://v1.example.org", "http://v1.example.org/v1", "http://v1.example.org"),
    ],
)
def test_an_address_may_leave_its_version_out(given: str, api: str, server: str) -> None:
    assert (api_root(given), server_root(given)) == (api, server)


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(ValueError, match="must begin with http"):
        api_root("127.0.0.1:8080")


LOCAL = """
localhost 127.0.0.1 127.8.9.1 [::1] 10.1.2.3 172.16.0.1 172.31.255.1 192.168.1.7 169.254.3.4 100.64.0.1
100.127.255.254 [fe80::1] [fd12::7] [::ffff:192.168.1.7] gpu.local GPU.local. host.docker.internal
"""
ELSEWHERE = """
api.openai.com 8.8.8.8 172.32.0.1 100.128.0.1 [2001:db8::1] localhost.example.org mylocal gpu
10.1.2.3.example.org [::ffff:8.8.8.8] host.docker.internal.example.org
"""


@pytest.mark.parametrize("host", [*LOCAL.split(), *ELSEWHERE.split()])
def test_a_host_is_local_by_its_name_or_address(host: str) -> None:
    assert is_local(f"http://{host}:8080/v1") == (host in LOCAL.split())


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://API.Anthropic.com", "anthropic"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.groq.com/openai/v1", "other"),
        ("http://127.0.0.1:11434", None),
        ("https://api.openai.com.example.org", None),
    ],
)
def test_a_cloud_is_known_by_its_name(address: str, kind: BackendKind | None) -> None:
    assert cloud_kind(address) == kind


def test_this_machine_has_one_name_in_groups() -> None:
    same = {
        host_and_port(f"http://{host}:80/v1") for host in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST")
    }
    assert same == {host_and_port("http://localhost")} == {"127.0.0.1:80"}
    assert host_and_port("https://user:secret@Example.org/v1") == "example.org:443"


# --- names of models ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "listed", "found"),
    [
        ("gpt-5", ["gpt-5-mini", "gpt-5"], "gpt-5"),
        ("GPT-5", ["gpt-5"], "gpt-5"),
        ("openai/gpt-5", ["gpt-5"], "gpt-5"),
        ("qwen3-8b", ["C:\\models\\Qwen3-8B.gguf"], "C:\\models\\Qwen3-8B.gguf"),
        ("llama3", ["llama3:8b", "llama3:latest"], "llama3:latest"),
        ("llama3:70b", ["llama3:latest"], None),
        ("x", ["a/x", "b/x"], None),
        ("a/x", ["a/x", "b/x"], "a/x"),
        ("gpt", ["gpt-5"], None),
    ],
)
def test_the_model_that_is_meant_is_found_and_none_is_guessed(
    wanted: str, listed: list[str], found: str | None
) -> None:
    assert find_model(wanted, listed) == found


def test_a_clouds_aliases_are_known() -> None:
    assert is_alias("claude-sonnet-4-5", ["claude-sonnet-4-5-20250929"])
    assert is_alias("claude-3-5-haiku-latest", ["claude-3-5-haiku-20241022"])
    assert is_alias("meta/llama-3:nitro", ["meta/llama-3"])
    assert not is_alias("claude-sonnet", ["claude-sonnet-4-5-20250929"])


def test_the_nearest_names_come_first_ten_at_most() -> None:
    listed = [f"zephyr-{n}" for n in range(12)] + ["mistral-large"]
    assert nearest_names("mistral-lrage", listed)[0] == "mistral-large"
    assert len(nearest_names("mistral-lrage", listed)) == 10


# --- templates ------------------------------------------------------------------------------------------------


def test_a_template_that_refuses_two_of_a_role_wants_alternation() -> None:
    refuses = "{{ raise_exception('After the optional system message, conversation roles must alternate') }}"
    assert wants_alternation(refuses, "llama")
    assert not wants_alternation("{{ raise_exception('no tools') }}{# roles alternate #}", "gemma-3-4b")


@pytest.mark.parametrize("name", ["google/gemma-3-4b", "Mistral-7B-Instruct", "mixtral:8x7b"])
def test_without_a_template_the_name_tells_of_alternation(name: str) -> None:
    assert wants_alternation(None, name)
    assert not wants_alternation(None, "qwen3-8b")


def test_a_template_that_splits_at_the_end_of_thoughts_drops_them() -> None:
    assert drops_reasoning("{%- set content = message.content.split('</think>')[-1] %}", None)
    assert not drops_reasoning("{{ '<think>' }}", "qwen3-8b")


# --- thoughts -------------------------------------------------------------------------------------------------


def split(pieces: list[str]) -> tuple[str, str]:
    splitter = ThoughtSplitter()
    parts = [*(splitter.feed(piece) for piece in pieces), splitter.flush()]
    return "".join(text for text, _ in parts), "".join(thought for _, thought in parts)


@pytest.mark.parametrize(
    ("answer", "text", "thought"),
    [
        ("<think>\nHm.\n</think>\n\nYes.", "Yes.", "Hm."),
        ("\n<think>Hm.</think>Yes.", "Yes.", "Hm."),
        ("Yes <think>no</think>.", "Yes <think>no</think>.", ""),
        ("<think>a</think>b<think>c</think>", "b<think>c</think>", "a"),
        ("<thin ice", "<thin ice", ""),
        ("<think>never ends </thi", "", "never ends </thi"),
        ("<th", "<th", ""),
        ("  indented", "  indented", ""),
        ("<think></think>", "", ""),
    ],
)
def test_thoughts_at_the_start_are_told_apart_however_the_answer_is_cut(
    answer: str, text: str, thought: str
) -> None:
    for size in (1, 2, 3, 7, len(answer)):
        pieces = [answer[start : start + size] for start in range(0, len(answer), size)]
        assert split(pieces) == (text, thought)


@given(st.lists(st.text(alphabet="<think>/ \nab", max_size=9), max_size=9))
def test_an_answer_without_thoughts_comes_out_whole(pieces: list[str]) -> None:
    answer = "".join(pieces)
    if not answer.lstrip().startswith("<think>"):
        assert split(pieces) == (answer, "")


# --- lines ----------------------------------------------------------------------------------------------------

STREAM = b': hello\r\nevent: x\ndata: {"a": 1}\r\n\r\ndata:one\ndata: two\n\n\n\nerror: {"code": 1}\n\ndata: [DONE]'
EVENTS = [b'{"a": 1}', b"one\ntwo", b'{"error": {"code": 1}}', b"[DONE]"]


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000])
def test_events_are_the_same_however_the_stream_is_cut(size: int) -> None:
    parser = ServerSentEvents()
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    found = [event for piece in pieces for event in parser.feed(piece)]
    assert [*found, *parser.flush()] == EVENTS


def test_json_lines_are_split_at_newlines_only() -> None:
    parser = JsonLines()
    assert list(parser.feed('{"a": "\u2028"}\r\n\n{"b"'.encode())) == ['{"a": "\u2028"}'.encode()]
    assert list(parser.feed(b": 2}")) == []
    assert list(parser.flush()) == [b'{"b": 2}']


def feed(parser: JsonLines, pieces: list[bytes]) -> None:
    for piece in pieces:
        list(parser.feed(piece))


@pytest.mark.parametrize("parser", [JsonLines(limit=100), ServerSentEvents(limit=100)])
def test_a_line_without_an_end_is_given_up(parser: JsonLines) -> None:
    with pytest.raises(EndlessLineError):
        feed(parser, [b"data: xxxx"] * 20)


def test_an_event_of_lines_without_end_is_given_up() -> None:
    with pytest.raises(EndlessLineError):
        feed(ServerSentEvents(limit=100), [b"data: xxxxxxxxxx\n"] * 20)


# --- counts and words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("a" * 36, 10), ("你好世界", 4), ("Привет", 4), ("👩‍👩‍👧", 6), ("aaa 你", 3)],
)
def test_tokens_are_guessed_by_script(text: str, tokens: int) -> None:
    assert guess_tokens(text) == tokens


def test_a_quote_is_one_short_line_without_secrets() -> None:
    quoter = Quoter(["sk-secret", ""])
    assert quoter.quote("bad key sk-secret\n\x1b[31m at line\u2028 2") == "bad key … [31m at line 2"
    assert len(quoter.quote("x" * 5000)) == 300


def test_an_error_that_is_nested_without_end_is_a_text() -> None:
    assert error_in(b"[" * 100_000) == "[" * 100_000


@pytest.mark.parametrize(
    ("request_", "said", "left"),
    [
        ("My PIN is 4711.", "bad token '4711' at 12", "bad token '…' at 12"),
        ("The secret is Rumpelstilzchen", "near:xRUMPELSTILZCHENx", "near:x…x"),
        ("我叫王小明 住在北京", "不能处理「王小明」", "不能处理「…」"),
        ("nothing alike", "out of memory", "out of memory"),
        ("x" * 2_000_000, "anything", "…"),
    ],
)
def test_of_what_a_server_says_only_its_own_words_are_left(request_: str, said: str, left: str) -> None:
    assert without_words_of({"messages": [{"content": request_}]}, said) == left


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/home/ann/models/SmolLM2.gguf", "SmolLM2.gguf"),
        ("C:\\models\\qwen3.gguf", "qwen3.gguf"),
        ("qwen/qwen3-8b", "qwen/qwen3-8b"),
        ("gpt-5", "gpt-5"),
    ],
)
def test_a_models_place_on_the_disk_is_shown_to_nobody(name: str, shown: str) -> None:
    assert shown_name(name) == shown
