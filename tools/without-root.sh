#!/bin/sh
# Runs a test program without privileges, even if root calls it: `make unit` uses it as cargo's runner, so that a test
# which needs root fails there. Root enters a user namespace as user 1000: it keeps access to its own files, but has no
# capabilities.
set -eu

in_namespace() { unshare --user --map-user=1000 --map-group=1000 -- "$@"; }

if [ "$(id -u)" != 0 ]; then
    exec "$@"
fi
if ! in_namespace true 2>/dev/null; then
    echo "without-root: cannot create a user namespace; running $1 as root" >&2
    exec "$@"
fi
exec unshare --user --map-user=1000 --map-group=1000 -- "$@"
