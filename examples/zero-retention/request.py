"""Prints the request of a run that classifies a letter and stores nothing of it."""

import json
import pathlib
import sys

letter = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
request = {
    "prompt": "The input is a letter of a patient. Answer with its urgency alone: low, medium or high.",
    "input": letter,
    "shell": False,
    "zero_data_retention": True,
}
print(json.dumps(request))
