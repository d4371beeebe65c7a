"""A real llama.cpp server with default flags, as a process of its own, and what it tells of its cache."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.forking import BACKEND
from tests.processes import ModelServer, Process

MODELS = BACKEND.parent / ".venv" / "models"
FULL_MODEL = MODELS / "smollm2-135m-instruct" / "SmolLM2-135M-Instruct.Q4_1.gguf"
CUT_MODEL = MODELS / "smollm2-cut" / "SmolLM2-4-layers.gguf"
CUT_LAYERS = 4
_EVALUATED = "llamacpp:prompt_tokens_total "


@dataclass(frozen=True, slots=True)
class Exchange:
    """One answer, and what it took: tokens of the prompt from the cache, tokens evaluated, tokens of the answer."""

    text: str
    cached: int
    evaluated: int
    answer_tokens: int
    memories: int = 0
    """Recalled for it."""

    @property
    def prompt_tokens(self) -> int:
        return self.cached + self.evaluated


class LlamaCpp(ModelServer):
    """llama.cpp's server for as long as the `with` block runs; `context` is what one slot holds.

    With four of the model's layers: what it says is nonsense, what it caches is real. On one thread: several wait for
    each other by spinning, which takes six times as long where other tests run beside it.
    """

    seconds = 300
    headers: ClassVar[Mapping[str, str]] = {"Connection": "close"}
    """It hangs up after a stream although it offers to keep the connection: a second request on it is lost."""

    def __init__(self, *, slots: int = 1, context: int = 4096) -> None:
        self._command = [sys.executable, "-m", "recollect.infra.backends.local_model_server"]
        self._command += ["--model", str(cut_model()), "--slots", str(slots), "--context", str(context)]
        self._command += ["--threads", "1"]

    def _started(self, port: int) -> Process:
        return subprocess.Popen(
            self._command,
            cwd=BACKEND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def evaluated_in_all(self) -> int:
        """Tokens of prompts that it evaluated since its start, whoever asked."""
        told = self._client.get("/metrics").raise_for_status().text.splitlines()
        return next(int(float(line.split()[1])) for line in told if line.startswith(_EVALUATED))

    def chat(self, messages: Sequence[dict[str, Any]], *, max_tokens: int) -> Exchange:
        """One streamed answer, with the most likely tokens."""
        body: dict[str, Any] = {
            "messages": list(messages),
            "max_tokens": max_tokens,
            "temperature": 0,
            "cache_prompt": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        text = ""
        timings: dict[str, int] = {}
        with self._client.stream("POST", "/v1/chat/completions", json=body) as answer:
            if answer.status_code != 200:
                raise RuntimeError(answer.read().decode())
            for line in answer.iter_lines():
                if not line.startswith("data: {"):
                    continue
                event = json.loads(line[len("data: ") :])
                for choice in event.get("choices", ()):
                    text += choice["delta"].get("content") or ""
                timings = event.get("timings") or timings
        return Exchange(text, timings["cache_n"], timings["prompt_n"], timings["predicted_n"])


def cut_model() -> Path:
    """Made once, from the whole model."""
    if not FULL_MODEL.is_file():
        raise RuntimeError(
            f"the small model is not at {FULL_MODEL}: run 'scripts/bootstrap dev' with a network"
        )
    if not CUT_MODEL.is_file():
        from tests.cut_gguf import cut_gguf

        CUT_MODEL.parent.mkdir(parents=True, exist_ok=True)
        cut_gguf(FULL_MODEL, CUT_MODEL, CUT_LAYERS)
    return CUT_MODEL
