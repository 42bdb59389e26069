#!/usr/bin/env bash
# Brings, from npm's registry, the scripts by which built pages draw diagrams and are searched without a network.
#
#   tools/docs_scripts.sh FOLDER
set -euo pipefail

command -v npm >/dev/null || { echo "npm (Node) is not on the PATH, and the documentation's scripts need it"; exit 127; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$1"

bring() { # PACKAGE VERSION FILE AS FOLDER SHA512
    local archive=$work/$1-$2.tgz
    timeout --foreground -s INT -k 20 300 npm pack --silent --pack-destination "$work" "$1@$2" >/dev/null
    sha512sum --check --status <<<"$6  $archive" ||
        { echo "$1 $2 from npm is not what was pinned: its hash differs"; exit 1; }
    tar -xzOf "$archive" "package/$3" >"$work/$4"
    mv "$work/$4" "$5"
}

bring mermaid 11.17.2 dist/mermaid.min.js mermaid.js "$1" \
    57a2b70bc101744b0f1595d228c25eea9a50384371b87011afd1af1d7e21878ee501b84c443f6a7f8a042bb2e869143150b31af34feab798073bbdda0a578106
# Browsers let no page of a folder start the worker that searches.
bring iframe-worker 1.0.4 shim/index.js iframe-worker.js "$1" \
    ae879a688f8b8352c935f8290a3a117bff96cc48f2f7e674f0ba04beef393023db063c26faa5f3f00839534e651dae95d42cac6721b313448e900b52500e6aed
