#!/usr/bin/env bash
# Simon Willison's llm, with a model of extra-openai-models.yaml; -c continues the last conversation.
set -euo pipefail
export LLM_USER_PATH="$HOME/llm"
rm -rf "$LLM_USER_PATH"
mkdir -p "$LLM_USER_PATH"
cat >"$LLM_USER_PATH/extra-openai-models.yaml" <<YAML
- model_id: recollect
  model_name: recollect
  api_base: "$OPENAI_BASE_URL"
  api_key_name: openai
YAML
llm -m recollect "$1"
for text in "${@:2}"; do
    llm -m recollect -c "$text"
done
