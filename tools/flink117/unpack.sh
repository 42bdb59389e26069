#!/usr/bin/env bash
# unpack.sh ENVIRONMENT FOLDER: FOLDER then holds Flink 1.17, out of the sdists that locks/flink117.txt names.
# ENVIRONMENT has a later PyFlink.
set -euo pipefail

environment=$1
folder=$2
lock=$(dirname "$0")/../../locks/flink117.txt

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# pip looks at an sdist's metadata by its build back end, which the environment has.
"$environment/bin/python" -m pip --quiet download --no-deps --no-binary=:all: --no-build-isolation --require-hashes \
    --dest "$work" --requirement "$lock"
rm -rf "$folder"
mkdir -p "$folder"
for each in "$work"/*.tar.gz; do
    tar --extract --file "$each" --directory "$folder" --strip-components=2 --wildcards '*/deps/*'
done
# Java 17 is newer than this release, which needs of it what later ones open.
sed -n 's/^ *all: /env.java.opts.all: /p' "$environment"/lib/python*/site-packages/pyflink/conf/config.yaml \
    >>"$folder/conf/flink-conf.yaml"
