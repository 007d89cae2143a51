#!/bin/sh
# deb calls this with `configure OLD-VERSION`, rpm with the number of installed versions: 1 is the first installation.
set -e
if [ ! -d /run/systemd/system ]; then
	exit 0
fi
systemctl daemon-reload
case "$1:$2" in
1:* | configure:) ;; # the first installation: nothing runs before there is a pipeline
*)
	# Only a service that ran before. It is not waited for, as it may wait for other systems.
	systemctl --no-block try-restart flowd.service
	;;
esac
