#!/bin/sh
# Spark 4 needs Java 17 or newer. Install it if apt-get and root rights are available; otherwise print what to do.
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
has_java() {
    major=$("$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
    [ -n "$major" ] && [ "$major" -ge 17 ]
}
has_java && exit 0
if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then as=""; elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as=sudo; else as=no; fi
    if [ "$as" != no ]; then
        $as apt-get update -qq
        for package in openjdk-17-jre-headless default-jre-headless; do  # newer Debian releases have no Java 17
            echo "installing $package ..."
            $as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null && break
        done
        has_java && exit 0
    fi
fi
echo "Java 17 or newer is required (found: ${major:-none})." >&2
echo "On Debian or Ubuntu:  sudo apt-get install openjdk-17-jre-headless  (or default-jre-headless)" >&2
echo "Elsewhere: install a JRE 17+ and set JAVA_HOME to it, then run make again.${JAVA_HOME:+ JAVA_HOME is now $JAVA_HOME.}" >&2
exit 1
