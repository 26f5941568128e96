#!/bin/bash
# Makes the Debian package in target/packages: deb.sh [--binary PATH] [--version VERSION] [--compression TYPE]
# Without --binary it builds the release program. --version is for tests of an upgrade, --compression for those of large
# development builds.
set -euo pipefail
cd "$(dirname "$0")/.."
binary="" version="" compression=xz
while [ $# -gt 0 ]; do
    case $1 in
    --binary) binary=$2 ;;
    --version) version=$2 ;;
    --compression) compression=$2 ;;
    *)
        echo "deb: unknown argument $1" >&2
        exit 2
        ;;
    esac
    shift 2
done
binary=${binary:-$(tools/release-build.sh)}
version=${version:-$(tools/version.sh debian)}
architecture=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=$(tools/version.sh epoch)
export SOURCE_DATE_EPOCH
output=target/packages
mkdir -p "$output"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree
doc=$tree/usr/share/doc/podward

tools/package-tree.sh "$binary" "$tree"
install -m 644 packaging/debian/README.Debian packaging/debian/copyright "$doc/"
tools/sbom.sh "$doc/sbom.cdx.json"
gzip -9n "$doc/sbom.cdx.json"
install -D -m 644 packaging/debian/lintian-overrides "$tree/usr/share/lintian/overrides/podward"
fill() {
    sed -e "s|@VERSION@|$version|; s|@ARCHITECTURE@|$architecture|; s|@COMMIT@|$(tools/version.sh commit)|" \
        -e "s|@DATE@|$(date -u -R -d "@$SOURCE_DATE_EPOCH")|; s|@LIBRARIES@|${libraries:-}|; s|@SIZE@|${size:-}|"
}
fill <packaging/debian/changelog.in | gzip -9n >"$doc/changelog.gz"

# dpkg-shlibdeps knows from the symbols in use which versions of the libraries are old enough.
mkdir -p "$scratch/source/debian" "$tree/DEBIAN"
printf 'Source: podward\n\nPackage: podward\nArchitecture: any\n' >"$scratch/source/debian/control"
libraries=$(cd "$scratch/source" && dpkg-shlibdeps -O "$tree/usr/bin/podward" 2>/dev/null | sed 's/^shlibs:Depends=//')
size=$(du -k -s --apparent-size "$tree" | cut -f1)
fill <packaging/debian/control.in >"$tree/DEBIAN/control"
install -m 644 packaging/debian/conffiles "$tree/DEBIAN/"
install -m 755 packaging/debian/postinst packaging/debian/prerm packaging/debian/postrm "$tree/DEBIAN/"
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

package=$output/podward_${version}_$architecture.deb
dpkg-deb --root-owner-group -Z"$compression" --build "$tree" "$package" >/dev/null
echo "$package"
