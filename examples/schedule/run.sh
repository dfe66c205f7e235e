#!/usr/bin/env bash
# Starts a report every weekday at 7, and gets each result as a signed request. Needs a running engine.
set -euo pipefail
here=$(dirname "$0")

sortie files get orders.csv >/dev/null 2>&1 || sortie files upload "$here/orders.csv"
sortie workflows put "$here/late-orders.toml"

export CALLBACK_SECRET=a-long-random-text
exec 3< <(exec python3 "$here/receiver.py")
trap 'kill $! 2>/dev/null || true' EXIT
read -r port <&3
schedule=$(sortie schedules create late-orders '0 7 * * MON-FRI' --timezone Europe/Berlin --name 'Late orders' \
  --callback "http://127.0.0.1:$port/" --callback-secret-env CALLBACK_SECRET --json |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])')
sortie schedules next "$schedule" --count 3

# Do not wait for the morning: start it once now. The receiver prints the run when it ends.
sortie schedules trigger "$schedule"
cat <&3
