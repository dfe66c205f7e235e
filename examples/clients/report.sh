#!/usr/bin/env bash
# Runs an agent on a file, follows it, and saves what it leaves. Needs SORTIE_URL, SORTIE_API_KEY and curl.
set -euo pipefail
call() { curl -sS --fail-with-body "$SORTIE_URL/v1/$1" -H "Authorization: Bearer $SORTIE_API_KEY" "${@:2}"; }

run=$(call runs -H 'Content-Type: application/json' -d '{
  "prompt": "```sh\nmkdir -p outputs && sort -t, -k2 -rn orders.csv >outputs/sorted.csv\n```", "model": "runbook",
  "files": [{"path": "orders.csv", "content": "north,3\nsouth,4\n"}]
}' | sed -n 's/.*"id":"\(run_[^"]*\)".*/\1/p')
# One connection. A client that survives a broken one sends `Last-Event-ID`, as the libraries do.
call "runs/$run/events" -N | sed -n 's/^event: //p'
call "runs/$run/artifacts/sorted.csv" >sorted.csv
cat sorted.csv
