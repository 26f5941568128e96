#!/bin/sh
# Fills a folder with the files that the archive and the Debian package share: package-tree.sh BINARY FOLDER
# The layout is that of /, with the program in usr/bin. Used by dist.sh and deb.sh.
set -eu
cd "$(dirname "$0")/.."
binary=$1
tree=$2

put() { install -D -m "$1" "$2" "$tree/$3"; }

put 755 "$binary" usr/bin/podward
strip --strip-unneeded "$tree/usr/bin/podward"
# The program takes flags of the kubelet when this is its name.
mkdir -p "$tree/usr/libexec/podward"
ln -s ../../bin/podward "$tree/usr/libexec/podward/kubelet"
put 644 packaging/podward.service usr/lib/systemd/system/podward.service
put 644 packaging/podward.default etc/default/podward
put 644 packaging/config.yaml etc/podward/config.yaml
install -d -m 700 "$tree/etc/podward/manifests"
put 644 packaging/podward.8 usr/share/man/man8/podward.8
gzip -9n "$tree/usr/share/man/man8/podward.8"
for example in packaging/examples/*; do put 644 "$example" "usr/share/doc/podward/examples/${example##*/}"; done

# completions SHELL FILE
completions() {
    mkdir -p "$tree/$(dirname "$2")"
    "$tree/usr/bin/podward" completions "$1" >"$tree/$2"
    chmod 644 "$tree/$2"
}
completions bash usr/share/bash-completion/completions/podward
completions zsh usr/share/zsh/vendor-completions/_podward
completions fish usr/share/fish/vendor_completions.d/podward.fish
