#!/bin/sh
# Data in /var/lib/flowd stays, even when the package is purged. So do the user and the group that own it.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
