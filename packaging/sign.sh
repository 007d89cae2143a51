#!/bin/sh
# sign.sh FILE SIGNATURE signs a file with the OpenSSH private key that FLOWD_SIGNING_KEY contains.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(umask 077 && printf '%s\n' "$FLOWD_SIGNING_KEY" >"$dir/key")
ssh-keygen -q -Y sign -f "$dir/key" -n file <"$1" >"$2"
