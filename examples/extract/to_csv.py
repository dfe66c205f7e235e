"""Prints a folder of JSON answers as CSV."""

import csv
import json
import pathlib
import sys

columns = ["number", "vendor", "date", "total", "currency"]
table = csv.writer(sys.stdout, lineterminator="\n")
table.writerow(["file", *columns])
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    answer = json.loads(path.read_text(encoding="utf-8"))
    total = answer["total"]
    row = {**answer, "total": "" if total is None else f"{total:.2f}"}
    table.writerow([path.stem + ".txt", *(row[column] for column in columns)])
