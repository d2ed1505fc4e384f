"""Services of the host: by TCP, by abstract name, by path, and the network behind them. Arguments: a port of 127.0.0.1, a name, a path.
CASES: ESC-16 ESC-17
ATTEMPTS: 25
"""
import socket
import sys

from attack import attempt, expect, finish

port, abstract, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def connect(family, address, kind=socket.SOCK_STREAM):
    def work():
        with socket.socket(family, kind) as s:
            s.settimeout(2)
            s.connect(address)
            if kind == socket.SOCK_DGRAM:
                s.send(b"x")
            return "connected"
    return work


attempt("a port of the host", connect(socket.AF_INET, ("127.0.0.1", port)))
attempt("a port of the host by another loopback address", connect(socket.AF_INET, ("127.0.0.2", port)))
attempt("a port of the host over 6", connect(socket.AF_INET6, ("::1", port)))
attempt("a port of the host mapped", connect(socket.AF_INET6, ("::ffff:127.0.0.1", port)))
attempt("an abstract socket of the host", connect(socket.AF_UNIX, "\0" + abstract))
attempt("an abstract socket of the host by packets", connect(socket.AF_UNIX, "\0" + abstract, socket.SOCK_SEQPACKET))
attempt("a socket of the host by its path", connect(socket.AF_UNIX, path))
for name in ("/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/journal/socket", "/dev/log",
             "/run/glovebox/glovebox.sock", "/run/containerd/containerd.sock", "/var/run/nscd/socket", "/run/user/0/bus"):
    attempt(name, connect(socket.AF_UNIX, name))
# addresses for documentation, the cloud's metadata, everybody's neighbours: none is even routed
for address in ("192.0.2.1", "169.254.169.254", "198.51.100.7"):
    attempt("tcp to " + address, connect(socket.AF_INET, (address, 80)))
    attempt("udp to " + address, connect(socket.AF_INET, (address, 53), socket.SOCK_DGRAM))
attempt("tcp over 6", connect(socket.AF_INET6, ("2001:db8::1", 80)))
attempt("multicast", connect(socket.AF_INET, ("224.0.0.251", 5353), socket.SOCK_DGRAM))
attempt("names", lambda: socket.getaddrinfo("example.com", 80))
attempt("binding an address of others", lambda: socket.socket().bind(("192.0.2.1", 0)))
attempt("a vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
for table in ("unix", "tcp", "tcp6", "udp", "udp6", "raw", "packet"):
    try:
        rows = open("/proc/net/" + table).read().splitlines()[1:]
    except OSError:
        rows = []
    expect("sockets of the host in /proc/net/" + table, not rows, rows)
expect("interfaces in /proc/net/dev", [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]] == ["lo"])
expect("routes", not open("/proc/net/route").read().splitlines()[1:])
expect("arp", not open("/proc/net/arp").read().splitlines()[1:])
finish()
