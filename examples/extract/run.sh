#!/usr/bin/env bash
# Reads 50 invoices in three layouts, four at a time, and writes ./invoices.csv. Needs a running engine.
set -euo pipefail
here=$(dirname "$0")
mkdir -p answers

sortie workflows put "$here/invoice.toml"
# An answer gets its name when it is whole: if the batch is interrupted, the next start reads only what is missing.
for invoice in "$here"/invoices/*.txt; do
  answer=answers/$(basename "$invoice" .txt).json
  [ -e "$answer" ] || printf '%s\0%s\0' "$invoice" "$answer"
done | xargs -0 -r -n 2 -P 4 bash -c '
  sortie run --workflow invoice <"$1" >"$2.part" 2>"$2.log" || { cat "$2.log" >&2; exit 1; }
  mv "$2.part" "$2"; rm "$2.log"' read-invoice
python3 "$here/to_csv.py" answers >invoices.csv
wc -l invoices.csv
