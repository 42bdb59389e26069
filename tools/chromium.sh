#!/usr/bin/env bash
# Prints where Chromium is; where there is none, installs Debian's first.
#
# $CHROMIUM names one that is elsewhere. Ubuntu's package is a snap, which can't read a checkout: Chrome does there.
set -euo pipefail

there() {
    local name
    for name in chromium google-chrome google-chrome-stable; do
        command -v "$name" && return
    done
    return 1
}

as_root() { # COMMAND...
    if [[ $EUID -eq 0 ]]; then "$@"; else sudo --non-interactive "$@"; fi
}

cannot() { # WHY
    echo "No Chromium is on the PATH, and $1." >&2
    echo "Have root run 'apt-get install chromium', or say where one is: CHROMIUM=/path/to/chrome make test-browser" >&2
    exit 1
}

if [[ -n ${CHROMIUM:-} ]]; then
    command -v "$CHROMIUM" && exit
    echo "CHROMIUM=$CHROMIUM is no program" >&2
    exit 1
fi
there && exit
command -v apt-get >/dev/null || cannot "apt-get, which would install it, isn't either"
as_root true 2>/dev/null || cannot "only root may install it"
{
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium
} >&2 </dev/null || cannot "apt-get could not install it"
there || cannot "the package that apt-get installed has none"
