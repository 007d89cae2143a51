#!/bin/sh
# The same for deb and rpm. Files of the package belong to the group, so it must exist before they are unpacked.
set -e
if ! getent group flowd >/dev/null; then
	groupadd --system flowd
fi
if ! getent passwd flowd >/dev/null; then
	useradd --system --gid flowd --home-dir /var/lib/flowd --no-create-home --shell /usr/sbin/nologin flowd
fi
