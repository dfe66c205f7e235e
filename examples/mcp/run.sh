#!/usr/bin/env bash
# Gives an agent two MCP servers: a program that the engine starts in the sandbox, and a server over HTTP with a token.
# Needs a running engine and an admin key.
set -euo pipefail
here=$(dirname "$0")

# The program. Its text is an argument, because the sandbox shows a program only the files of the system.
program='import json, sys; print(json.dumps({"type": "mcp", "command": ["python3", "-c", open(sys.argv[1]).read()]}))'
python3 -c "$program" "$here/warehouse.py" >berlin.json
sortie connections put berlin --file berlin.json

# The server over HTTP. The engine keeps the token sealed and adds it to each call; the agent never sees it.
export WAREHOUSE_TOKEN=a-long-random-text
exec 3< <(exec python3 "$here/warehouse.py" 0)
trap "kill $!" EXIT
read -r port <&3
sortie connections put porto "http://127.0.0.1:$port/" --mcp --auth bearer --secret-env WAREHOUSE_TOKEN --allow stock

sortie connections test berlin
sortie connections test porto
sortie workflows put "$here/stock.toml"
sortie run --workflow stock </dev/null
