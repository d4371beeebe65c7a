"""llama.cpp's server."""

from recollect.context.llm import BackendFacts
from recollect.context.model_names import shown_name
from recollect.infra.backends.chat_templates import drops_reasoning, wants_alternation
from recollect.infra.backends.dialect import Answers, Outgoing
from recollect.infra.backends.engines.openai_compatible import OpenAiCompatible
from recollect.infra.backends.listings import positive_int, text_or_none
from recollect.memory.model import JsonObject


class LlamaCpp(OpenAiCompatible):
    """Keeps each thread's prefix in the slot it is pinned to."""

    def on_top(self, outgoing: Outgoing) -> JsonObject:
        if outgoing.local_extras and outgoing.call.slot is not None:
            return {"id_slot": outgoing.call.slot}
        return {}


def recognise_llama_cpp(answers: Answers) -> bool:
    props = answers.get("/props")
    return isinstance(props, dict) and "default_generation_settings" in props


def llama_cpp_facts(answers: Answers, models: tuple[str, ...], *, local: bool) -> BackendFacts:
    """One process holds one model, whatever a request calls it; its router mode is the exception."""
    props = answers.get("/props") or {}
    template = text_or_none(props.get("chat_template"))
    model = text_or_none(props.get("model_alias")) or text_or_none(props.get("model_path"))
    settings = props.get("default_generation_settings") or {}
    named = models or ((model,) if model else ())
    is_router = props.get("role") == "router"
    return BackendFacts(
        "llama.cpp",
        local,
        context_tokens=positive_int(settings.get("n_ctx")),
        slots=positive_int(props.get("total_slots")),
        models=named if is_router else tuple(map(shown_name, named)),
        selects_by_name=is_router,
        alternating_roles=wants_alternation(template, model or next(iter(models), None)),
        drops_reasoning=drops_reasoning(template, model or next(iter(models), None)),
    )
