"""Ways in: Unix socket, socket activation, TCP with mutual TLS; and bounds on who may hold how many connections."""
import errno
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import grpc
import pytest

from kit import http2, machine, pki
from kit.call import request
from kit.daemon import BUILD, Cgroup
from kit.machine import seconds, wait_until
from kit.stubs import execution_pb2_grpc, pb, system_pb2, system_pb2_grpc


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def info(channel, timeout=10):
    return system_pb2_grpc.SystemServiceStub(channel).GetInfo(system_pb2.GetInfoRequest(), timeout=seconds(timeout))


def execute(channel, code="echo hi"):
    return execution_pb2_grpc.ExecutionServiceStub(channel).Execute(request(code), timeout=seconds(20)).stdout


# Unix

def test_socket_has_the_documented_mode(make_daemon):
    """The Unix socket is for its group alone: 0660, and not for everybody."""
    daemon = make_daemon(open_socket=False)
    assert os.stat(daemon.socket_path).st_mode & 0o777 == 0o660


def test_peer_uid_and_pid_are_known(daemon):
    """The peer's uid is the caller, its pid is in the audit."""
    run = daemon.run("true")
    record = daemon.audit_of(run.id)[0]
    assert record["caller"] == "uid:0" and record["caller_pid"] == os.getpid()


def test_stale_socket_is_replaced_and_a_live_one_is_not(make_daemon):
    """A socket file of a dead life is no obstacle; one somebody listens on is left alone, and the start refused."""
    daemon = make_daemon(start=False)
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(daemon.socket_path))
    stale.close()
    daemon.start()
    assert daemon.run("echo hi").stdout == b"hi\n"
    second = make_daemon(start=False, listen=[daemon.socket])
    second.spawn()
    assert second.process.wait(seconds(15)) != 0
    assert daemon.run("echo still").stdout == b"still\n"


def test_restarted_server_keeps_the_socket(make_daemon):
    """The listening socket outlives the server: no connection is refused for long."""
    daemon = make_daemon()
    daemon.restart_server()
    assert daemon.run("echo hi").stdout == b"hi\n"
    daemon.pids["server"] = daemon.server
    daemon.keepers = daemon.cgroup.pids()


# several ways in at once, all accepted by ourselves

@pytest.fixture
def plain(make_daemon):
    """A daemon on a Unix socket and on plain loopback TCP."""
    port = free_port()
    daemon = make_daemon(start=False, config={"server": {"plain-tcp": "yes"}})
    daemon.listen.append(f"127.0.0.1:{port}")
    daemon.port = port
    return daemon.start()


def test_plain_tcp_on_loopback_when_the_operator_says_so(plain):
    """plain-tcp = yes: calls on loopback work, with a caller of their own that is not the Unix socket's and no operator."""
    with plain.new_channel(f"127.0.0.1:{plain.port}") as channel:
        assert execute(channel) == b"hi\n"
        who = info(channel)
        assert who.caller != "uid:0" and not who.caller_is_operator
        unix = plain.run("true")
        with pytest.raises(grpc.RpcError) as caught:
            execution_pb2_grpc.ExecutionServiceStub(channel).GetExecution(pb.GetExecutionRequest(execution_id=unix.id), timeout=5)
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("listen, config, words", [
    (["127.0.0.1:{port}"], {}, ["TLS"]),
    (["0.0.0.0:{port}"], {"server": {"plain-tcp": "yes"}}, ["loopback"]),
    (["[::]:{port}"], {"server": {"plain-tcp": "yes"}}, ["loopback"]),
    (["127.0.0.1:{port}"], {"tls": {"certificate": "/nonexistent.pem", "key": "/nonexistent.key", "client-ca": "/nonexistent-ca.pem"}}, ["nonexistent"]),
    (["127.0.0.1:{port}"], {"tls": {"certificate": "c.pem", "key": "k.pem", "client-ca": "a.pem"}}, ["LoadCredential=c.pem"]),
    (["nonsense"], {}, ["nonsense"]),
    (["127.0.0.1:99999"], {}, ["99999"]),
    (["unix:" + "/x" * 80], {}, ["/x"]),
])
def test_GRP_17_refuses_to_start_open(make_daemon, listen, config, words):
    """Without mutual TLS nothing is opened on TCP but by the operator's word, and then on loopback only; the start ends with one clear line."""
    daemon = make_daemon(start=False, config=config)
    daemon.listen = [address.format(port=free_port()) for address in listen]
    daemon.spawn()
    assert daemon.process.wait(seconds(20)) != 0
    wait_until(lambda: all(w in daemon.log for w in words), 2)
    assert all(w in daemon.log for w in words), daemon.log


def test_every_listener_recovers_from_emfile(plain):
    """When descriptors ran out and came back every listener accepts again, and running streams went on."""
    run = plain.call("for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done")
    run.until("output")
    old = machine.set_descriptor_limit(plain.server, 8)
    crowd = []
    for _ in range(30):
        for family, address in ((socket.AF_UNIX, str(plain.socket_path)), (socket.AF_INET, ("127.0.0.1", plain.port))):
            s = socket.socket(family)
            s.connect(address)
            crowd.append(s)
    ticks = machine.cpu_ticks(plain.server)
    time.sleep(1)
    assert machine.cpu_ticks(plain.server) - ticks < 50, "the server spins while it has no descriptors"
    assert machine.set_descriptor_limit(plain.server, old) == 8
    for s in crowd:
        s.close()
    for address in (plain.socket, f"127.0.0.1:{plain.port}"):
        with plain.new_channel(address) as channel:
            assert execute(channel) == b"hi\n", address
    assert run.wait().stdout == b"1\n2\n3\n4\n5\n6\n"


# bounds on connections

def open_connections(path, count):
    opened = []
    for _ in range(count):
        try:
            opened.append(http2.Connection(path))
        except OSError:
            break
    return opened


@pytest.mark.parametrize("key", ["max-connections", "max-connections-per-caller"])
def test_connections_are_bounded(make_daemon, key):
    """Beyond the bound a connection is closed at once; those within it work; room comes back when some leave."""
    daemon = make_daemon(config={"server": {key: 10}})
    crowd = open_connections(str(daemon.socket_path), 30)
    assert wait_until(lambda: sum(c.closed.is_set() for c in crowd) >= 20, 3), sum(c.closed.is_set() for c in crowd)
    assert sum(not c.closed.is_set() for c in crowd) >= 9
    assert daemon.run("echo held").stdout == b"held\n", "an old connection stopped working"
    for c in crowd:
        c.close()

    def again():
        try:
            with daemon.new_channel() as channel:
                return execute(channel) == b"hi\n"
        except grpc.RpcError:
            return False
    assert wait_until(again, 5, 0.2)


def test_one_caller_cannot_take_all_connections(make_daemon):
    """The bound per caller leaves room for another one."""
    from kit.other import Other
    daemon = make_daemon(config={"server": {"max-connections": 20, "max-connections-per-caller": 10}})
    crowd = open_connections(str(daemon.socket_path), 30)
    with Other(daemon, 4711) as other:
        assert other.call("Execute", request("echo theirs")).reply.stdout == b"theirs\n"
    for c in crowd:
        c.close()


@pytest.mark.limit(60)
def test_silent_connections_are_closed(plain):
    """A connection that never says anything, half says something, or speaks HTTP/2 without a call is closed after its deadline."""
    quiet = [http2.Connection(str(plain.socket_path), preface=False), http2.Connection(("127.0.0.1", plain.port), preface=False)]
    half = http2.Connection(str(plain.socket_path), preface=False)
    half.send(http2.PREFACE[:12])
    assert wait_until(lambda: all(c.closed.is_set() for c in (*quiet, half)), 14), [c.closed.is_set() for c in (*quiet, half)]
    for c in (*quiet, half):
        c.close()


def test_identity_is_never_inherited(daemon):
    """Connections of two uids that come and go in turn never get each other's name."""
    from kit.other import Other
    for _ in range(10):
        with Other(daemon, 4711) as other:
            assert other.call("GetInfo", system_pb2.GetInfoRequest()).reply.caller == "uid:4711"
        with daemon.new_channel() as channel:
            assert info(channel).caller == "uid:0"


# mutual TLS

@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")
    return pki.Authority(folder, "right"), pki.Authority(folder, "wrong")


@pytest.fixture
def tls(make_daemon, authorities):
    """A daemon on TCP with mutual TLS."""
    right, wrong = authorities
    daemon = make_daemon(start=False)
    certificate, key = right.issue("server", "DNS:localhost,IP:127.0.0.1")
    for source, name in ((certificate, "server.pem"), (key, "server.key"), (right.certificate, "ca.pem")):
        shutil.copy(source, daemon.folder / name)
        (daemon.folder / name).chmod(0o644)
    daemon.config["tls"] = {"certificate": str(daemon.folder / "server.pem"), "key": str(daemon.folder / "server.key"),
                            "client-ca": str(daemon.folder / "ca.pem")}
    daemon.config["server"]["operators"] = ["uid:0", "cert:chief"]
    daemon.write_config()
    daemon.port = free_port()
    daemon.listen.append(f"127.0.0.1:{daemon.port}")
    daemon.right, daemon.wrong = right, wrong
    return daemon.start()


def tls_channel(daemon, certificate=None, key=None, trust=None):
    credentials = grpc.ssl_channel_credentials((trust or daemon.right.certificate).read_bytes(), key and key.read_bytes(),
                                               certificate and certificate.read_bytes())
    return grpc.secure_channel(f"127.0.0.1:{daemon.port}", credentials, [("grpc.use_local_subchannel_pool", 1),
                                                                        ("grpc.ssl_target_name_override", "localhost")])


def handshake(daemon, certificate=None, key=None, highest=None, alpn=("h2",)):
    """A TLS handshake by hand; the server's certificate, or the error. TLS 1.3 tells a refused client only when it reads."""
    context = ssl.create_default_context(cafile=str(daemon.right.certificate))
    context.check_hostname = False
    if highest:
        context.maximum_version = highest
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if certificate:
        context.load_cert_chain(str(certificate), str(key))
    with socket.create_connection(("127.0.0.1", daemon.port), seconds(5)) as raw, context.wrap_socket(raw) as wrapped:
        wrapped.sendall(http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0))
        if not wrapped.recv(9):
            raise ssl.SSLError("closed")
        return wrapped.getpeercert(True), wrapped.version()


def test_mtls_name_of_the_certificate_is_the_caller(tls):
    """The first SAN, else the common name, is the caller; it owns its executions; operators may be certificates too."""
    for name, san, common_name, expected in (("a", "DNS:agent-a.example", "ignored", "cert:agent-a.example"), ("b", None, "agent b", "cert:agent b"),
                                             ("c", "URI:spiffe://x/y", "ignored", "cert:spiffe://x/y"), ("d", None, "chief", "cert:chief")):
        with tls_channel(tls, *tls.right.issue(name, san, common_name)) as channel:
            who = info(channel)
            assert who.caller == expected and who.caller_is_operator == (name == "d")
            assert execute(channel) == b"hi\n"
    with tls_channel(tls, *tls.right.issue("e", "DNS:agent-e")) as one, tls_channel(tls, *tls.right.issue("f", "DNS:agent-f")) as two:
        stub_one, stub_two = execution_pb2_grpc.ExecutionServiceStub(one), execution_pb2_grpc.ExecutionServiceStub(two)
        identifier = stub_one.Execute(request("true"), timeout=20).result.execution_id
        assert stub_one.GetExecution(pb.GetExecutionRequest(execution_id=identifier), timeout=5).execution.caller == "cert:agent-e"
        with pytest.raises(grpc.RpcError) as caught:
            stub_two.GetExecution(pb.GetExecutionRequest(execution_id=identifier), timeout=5)
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_mtls_refuses_everybody_else(tls):
    """No certificate, one of another authority, an expired one, one for servers alone, plain text, TLS 1.2, no ALPN: none gets in."""
    good = tls.right.issue("good", "DNS:good")
    assert handshake(tls, *good)[1] == "TLSv1.3"
    for name, arguments in (("none", {}), ("another authority", dict(zip(("certificate", "key"), tls.wrong.issue("bad", "DNS:good")))),
                            ("server only", dict(zip(("certificate", "key"), tls.right.issue("srv", "DNS:srv", usage="serverAuth")))),
                            ("TLS 1.2", dict(certificate=good[0], key=good[1], highest=ssl.TLSVersion.TLSv1_2)),
                            ("no ALPN", dict(certificate=good[0], key=good[1], alpn=())),
                            ("another ALPN", dict(certificate=good[0], key=good[1], alpn=("http/1.1",)))):
        with pytest.raises(OSError):
            print(name, handshake(tls, **arguments))
    assert wait_until(lambda: "A TLS handshake with 127.0.0.1 failed: " in tls.log, 2), tls.log
    with tls_channel(tls) as channel, pytest.raises(grpc.RpcError) as caught:
        info(channel)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    with tls.new_channel(f"127.0.0.1:{tls.port}") as channel, pytest.raises(grpc.RpcError):
        info(channel, 3)
    with tls_channel(tls, *good) as channel:
        assert execute(channel) == b"hi\n"


def test_mtls_streams_every_byte(tls):
    """Large output through TLS, by a fast and by a stopping reader."""
    with tls_channel(tls, *tls.right.issue("s", "DNS:s")) as channel:
        stub = execution_pb2_grpc.ExecutionServiceStub(channel)
        run = tls.run("head -c 30000000 /dev/zero | tr '\\0' x", stub=stub, output_bytes=1 << 28)
        assert run.stdout == b"x" * 30_000_000
        before = machine.rss(tls.server)
        gate = threading.Event()
        slow = tls.call("yes", stub=stub, hold=gate, output_bytes=1 << 30)
        slow.until("started")
        time.sleep(1)
        machine.assert_grown_less(tls.server, before, 8 << 20)
        slow.leave()
        gate.set()
        assert tls.finished(slow.id, 3).result.outcome == pb.OUTCOME_CANCELLED


def test_mtls_certificates_are_reloaded(tls):
    """SIGHUP: new connections see the new certificate, a running stream goes on, and a broken file changes nothing."""
    good = tls.right.issue("good", "DNS:good")
    old = handshake(tls, *good)[0]
    with tls_channel(tls, *good) as channel:
        run = tls.call("for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done", stub=execution_pb2_grpc.ExecutionServiceStub(channel))
        run.until("output")
        certificate, key = tls.right.issue("server2", "DNS:localhost")
        shutil.copy(certificate, tls.folder / "server.pem")
        shutil.copy(key, tls.folder / "server.key")
        tls.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: handshake(tls, *good)[0] != old, 5, 0.1), "the old certificate is still served"
        new = handshake(tls, *good)[0]
        (tls.folder / "server.pem").write_text("broken")
        tls.process.send_signal(signal.SIGHUP)
        time.sleep(0.7)
        assert handshake(tls, *good)[0] == new
        assert run.wait().stdout == b"1\n2\n3\n4\n5\n6\n"


def test_mtls_certificates_from_credentials(tls):
    """Names without a folder are files in the folder that systemd names in CREDENTIALS_DIRECTORY."""
    tls.stop()
    tls.config["tls"] = {"certificate": "server.pem", "key": "server.key", "client-ca": "ca.pem"}
    tls.write_config()
    tls._environment["CREDENTIALS_DIRECTORY"] = str(tls.folder)
    tls.start()
    assert handshake(tls, *tls.right.issue("good", "DNS:good"))[1] == "TLSv1.3"


@pytest.mark.limit(60)
def test_mtls_handshake_has_a_deadline(tls):
    """Clients that connect and do not finish the handshake are closed, and others are served meanwhile."""
    silent = [socket.create_connection(("127.0.0.1", tls.port)) for _ in range(20)]
    silent[0].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01")  # the beginning of a ClientHello
    with tls_channel(tls, *tls.right.issue("m", "DNS:m")) as channel:
        assert execute(channel) == b"hi\n"
    end = time.monotonic() + seconds(14)
    for s in silent:
        s.settimeout(max(0.1, end - time.monotonic()))
        assert s.recv(100) in (b"",) or s.recv(100) == b"", "a silent connection was kept"
        s.close()


def test_mtls_clients_that_vanish(tls):
    """Connections cut in the middle of a stream leave nothing."""
    before = len(machine.descriptors(tls.server))
    good = tls.right.issue("v", "DNS:v")
    for _ in range(5):
        channel = tls_channel(tls, *good)
        call = tls.call("yes", stub=execution_pb2_grpc.ExecutionServiceStub(channel), keep_output=False, output_bytes=1 << 30)
        call.until("started")
        time.sleep(0.1)
        channel.close()
        tls.finished(call.id, 3)
    assert wait_until(lambda: len(machine.descriptors(tls.server)) <= before + 3, 6), machine.descriptors(tls.server)


# socket activation

class ByHand:
    """Spawner and server started one by one, as systemd would, with listening sockets made by somebody else."""

    def __init__(self, daemon, sockets, names=None, arguments=()):
        self.daemon = daemon
        state = daemon.folder / "spawner-state"
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify_path = str(daemon.folder / "notify")
        self.notify.bind(notify_path)
        os.chmod(notify_path, 0o666)
        waive = ["--waive", ",".join(daemon.waive)] if daemon.waive else []
        self.spawner = subprocess.Popen([str(BUILD / "bin" / "glovebox-spawner"), "--config", str(daemon.config_file), "--state", str(state),
                                         *waive], preexec_fn=daemon.cgroup.enter, stderr=subprocess.PIPE)
        assert wait_until(lambda: (state / "spawner.sock").exists(), 10), self.spawner.stderr.read1()
        state.chmod(0o755)
        moves = " ".join(f"{3 + i}<&{s.fileno()}" for i, s in enumerate(sockets))
        self.server = subprocess.Popen(["bash", "-c", f'export LISTEN_PID=$$; exec "$@" {moves}', "-", str(BUILD / "bin" / "gloveboxd"),
                                        "--config", str(daemon.config_file), "--spawner", str(state / "spawner.sock"), *arguments],
                                       pass_fds=[s.fileno() for s in sockets], stderr=subprocess.PIPE,
                                       env={**os.environ, "LISTEN_FDS": str(len(sockets)), "NOTIFY_SOCKET": notify_path,
                                            **({"LISTEN_FDNAMES": names} if names else {})})
        self.notify.settimeout(seconds(15))
        told = b""
        while b"READY=1" not in told:
            told = self.notify.recv(4096)

    def stop(self):
        for process in (self.server, self.spawner):
            process.terminate()
            process.wait(seconds(15))
            process.stderr.close()
        os.unlink(self.notify.getsockname())
        self.notify.close()


def test_socket_activation(make_daemon):
    """gloveboxd takes the sockets it is given, Unix and TCP told apart by themselves, and drops root by itself."""
    daemon = make_daemon(start=False, config={"server": {"plain-tcp": "yes", "audit-file": None}})
    unix, tcp = socket.socket(socket.AF_UNIX), socket.socket()
    unix.bind(str(daemon.socket_path))
    tcp.bind(("127.0.0.1", 0))
    for s in (unix, tcp):
        s.listen(64)
    # numbers far from those the sockets shall have
    numbers = [os.dup2(unix.fileno(), 40), os.dup2(tcp.fileno(), 41)]
    sockets = [socket.socket(fileno=n) for n in numbers]
    hand = ByHand(daemon, sockets, "web:other")
    try:
        assert "0" not in machine.status_field(hand.server.pid, "Uid")
        for address, caller in ((daemon.socket, "uid:0"), (f"127.0.0.1:{tcp.getsockname()[1]}", None)):
            with daemon.new_channel(address) as channel:
                assert execute(channel) == b"hi\n"
                assert caller is None or info(channel).caller == caller
    finally:
        hand.stop()
        for s in (unix, tcp, *sockets):
            s.close()


def test_passed_sockets_and_listen(make_daemon):
    """What the operator names in `listen` is served beside what is passed; what is both is opened once."""
    port = free_port()
    daemon = make_daemon(start=False)
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(daemon.socket_path))
        unix.listen(64)
        daemon.config["server"].update({"plain-tcp": "yes", "audit-file": None, "listen": [daemon.socket, f"127.0.0.1:{port}"]})
        daemon.write_config()
        hand = ByHand(daemon, [unix])
        try:
            for address in (daemon.socket, f"127.0.0.1:{port}"):
                with daemon.new_channel(address) as channel:
                    assert execute(channel) == b"hi\n"
        finally:
            hand.stop()
        hand = ByHand(daemon, [unix], arguments=["--passed-only"])
        try:
            with daemon.new_channel(daemon.socket) as channel:
                assert execute(channel) == b"hi\n"
            with socket.socket() as tcp:
                assert tcp.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED
        finally:
            hand.stop()


def test_check_config_says_what_is_wrong(make_daemon):
    """gloveboxd --check-config: status 0 and no word, or 78 and the line with file, line and cure; nothing is started."""
    daemon = make_daemon(start=False)

    def check():
        return subprocess.run([BUILD / "bin" / "gloveboxd", "--check-config", "--config", daemon.config_file], capture_output=True, text=True,
                              timeout=seconds(10))

    done = check()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
    daemon.config["server"]["max-exections"] = 3
    daemon.write_config()
    done = check()
    assert done.returncode == 78 and "max-executions" in done.stderr and str(daemon.config_file) in done.stderr, done


def test_a_start_without_a_spawner_ends(make_daemon):
    """A server that finds no spawner does not hang in its start: it is ready after 15 s, and says to each caller what is missing."""
    daemon = make_daemon(start=False, config={"server": {"audit-file": None}})
    with socket.socket(socket.AF_UNIX) as unix, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        unix.bind(str(daemon.socket_path))
        unix.listen(64)
        notify.bind(str(daemon.folder / "notify"))
        os.chmod(daemon.folder / "notify", 0o666)
        notify.settimeout(seconds(40))
        began = time.monotonic()
        server = subprocess.Popen(["bash", "-c", f'export LISTEN_PID=$$; exec "$@" 3<&{unix.fileno()}', "-", str(BUILD / "bin" / "gloveboxd"),
                                   "--config", str(daemon.config_file), "--spawner", str(daemon.folder / "nobody.sock")],
                                  pass_fds=[unix.fileno()], stderr=subprocess.PIPE,
                                  env={**os.environ, "LISTEN_FDS": "1", "NOTIFY_SOCKET": str(daemon.folder / "notify")})
        try:
            while b"READY=1" not in notify.recv(4096):
                pass
            assert time.monotonic() - began >= 14
            with daemon.new_channel() as channel:
                assert not info(channel).spawner_connected
                with pytest.raises(grpc.RpcError) as refused:
                    execute(channel)
                assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        finally:
            server.terminate()
            server.wait(seconds(15))
        said = server.stderr.read().decode()
        server.stderr.close()
        assert "systemctl status glovebox-spawner" in said, said
