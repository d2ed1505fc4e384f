# Programs that give root elsewhere, and namespaces by the usual tools.
# CASES: ESC-27 ESC-11 ESC-30
# ATTEMPTS: 30
. ./attack.sh

attempt unshare -Ur id
attempt unshare -m true
attempt unshare -n true
attempt unshare -p -f true
attempt unshare -i true
attempt unshare -u true
attempt unshare -C true
attempt unshare -T true
attempt nsenter -t 1 -a true
attempt nsenter -t $$ -m true
attempt nsenter -t $$ -U true
attempt chroot / true
attempt sudo -n true
attempt su -c true
attempt su - nobody -s /bin/sh -c true
attempt sg root true
attempt newgrp root
attempt setpriv --reuid 0 true
attempt setpriv --regid 0 --clear-groups true
attempt capsh --caps=cap_sys_admin+ep -- -c true
attempt setcap cap_sys_admin+ep ./attack.sh
attempt passwd -d root
attempt chsh -s /bin/sh
attempt mount /dev/null /tmp
attempt fusermount -u /tmp
attempt pkexec true
attempt at now
attempt crontab -l
attempt chown root .
attempt chgrp root .
attempt chmod u+s /usr/bin/env
attempt renice -n -5 $$
attempt chrt -f 10 true
attempt ionice -c 1 true
attempt systemctl list-units
attempt systemd-run true
attempt busctl list
attempt dbus-send --system --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames
attempt docker ps
attempt strace true
attempt gdb -p 1 -batch

# A set-uid bit that one sets oneself, in every place that can be written.
for folder in /workspace /tmp /dev/shm; do
        cp /usr/bin/id "$folder/s"
        chmod 6777 "$folder/s" 2>/dev/null
        expect "set-uid in $folder changes nothing" test "$("$folder/s" -u)" = "$(id -u)"
done
status() {
        sed -n "s/^$1:[[:space:]]*//p" /proc/self/status
}
expect "no capability" test "$(for s in CapInh CapPrm CapEff CapBnd CapAmb; do status $s; done | tr -d '0\n')" = ""
expect "no new privileges" test "$(status NoNewPrivs)" = 1
expect "a filter of system calls" test "$(status Seccomp)" = 2
expect "not root" test "$(id -u)" != 0
expect "not root on the host" test -z "$(awk -v me="$(id -u)" '$1 <= me && me < $1 + $3 && $2 + me - $1 == 0' /proc/self/uid_map)"
finish
