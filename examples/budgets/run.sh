#!/usr/bin/env bash
# Gives each member of a team a key with a budget, and caps the team. Needs a running engine, an admin key and curl.
set -euo pipefail
api=${SORTIE_URL:-http://127.0.0.1:8080}/v1
admin=${SORTIE_API_KEY:-$(cat data/admin.key)}
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
# Amounts of the API are millionths of a dollar.
budget() {
  curl -sS --fail-with-body -X PUT "$api/budgets/$1" -H "Authorization: Bearer $admin" \
    -H 'Content-Type: application/json' -d "{\"limit_micros\": $2, \"period\": \"month\"}" >/dev/null
}

# 50 dollars a month for all, 2 dollars for each person, whatever happens.
budget organization 50000000
umask 077
for person in ada grace; do
  sortie keys create "$person" --expires-in 90d --json >"$person.json"
  budget "key:$(field id <"$person.json")" 2000000
done

# Ada's run holds its maximum while it works, and pays what it has used at its end.
export SORTIE_API_KEY
SORTIE_API_KEY=$(field key <ada.json)
sortie run --no-shell 'In one sentence: why do budgets need a hold before a call?' </dev/null

# A run that could cost more than Ada has left is refused before it costs anything.
ask='{"prompt": "Write a novel.", "shell": false, "max_cost_micros": 3000000}'
curl -sS "$api/runs" -H "Authorization: Bearer $SORTIE_API_KEY" -H 'Content-Type: application/json' -d "$ask" | field error

# Grace still has her budget.
SORTIE_API_KEY=$(field key <grace.json)
sortie run --no-shell 'In one sentence: what is a budget?' </dev/null
SORTIE_API_KEY=$admin sortie budgets list
