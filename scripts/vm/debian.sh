#!/bin/busybox sh
# The first process of a virtual machine that runs Debian: loads the kernel's modules, puts the files of this lane into the
# Debian on the first virtio disk, and has its systemd go on. A unit there runs the jobs.
/bin/busybox mkdir -p /bin /sbin
/bin/busybox --install -s /bin
export PATH=/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
modules="virtio_pci virtio_blk 9pnet_virtio 9p nvme nvme-tcp nvmet-tcp crc32c_generic ext4 xfs raid456 loop dm-mod dm-crypt aes_generic xts ecb"
for module in $modules; do modprobe $module; done
for way in nbd ublk; do . /attach_$way.sh; attach_init; done
mount -t ext4 /dev/vda /mnt
cp /sbin/fullstripe /mnt/usr/sbin/
cp /guest.sh /attach_*.sh /jobs.sh /mnt/
mkdir -p /mnt/host /mnt/etc/systemd/system/multi-user.target.wants
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 host /mnt/host
cp /jobs.service /mnt/etc/systemd/system/
ln -sf ../jobs.service /mnt/etc/systemd/system/multi-user.target.wants/
umount /proc /sys
mount --move /dev /mnt/dev
exec switch_root /mnt /sbin/init
