#!/bin/busybox sh
# The first process of the virtual machine: prepares it, then takes jobs until the machine is switched off.
/bin/busybox mkdir -p /bin /sbin
/bin/busybox --install -s /bin
export PATH=/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm; mount -t tmpfs shm /dev/shm
ln -s /proc/self/fd /dev/fd
ip link set lo up
# The first member of an array holds the beginning of its volume, and LVM would take both for the same physical volume.
# With this it looks for the members' RAID metadata at their ends.
mkdir -p /etc/lvm
echo 'devices { md_component_checks = "full" }' > /etc/lvm/lvm.conf
for tool in pvcreate vgcreate lvcreate vgchange; do ln -s lvm /sbin/$tool; done
for module in virtio_pci 9pnet_virtio 9p nvme crc32c_generic; do modprobe $module; done
for way in nbd kernel_nbd ublk; do . /attach_$way.sh; attach_init; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 host /host
. /jobs.sh
