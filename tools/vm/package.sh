#!/bin/bash
# Checks the Debian package in a test machine: package.sh [-b BINARY] [trixie|testing]. Makes two packages of the program, the
# second with a higher version, and runs checks/package.sh with them. Without -b it builds the release program.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
binary=""
while getopts b: option; do
    case $option in
    b) binary=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
machine=${1:-trixie}
binary=${binary:-$("$top/tools/release-build.sh")}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

version=$("$top/tools/version.sh" debian)
for repository in old new; do
    mkdir "$scratch/$repository"
    [ $repository = old ] || version=$version+rebuilt1
    package=$top/$("$top/tools/deb.sh" --binary "$binary" --version "$version" --compression gzip)
    mv "$package" "$scratch/$repository/"
    (cd "$scratch/$repository" && dpkg-scanpackages --multiversion . /dev/null >Packages 2>/dev/null)
done
"$here/run.sh" -t 1800 -o "$top/target/vm/package-$machine" "$machine" "$here/checks/package.sh" "$scratch/old" "$scratch/new"
