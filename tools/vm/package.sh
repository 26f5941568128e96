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

mkdir "$scratch/old" "$scratch/new"
mv "$top/$("$top/tools/deb.sh" --binary "$binary" --compression gzip)" "$scratch/old/podward.deb"
# The same content with a higher version.
dpkg-deb -R "$scratch/old/podward.deb" "$scratch/tree"
sed -i 's/^Version: .*/&+rebuilt1/' "$scratch/tree/DEBIAN/control"
dpkg-deb --root-owner-group -Zgzip -z1 --build "$scratch/tree" "$scratch/new/podward.deb" >/dev/null
rm -r "$scratch/tree"
for repository in old new; do
    (cd "$scratch/$repository" && dpkg-scanpackages . /dev/null >Packages 2>/dev/null)
done
"$here/run.sh" -t 7200 -o "$top/target/vm/package-$machine" "$machine" "$here/checks/package.sh" "$scratch/old" "$scratch/new" "$here/checks/machine.sh"
