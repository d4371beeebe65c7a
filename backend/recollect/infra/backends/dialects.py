"""Which engine is spoken to how."""

from recollect.context.llm import BackendKind
from recollect.infra.backends.dialect import Dialect
from recollect.infra.backends.engines.anthropic import Anthropic
from recollect.infra.backends.engines.llama_cpp import LlamaCpp
from recollect.infra.backends.engines.ollama import Ollama
from recollect.infra.backends.engines.openai import OpenAi
from recollect.infra.backends.engines.openai_compatible import BatchingServer, OpenAiCompatible
from recollect.infra.backends.engines.vllm import Vllm

DIALECTS: dict[BackendKind, Dialect] = {
    "llama.cpp": LlamaCpp(),
    "lmstudio": OpenAiCompatible(),
    "vllm": Vllm(),
    "sglang": BatchingServer(),
    "ollama": Ollama(),
    "openai": OpenAi(),
    "anthropic": Anthropic(),
    "openrouter": OpenAiCompatible(),
    "other": OpenAiCompatible(),
}
