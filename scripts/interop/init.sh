#!/bin/busybox sh
# The first process in user-mode Linux: makes the machine ready, does the jobs one after the other, and stops.
# Jobs whose name ends with .cut leave their arrays running; after the last one the machine waits to be killed.
/bin/busybox --install -s /bin
. /guest.sh
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
dmesg -n 1
mkdir -p /dev/md /run/mdadm /tmp /host
mount -t hostfs none /host -o "$host_folder"
for module in $(cat /modules/order); do insmod /modules/$module.ko $(cat /modules/$module.options 2> /dev/null); done
echo "@@READY"
for job in /jobs/*; do
    echo "@@JOB $(basename $job) at $(cut -d' ' -f1 /proc/uptime) s"
    timeout -k 5 60 sh $job 2>&1
    echo "@@DONE $? at $(cut -d' ' -f1 /proc/uptime) s"
done
if ls /jobs/*.cut > /dev/null 2>&1; then
    echo "@@CUT"
    sleep 1000
fi
poweroff -f
