# Settings of the kernel: nothing in /proc/sys and its like can be written, also not with the tools for it.
# CASES: ESC-08 ESC-05
# ATTEMPTS: 60
. ./attack.sh

for file in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/kernel/hostname /proc/sys/kernel/domainname /proc/sys/kernel/hotplug \
        /proc/sys/kernel/sysrq /proc/sys/kernel/printk /proc/sys/kernel/randomize_va_space /proc/sys/kernel/yama/ptrace_scope \
        /proc/sys/kernel/shmmax /proc/sys/kernel/sem /proc/sys/kernel/msgmax /proc/sys/kernel/ns_last_pid /proc/sys/kernel/threads-max \
        /proc/sys/kernel/unprivileged_bpf_disabled /proc/sys/kernel/keys/maxkeys /proc/sys/vm/drop_caches /proc/sys/vm/overcommit_memory \
        /proc/sys/vm/mmap_min_addr /proc/sys/vm/compact_memory /proc/sys/fs/suid_dumpable /proc/sys/fs/protected_symlinks /proc/sys/fs/mqueue/msg_max \
        /proc/sys/fs/binfmt_misc/register /proc/sys/fs/file-max /proc/sys/fs/inotify/max_user_watches \
        /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/net/ipv4/ping_group_range /proc/sys/net/core/somaxconn \
        /proc/sys/net/ipv4/conf/all/rp_filter /proc/sys/user/max_user_namespaces /proc/sys/user/max_mnt_namespaces /proc/sys/dev/cdrom/autoeject \
        /proc/sysrq-trigger /proc/kcore /proc/kmsg /proc/bus/pci /proc/acpi/wakeup /proc/scsi/scsi /proc/irq/0/smp_affinity \
        /proc/irq/default_smp_affinity /proc/mtrr /proc/latency_stats /proc/timer_stats /proc/self/setgroups /proc/self/timens_offsets /proc/fs/xfs/stat \
        /sys/kernel/uevent_helper /sys/kernel/mm/transparent_hugepage/enabled /sys/power/state /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/memory.max \
        /sys/kernel/security/lsm /sys/kernel/debug/sched_features /sys/kernel/mm/ksm/run /sys/module/kernel/parameters/panic; do
        attempt_write 1 "$file"
done
# None of all the others, whatever this kernel has.
written=$(find /proc/sys /proc/irq /proc/fs /proc/bus /proc/driver /proc/scsi /proc/acpi /proc/tty /proc/asound /proc/sysvipc -type f 2>/dev/null | while read -r f; do
        { : >>"$f"; } 2>/dev/null && echo "$f"
done)
expect "nothing in /proc/sys opens for writing, but '$written'" test -z "$written"
beside=$(find /proc -maxdepth 1 -type f 2>/dev/null | while read -r f; do { : >>"$f"; } 2>/dev/null && echo "$f"; done)
expect "nothing in /proc opens for writing, but '$beside'" test -z "$beside"
attempt sysctl -w kernel.core_pattern=x
attempt mount -o remount,rw /proc/sys
attempt mount -t tmpfs x /tmp
attempt umount /proc
attempt dmesg
attempt hostname evil
attempt date -s 2000-01-01
attempt swapon /workspace/swap
attempt insmod /workspace/x.ko
attempt modprobe dummy
attempt losetup -f
attempt ip link add dummy0 type dummy
attempt rm -f /dev/null
attempt ln -sf /proc/sys/kernel/core_pattern /dev/null
attempt mv /dev/null /tmp/null
for file in kcore cmdline kallsyms interrupts partitions diskstats iomem ioports keys key-users config.gz timer_list sched_debug slabinfo locks swaps \
        modules vmallocinfo zoneinfo pagetypeinfo schedstat kpagecount acpi/event bus/pci/devices pressure/cpu; do
        attempt grep -q . /proc/$file
done
finish
