#!/bin/busybox sh
# The first process in user-mode Linux: prepares the machine, then reads the names of scripts, one per line, and runs
# each as a job. It runs until it is killed.
/bin/busybox --install -s /bin
. /guest.sh
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
dmesg -n 1
mkdir -p /dev/md /run/mdadm /tmp /host
mount -t hostfs none /host -o "$host_folder"
while read -r module options; do insmod /modules/$module.ko $options; done < /modules/order
mkfifo /pause
stty -echo
echo "@@READY"
while read -r script; do
    timeout -k 5 300 sh "$script" < /dev/null 2>&1
    code=$?
    if [ $code = 143 ] || [ $code = 137 ]; then who_hangs; fi
    echo "@@DONE $code"
done
poweroff -f
