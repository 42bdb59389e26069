#!/usr/bin/env bash
# Brings, from npm's registry, the scripts by which built pages draw diagrams and are searched without a network.
#
#   tools/docs_scripts.sh FOLDER
set -euo pipefail

command -v npm >/dev/null || { echo "npm (Node) is not on the PATH, and the documentation's scripts need it"; exit 127; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$1"

bring() { # PACKAGE VERSION SHA512 FILE AS FOLDER
    local archive=$work/$1-$2.tgz
    timeout --foreground -s INT -k 20 300 npm pack --silent --pack-destination "$work" "$1@$2" >/dev/null
    [ "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" = "$3" ] ||
        { echo "$1 $2 from npm is not what was pinned: its hash differs"; exit 1; }
    tar -xzOf "$archive" "package/$4" >"$work/$5"
    mv "$work/$5" "$6"
}

bring mermaid 11.17.2 V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg== \
    dist/mermaid.min.js mermaid.js "$1"
# Browsers let no page of a folder start the worker that searches.
bring iframe-worker 1.0.4 roeaaI+Lg1LJNfgpCjoRe/+WzEjy9+Z08LoEvu85MCPbBjwm+qXz8Ag5U05lHa6V1CysZyGzE0SOkAtSUA5q7Q== \
    shim/index.js iframe-worker.js "$1"
