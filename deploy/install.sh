#!/bin/sh
# Installs Sortie from its tar archive, below ~/.local or PREFIX:
#
#     curl -fsSL https://downloads.example.com/sortie/install.sh | BASE_URL=https://downloads.example.com/sortie sh
#
# BASE_URL  address of the folder with the files of the release
# VERSION   version to install [default: that of this script]
# PREFIX    folder that gets bin/sortie and share/ [default: ~/.local]
set -eu

fail() {
  echo "install: $*" >&2
  exit 1
}

fetch() {
  if command -v curl >/dev/null; then
    curl --fail --silent --show-error --location --output "$2" "$1"
  elif command -v wget >/dev/null; then
    wget --quiet --output-document "$2" "$1"
  else
    fail "cannot download $1: install curl or wget"
  fi || fail "cannot download $1"
}

# The shell reads all of this function before it runs it, so an interrupted download installs nothing.
main() {
  base=${BASE_URL:-}
  [ -n "$base" ] || fail "BASE_URL: must be the address of the folder with the files of the release"
  version=${VERSION:-@VERSION@}
  prefix=${PREFIX:-${HOME:?HOME or PREFIX must be set}/.local}
  case "$(uname -s) $(uname -m)" in
  "Linux x86_64") target=x86_64-unknown-linux-gnu ;;
  "Linux aarch64") target=aarch64-unknown-linux-gnu ;;
  *) fail "cannot install on $(uname -s) $(uname -m): Sortie runs on Linux on x86_64 and aarch64" ;;
  esac
  name=sortie-$version-$target

  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  fetch "$base/$name.tar.gz" "$work/$name.tar.gz"
  fetch "$base/SHA256SUMS" "$work/SHA256SUMS"
  awk -v file="$name.tar.gz" '$2 == file' "$work/SHA256SUMS" >"$work/sum"
  [ -s "$work/sum" ] || fail "$base/SHA256SUMS does not list $name.tar.gz"
  (cd "$work" && sha256sum -c sum >/dev/null 2>&1) || fail "$name.tar.gz has another SHA-256 sum than SHA256SUMS says"
  tar -xzf "$work/$name.tar.gz" -C "$work"
  "$work/$name/bin/sortie" --version >/dev/null || fail "the program does not start here: it needs glibc 2.34 or newer"

  mkdir -p "$prefix/bin" "$prefix/share"
  cp -R "$work/$name/share/." "$prefix/share/"
  # A running engine keeps the old program: the new one takes its name in one step.
  cp "$work/$name/bin/sortie" "$prefix/bin/.sortie.new"
  mv "$prefix/bin/.sortie.new" "$prefix/bin/sortie"
  echo "installed sortie $version to $prefix/bin/sortie"
  case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "add $prefix/bin to PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
  esac
}

main
