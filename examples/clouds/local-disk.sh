# Mounts a machine's local disk at MOUNT_POINT, and makes a file system on it if it is empty. Runs in the host's mount namespace.
# It may be repeated: what is mounted stays, and a disk with a file system is never formatted. DISK names one, if there are several.
set -eu
fail() { echo "local-disk: $1" >&2; exit 1; }

mountpoint -q "$MOUNT_POINT" && { echo "local-disk: $MOUNT_POINT is mounted already"; exit 0; }
# Instance disks of EC2, GCE and Azure, by the names that their NVMe controllers give.
found=${DISK:-$(lsblk -dnpo NAME,MODEL | awk '/Amazon EC2 NVMe Instance Storage|nvme_card|Microsoft NVMe Direct Disk/ {print $1}')}
set -- $found
[ $# -gt 0 ] || fail "no local NVMe disk was found (lsblk -do NAME,MODEL): choose a machine type that has one, or set DISK to its device"
[ $# -eq 1 ] || fail "found $# local disks ($*): make one array of them in the machine's user data (mdadm), and set DISK to it"
[ -b "$1" ] || fail "DISK is $1, which is no block device of this machine: $(lsblk -dnpo NAME | xargs)"

if kind=$(blkid --probe --output value --match-tag TYPE --match-tag PTTYPE "$1"); then
  case $kind in
    ext4 | xfs) echo "local-disk: $1 holds $kind; it is mounted as it is" ;;
    *) fail "$1 holds $kind: it is not formatted, as it may be in use; wipe it yourself (wipefs --all $1) if it is not needed" ;;
  esac
else
  [ $? -eq 2 ] || fail "$1 cannot be read: see the kernel's log (dmesg)"
  [ -z "$(lsblk -nro MOUNTPOINT "$1" | xargs)" ] || fail "$1 or a partition of it is mounted elsewhere: $(lsblk -nro MOUNTPOINT "$1" | xargs)"
  mkfs.ext4 -q -L colocation -E nodiscard "$1"
  echo "local-disk: made a file system on $1"
fi
mkdir -p "$MOUNT_POINT"
mount -o noatime "$1" "$MOUNT_POINT"
echo "local-disk: $1 is mounted at $MOUNT_POINT"
