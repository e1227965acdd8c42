#!/bin/sh
# Second program of the virtual machine, on the machine's own root: makes it usable, runs the order, switches off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TMPDIR=/dev/shm
mount -t tmpfs tmpfs /run
mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm
mkdir -p /lib/modules
rm -rf "/lib/modules/$CTCTL_RELEASE"
ln -s "$CTCTL_MODULES" "/lib/modules/$CTCTL_RELEASE"
ip link set lo up
for module in nf_conntrack nf_conntrack_netlink unix_diag nf_tables nft_ct; do modprobe "$module"; done
cd "$CTCTL_CLONE" || exit 1
/bin/sh "$CTCTL_ORDER" 2>&1
echo "CTCTL-STATUS $?"
echo o > /proc/sysrq-trigger
sleep 5
