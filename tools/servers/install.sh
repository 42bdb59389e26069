#!/usr/bin/env bash
# Installs the real servers that the long tests start, without containers.
#
#   tools/servers/install.sh              every server of pins.txt
#   tools/servers/install.sh NAME...      these
#
# Each gets a folder of its own outside the checkout, <cache>/servers/<name>-<version>; one that is there is finished,
# and left alone. The cache is $PUTIFABSENT_CACHE, else putifabsent/ in $XDG_CACHE_HOME or ~/.cache.
# Only package registries are asked, through their own clients: go, cargo, npm and Maven.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
servers=${PUTIFABSENT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/putifabsent}/servers
work=
beat=

# Two compilers at a time: MinIO's take a GiB each. No version control stamps: a build must not depend on where it runs.
export GOFLAGS="-buildvcs=false -p=2"
export CARGO_BUILD_JOBS=2

version_of() { # NAME
    awk -v name="$1" '$1 == name { print $2 }' "$here/pins.txt"
}

# Ctrl-C must reach the client: hence --foreground. -s INT: go and npm end what they started.
bounded() { # SECONDS COMMAND...
    command -v "$2" >/dev/null || { echo "$2 is not on the PATH, and this server needs it"; return 127; }
    timeout --foreground -s INT -k 20 "$1" nice "${@:2}"
}

build() { # NAME VERSION FOLDER
    export GOBIN=$3/bin
    case $1 in
        azurite) bounded 900 npm install --prefix "$3" --no-fund --no-audit --no-update-notifier "azurite@$2" ;;
        dynamodb-local) bounded 900 mvn -B -q -f "$here/dynamodb-local/pom.xml" -Ddynamodb-local="$2" \
            dependency:copy-dependencies -DoutputDirectory="$3/lib" -Dmdep.stripVersion=true &&
            bounded 120 javac -cp "$3/lib/*" -d "$3/classes" "$here/dynamodb-local/OnLoopback.java" ;;
        fake-gcs-server) bounded 1200 go install "github.com/fsouza/fake-gcs-server@$2" ;;
        gofakes3) bounded 600 go install "github.com/johannesboyne/gofakes3/cmd/gofakes3@$2" ;;
        minio) bounded 2400 go install "github.com/minio/minio@$2" ;;
        postgresql) bounded 900 mvn -B -q -f "$here/postgresql/pom.xml" -Dpostgresql="$2" \
            dependency:unpack-dependencies -DoutputDirectory="$3/unpacked" -DmarkersDirectory="$3/unpacked" &&
            bounded 120 "${PYTHON:-python3}" -m tarfile -e "$3"/unpacked/*.txz "$3" && rm -r "$3/unpacked" ;;
        s3s-fs) bounded 1800 cargo install --root "$3" --locked --features binary "s3s-fs@$2" ;;
        versitygw) bounded 1200 go install "github.com/versity/versitygw/cmd/versitygw@$2" ;;
        zookeeper) bounded 900 mvn -B -q -f "$here/zookeeper/pom.xml" -Dzookeeper="$2" \
            dependency:copy-dependencies -DoutputDirectory="$3/lib" -Dmdep.stripVersion=true ;;
        *) echo "pins.txt names it, install.sh can't build it" && return 2 ;;
    esac
}

put_there() { # FROM TO
    mv -T "$1" "$2" || [ -d "$2" ] # another run was faster
}

clean_up() {
    [ -z "$beat" ] || kill "$beat" 2>/dev/null || true
    [ -z "$work" ] || rm -rf "$work" "$work.log"
    beat= work=
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say_that_it_runs() { # WHAT
    local seconds=0
    while sleep 20 >/dev/null 2>&1; do
        seconds=$((seconds + 20))
        echo "$1: still at it, $seconds s"
    done
}

install_server() { # NAME
    local version folder began=$SECONDS
    version=$(version_of "$1")
    if [ -z "$version" ]; then
        echo "install.sh: no server named '$1' in $here/pins.txt" >&2
        return 2
    fi
    folder=$servers/$1-$version
    if [ -d "$folder" ]; then
        echo "$1 $version: there already"
        return 0
    fi
    # Built beside its place and moved there in one step: a folder that is there is a finished one.
    mkdir -p "$servers" && work=$(mktemp -d "$servers/.$1.XXXXXX") || return
    echo "$1 $version: installing (what its client prints: $work.log)"
    say_that_it_runs "$1 $version" &
    beat=$!
    if ! { build "$1" "$version" "$work" && put_there "$work" "$folder"; } >"$work.log" 2>&1 </dev/null; then
        echo "$1 $version: failed after $((SECONDS - began)) s. The end of what its client printed:" >&2
        tail -n 20 "$work.log" >&2
        clean_up
        return 1
    fi
    echo "$1 $version: installed in $((SECONDS - began)) s"
    clean_up
}

if [ $# -eq 0 ]; then
    mapfile -t names < <(awk '!/^#/ && NF { print $1 }' "$here/pins.txt")
    set -- "${names[@]}"
fi
failed=0
for name in "$@"; do
    install_server "$name" || failed=1
done
exit "$failed"
