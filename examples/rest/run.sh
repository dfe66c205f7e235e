#!/usr/bin/env bash
# Lets an agent call an HTTP API with a token that it never sees. Needs a running engine and an admin key.
set -euo pipefail
here=$(dirname "$0")

export SHOP_TOKEN=a-long-random-text
exec 3< <(exec python3 "$here/shop.py")
trap "kill $!" EXIT
read -r port <&3

sortie connections put shop "http://127.0.0.1:$port/v1" --auth bearer --secret-env SHOP_TOKEN --allow GET \
  --description 'Orders of the shop: GET orders, with ?status=open or ?status=shipped.'
sortie workflows put "$here/open-orders.toml"
sortie run --workflow open-orders </dev/null
