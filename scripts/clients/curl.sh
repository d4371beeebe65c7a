#!/usr/bin/env bash
# Plain HTTP; the whole history is sent each time, as OpenAI's protocol has it.
set -euo pipefail
history='[]'
for text in "$@"; do
    history=$(python3 -c 'import json, sys
history = json.loads(sys.argv[1]); history.append({"role": "user", "content": sys.argv[2]}); print(json.dumps(history))' "$history" "$text")
    answer=$(curl -sS --fail-with-body "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" \
        -H 'Content-Type: application/json' -d "{\"model\": \"recollect\", \"messages\": $history}" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["choices"][0]["message"]["content"])')
    echo "$answer"
    history=$(python3 -c 'import json, sys
history = json.loads(sys.argv[1]); history.append({"role": "assistant", "content": sys.argv[2]}); print(json.dumps(history))' "$history" "$answer")
done
