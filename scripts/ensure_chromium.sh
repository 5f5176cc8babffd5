#!/bin/sh
# Install Chromium for the browser tests, if apt-get and root rights are available. Without it those tests are skipped.
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 && exit 0
if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then as=""; elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as=sudo; else as=no; fi
    if [ "$as" != no ]; then
        echo "installing chromium ..."
        $as apt-get update -qq
        $as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null && exit 0
    fi
fi
echo "Chromium was not found: the browser tests are skipped. On Debian or Ubuntu: sudo apt-get install chromium" >&2
exit 0
