#!/bin/sh
# Installs the program and what the system needs to serve arrays at boot.
#
# usage: packaging/install.sh PROGRAM [FOLDER]
#
# PROGRAM is the built binary, FOLDER the root of the system (default /). Nothing is started, and no array is served, until
# /etc/fullstripe/fullstripe.toml names one.
set -eu

program=${1:?"name the built binary: packaging/install.sh PROGRAM [FOLDER]"}
root=${2:-}
here=$(dirname "$0")

put() { install -D --mode "$1" "$2" "$root$3"; }

put 755 "$program" /usr/bin/fullstripe
for rules in "$here"/udev/*.rules; do
    put 644 "$rules" "/usr/lib/udev/rules.d/$(basename "$rules")"
done
put 644 "$here/systemd/fullstripe@.service" /usr/lib/systemd/system/fullstripe@.service
put 644 "$here/sysusers/fullstripe.conf" /usr/lib/sysusers.d/fullstripe.conf
put 755 "$here/systemd/fullstripe-generator" /usr/lib/systemd/system-generators/fullstripe-generator
put 755 "$here/systemd/fullstripe.shutdown" /usr/lib/systemd/system-shutdown/fullstripe
for service in hibernate hybrid-sleep suspend-then-hibernate; do
    put 644 "$here/systemd/hibernate.conf" "/usr/lib/systemd/system/systemd-$service.service.d/fullstripe.conf"
done
put 755 "$here/initramfs/hook" /usr/share/initramfs-tools/hooks/fullstripe
