#!/usr/bin/env bash
# A machine with nothing on it, for tests of what is packed: a folder to chroot into, with a shell, the commands below, and a glibc that looks older than 2.36
# (its newest version has another name, so the loader refuses what needs it, as Ubuntu 22.04's 2.35 does). Usage, as root:
#   bare_machine.sh FOLDER
set -euo pipefail
root=$1
commands='bash sh env dirname basename cat sed grep awk sort tr head tail cut timeout nproc getconf mkdir mv rm ls uname date mktemp sleep expr id wc touch chmod readlink'
mkdir -p "$root"/{bin,lib,lib64,tmp,proc,etc,dev/shm,usr}
ln -sfn ../bin "$root/usr/bin"
for command in $commands; do cp -L "$(command -v "$command")" "$root/bin/"; done
libraries=$(for command in $commands; do ldd "$root/bin/$command" | awk '$2 == "=>" { print $3 }'; done | sort -u)
libc=$(awk '/\/libc\.so/ && !found { found = $1 } END { print found }' <<< "$libraries")
for name in libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1 libresolv.so.2 libnss_files.so.2; do
  [ ! -e "$(dirname "$libc")/$name" ] || libraries+=" $(dirname "$libc")/$name"
done
for library in $libraries; do cp -L "$library" "$root/lib/"; done
cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
# The shell itself keeps glibc as it is: Debian's needs 2.36.
cp -L "$libc" "$root/lib/libc.so.0"
sed -i 's/libc\.so\.6/libc.so.0/g' "$root/bin/bash"
sed -i 's/GLIBC_2\.36/GLIBC_9.36/g' "$root/lib/libc.so.6"
echo 'root:x:0:0:root:/:/bin/sh' > "$root/etc/passwd"
echo '127.0.0.1 localhost' > "$root/etc/hosts"
for device in 'null 1 3' 'zero 1 5' 'urandom 1 9'; do
  # shellcheck disable=SC2086
  set -- $device
  [ -e "$root/dev/$1" ] || mknod -m 666 "$root/dev/$1" c "$2" "$3"
done
