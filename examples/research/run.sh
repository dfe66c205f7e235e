#!/usr/bin/env bash
# An agent finds an answer in web pages of one site and cites them. Needs a running engine.
set -euo pipefail
here=$(dirname "$0")

sortie workflows put "$here/releases.toml"
sortie run --workflow debian-release </dev/null
