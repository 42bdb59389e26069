#!/usr/bin/env bash
# build.sh: dist/ then holds what a release consists of: wheel, sdist, SBOMs, hashes. Wants a JDK.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=$(sed -nE 's/^__version__ = "(.*)"$/\1/p' putifabsent/__init__.py)
if [[ -n ${TAG:-} && $TAG != "v$version" ]]; then
    echo "the tag is $TAG, and putifabsent/__init__.py says $version: one of them is wrong" >&2
    exit 1
fi
if [[ -n ${TAG:-} ]] && ! grep -q "^## \[$version\] - " CHANGELOG.md; then
    echo "CHANGELOG.md has no heading for $version: see docs/operations/release.md" >&2
    exit 1
fi

# Where packages say that the project is: unless it is given, `origin`, as browsers reach it.
if [[ -z ${PUTIFABSENT_REPOSITORY:-} ]]; then
    origin=$(git remote get-url origin 2>/dev/null || true)
    PUTIFABSENT_REPOSITORY=$(sed -nE 's#^(ssh://)?git@([^:/]+)[:/]#https://\2/#; s#^https://#&#p' <<<"$origin")
fi
export PUTIFABSENT_REPOSITORY
if [[ -n ${TAG:-} && -z $PUTIFABSENT_REPOSITORY ]]; then
    echo "no origin is an address on the web: set PUTIFABSENT_REPOSITORY to the repository's" >&2
    exit 1
fi

make .venv/.stamp
rm -rf dist build/release
# The same bytes from the same commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
.venv/bin/python -m hatchling build
wheel=dist/putifabsent-$version-py3-none-any.whl

# As a user would: from the wheel, with what pip finds today.
"${PYTHON:-python3}" -m venv build/release/installed
build/release/installed/bin/python -m pip --quiet install "$wheel[all]"
build/release/installed/bin/putifabsent doctor
# It is no part of what is installed.
build/release/installed/bin/python -m pip --quiet uninstall --yes pip

"${PYTHON:-python3}" -m venv build/release/tools
build/release/tools/bin/python -m pip --quiet install cyclonedx-bom
build/release/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
    --of JSON -o "dist/putifabsent-$version.cdx.json" build/release/installed/bin/python
# What the adapter's jar has in it beside our own classes.
hadoop/mvnw --batch-mode --quiet --file hadoop/pom.xml org.cyclonedx:cyclonedx-maven-plugin:2.9.1:makeBom \
    -DincludeProvidedScope=false -DincludeTestScope=false -DoutputFormat=json \
    "-DoutputName=putifabsent-hadoop-$version.cdx"
cp "hadoop/target/putifabsent-hadoop-$version.cdx.json" dist/

(cd dist && sha256sum -- *.whl *.tar.gz *.json >SHA256SUMS)
cat dist/SHA256SUMS
