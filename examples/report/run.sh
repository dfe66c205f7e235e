#!/usr/bin/env bash
# An agent reads the orders of half a year and leaves a report and a table, which are saved in ./report.
set -euo pipefail
here=$(dirname "$0")

# The last line of --json is the finished run.
run=$(sortie run --file "$here/../orders.csv" --tag example --json "$(cat "$here/task.md")" </dev/null |
  tail -n 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])')
sortie runs artifacts "$run" --download report
cat report/report.md
