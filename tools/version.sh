#!/bin/sh
# Prints a property of the version that is checked out: version.sh version|commit|debian|epoch
#   version   1.2.0 for the tag v1.2.0, 1.2.0-3-g0123abc after it, and the version in Cargo.toml without git or a tag
#   commit    12 digits, with -dirty if files differ from it; empty without git
#   debian    the same version in Debian's format, in which later commits are greater
#   epoch     time of the commit in seconds since 1970; 0 without git
# PODWARD_VERSION, PODWARD_COMMIT and SOURCE_DATE_EPOCH replace what git reports.
set -eu
cd "$(dirname "$0")/.."

cargo_version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml; }
described_tag() { git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//'; }

version() {
    if [ -n "${PODWARD_VERSION:-}" ]; then
        echo "$PODWARD_VERSION"
        return
    fi
    tag=$(described_tag)
    echo "${tag:-$(cargo_version)}"
}

commit() {
    if [ -n "${PODWARD_COMMIT:-}" ]; then
        echo "$PODWARD_COMMIT"
    elif commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
        [ -z "$(git status --porcelain --untracked-files=no)" ] || commit=$commit-dirty
        echo "$commit"
    fi
}

epoch() {
    if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then echo "$SOURCE_DATE_EPOCH"; else git log -1 --format=%ct 2>/dev/null || echo 0; fi
}

# 1.2.0-3-g0123abc becomes 1.2.0+3.g0123abc. Without a tag the version is not released yet, so it must be smaller than the
# release: 1.2.0~20260102030405.g0123abc.
debian() {
    if [ -n "${PODWARD_VERSION:-}" ] || [ -n "$(described_tag)" ]; then
        version | sed 's/-\([0-9]*\)-g/+\1.g/'
    else
        date=$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S 2>/dev/null || echo 0)
        echo "$(cargo_version)~$date.g$(git rev-parse --short=7 HEAD 2>/dev/null || echo unknown)"
    fi
}

case ${1:-} in
version | commit | debian | epoch) "$1" ;;
*)
    sed -n '2,7s/^# //p' "$0" >&2
    exit 2
    ;;
esac
