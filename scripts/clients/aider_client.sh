#!/usr/bin/env bash
# Aider in an empty repository, asking and changing nothing; its few-shot examples are part of what it sends.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
git init --quiet
printf '%s\n' "$@" /exit >input
aider --model openai/recollect --chat-mode ask --no-auto-commits --no-check-update --analytics-disable \
    --no-show-model-warnings --no-gitignore --no-pretty --no-fancy-input --yes-always --map-tokens 0 \
    <input | grep '^I see: '
