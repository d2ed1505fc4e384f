# A thief in the shell: keys, passwords, environments, host files by any path. The arguments are files of the host that hold a secret.
# CASES: SEED-12 ESC-17 ESC-19 ESC-20 ESC-25
# ATTEMPTS: 60
. ./attack.sh

for path in "$@"; do
        attempt cat "$path"
        attempt cat "/proc/1/root$path"
        attempt cat "/proc/self/root$path"
done
for path in /etc/shadow ~/.ssh/id_rsa ~root/.ssh/id_rsa ~/.bash_history /proc/1/environ /proc/1/cmdline /etc/machine-id /proc/kcore /proc/kmsg \
        /dev/kmsg /etc/ssh/sshd_config /etc/sudoers /var/log/wtmp; do
        attempt cat "$path"
done
for path in /run/docker.sock /var/run/docker.sock /run/containerd/containerd.sock /run/dbus/system_bus_socket /run/systemd/private /run/systemd/notify \
        /run/glovebox/glovebox.sock /run/glovebox-spawner/spawner.sock /tmp/.X11-unix /run/user /run/udev /run/nscd/socket; do
        attempt ls -d "$path"
done
for folder in /root /run /boot /srv /opt /mnt /media /sys /lost+found /var/lib /var/log /var/cache /var/spool /var/mail /tmp /dev/shm /dev/mqueue; do
        expect "nothing in $folder" test -z "$(ls -A "$folder" 2>/dev/null)"
done
others=$(for p in /proc/[0-9]*; do [ "$(stat -c %u "$p" 2>/dev/null || id -u)" = "$(id -u)" ] || echo "$p"; done)
expect "no process of others, only '$others'" test -z "$others"
expect "few processes at all" test "$(ls -d /proc/[0-9]* | wc -l)" -le 6
expect "no secret in a command line" test -z "$(cat /proc/*/cmdline 2>/dev/null | tr '\0' ' ' | grep -a 'glovebox-canary-[0-9a-f]\{32\}')"
expect "no secret in an environment" test -z "$(cat /proc/*/environ 2>/dev/null | tr '\0' '\n' | grep -a canary)"
expect "no secret in the environment" test -z "$(env | grep canary)"
attempt grep -qs . /proc/1/environ
attempt readlink /proc/1/exe
attempt readlink /proc/1/cwd
attempt ls /proc/1/fd
finish
