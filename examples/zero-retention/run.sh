#!/usr/bin/env bash
# A run that stores nothing of its content: the answer can be read once. Needs a running engine and curl.
set -euo pipefail
here=$(dirname "$0")
api=${SORTIE_URL:-http://127.0.0.1:8080}/v1
key=${SORTIE_API_KEY:-$(cat data/admin.key)}
call() { curl -sS --fail-with-body "$api/$1" -H "Authorization: Bearer $key" "${@:2}"; }
field() { python3 -c 'import json, sys; print(json.load(sys.stdin).get(sys.argv[1], "none"))' "$1"; }

# The letter travels in the request: a file that is saved with `sortie files` stays where it is saved.
run=$(python3 "$here/request.py" "$here/letter.txt" |
  call runs -H 'Content-Type: application/json' --data @- | field id)

# A read that leaves the answer where it is, until the run has ended.
until [ -n "$(call "runs/$run?output=false&wait=60" | grep -o '"finished_at"')" ]; do :; done
echo "first read: $(call "runs/$run" | field output)"
echo "second read: $(call "runs/$run" | field output)"
