"""The adapters in `examples/`, as far as that needs no framework; `make clients` runs them with theirs."""

import runpy
import sys
from pathlib import Path
from types import ModuleType

import httpx2
import pytest

EXAMPLES = Path(__file__).parents[4] / "examples"
NO_MODEL = "there is no embedding model: run 'recollect setup'"


def without_a_model(request: httpx2.Request) -> httpx2.Response:
    if request.url.path == "/v1/embeddings":
        return httpx2.Response(503, json={"error": {"message": NO_MODEL}})
    raise AssertionError(request.url)


def test_crewais_storage_says_that_there_is_no_embedding_model(monkeypatch: pytest.MonkeyPatch) -> None:
    types = ModuleType("crewai.memory.types")
    types.MemoryRecord = types.ScopeInfo = object  # type: ignore[attr-defined]
    for name in ("crewai", "crewai.memory"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, types.__name__, types)
    storage = runpy.run_path(str(EXAMPLES / "crewai_storage.py"))["RecollectStorage"]()
    with httpx2.Client(base_url="http://nowhere", transport=httpx2.MockTransport(without_a_model)) as client:
        storage._client.close()
        storage._client = client
        with pytest.raises(RuntimeError, match="run 'recollect setup'"):
            storage.embed(["hello"])
