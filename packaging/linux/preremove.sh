#!/bin/sh
# deb calls this with `remove` or `upgrade NEW-VERSION`, rpm with the number of versions that remain: 0 is a removal.
set -e
if [ -d /run/systemd/system ] && { [ "$1" = remove ] || [ "$1" = 0 ]; }; then
	systemctl disable --now flowd.service
fi
