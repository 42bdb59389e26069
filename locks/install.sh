#!/usr/bin/env bash
# install.sh ENVIRONMENT LOCK: ENVIRONMENT then holds exactly what LOCK says, and this project itself, editable.
# Needs nothing but Python >= 3.10 (PYTHON=... names one). pip's own settings hold for uv too.
set -euo pipefail

environment=$1
lock=$2
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "putifabsent needs Python 3.10 or newer; $python is $("$python" --version). Say which: make PYTHON=python3.12" >&2
    exit 1
}
# One whose making was interrupted has a Python, and no pip.
"$environment/bin/python" -m pip --version &>/dev/null || "$python" -m venv "$environment"
"$environment/bin/python" -m pip --quiet install --require-hashes --requirement "$root/locks/uv.txt"

settings=$("$environment/bin/python" -m pip config list)
setting() { # the value of one of pip's settings, from its environment or its files
    local scope value
    for scope in ':env:' install global; do
        value=$(sed -nE "s/^$scope\.$1='(.*)'\$/\1/p" <<<"$settings")
        if [[ -n $value ]]; then
            echo "${value//\\n/ }"
            return
        fi
    done
}
hand_on() { # hand_on VARIABLE VALUE: for uv, where the user has not set it
    if [[ -z ${!1:-} && -n $2 ]]; then export "$1=$2"; fi
}
find_links=$(setting find-links)
hand_on UV_DEFAULT_INDEX "$(setting index-url)"
hand_on UV_INDEX "$(setting extra-index-url)"
hand_on UV_FIND_LINKS "${find_links// /,}"
hand_on UV_INSECURE_HOST "$(setting trusted-host)"
hand_on UV_HTTP_TIMEOUT "$(setting default-timeout)"
hand_on SSL_CERT_FILE "$(setting cert)"

uv=("$environment/bin/uv" pip)
"${uv[@]}" sync --quiet --python "$environment/bin/python" --require-hashes "$lock"
# The build back end is in the lock too: nothing is fetched that has no hash.
"${uv[@]}" install --quiet --python "$environment/bin/python" --no-deps --no-build-isolation --editable "$root"
