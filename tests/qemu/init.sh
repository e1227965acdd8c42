#!/bin/sh
# First program of the virtual machine: puts the machine's own root underneath, writable in memory, and goes there.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /lib/modules/*; do insmod "$module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro rootfs /mnt/lower
mount -t tmpfs tmpfs /mnt/rw
mkdir /mnt/rw/upper /mnt/rw/work
mount -t overlay -o lowerdir=/mnt/lower,upperdir=/mnt/rw/upper,workdir=/mnt/rw/work overlay /mnt/root
for directory in dev proc sys; do mount --move /$directory /mnt/root/$directory; done
# Words of the kernel command line that it does not know arrive here as variables.
exec switch_root /mnt/root /bin/sh "$CTCTL_STAGE2"
