"""`glovebox top` against the real daemon, on a terminal and off it; and what the client says of waived limits, runtimes and names."""
import json
import os
import re
import signal
import socket
import subprocess
import termios
import threading
import time
from concurrent import futures

import grpc
import pytest
from google.protobuf import json_format

from kit.client import LINE, NOTE, Client
from kit.machine import seconds, wait_until
from kit.stubs import execution_pb2_grpc, pb, system_pb2, system_pb2_grpc

HEAD = re.compile(r"\d\d:\d\d:\d\d  (\S+): (\d+) running, (\d+) waiting, at most (\d+) at once(; not enforced: .*)?")
COLUMNS = ["ID", "RUNTIME", "STATE", "AGE", "CPU%", "MEMORY", "LIMIT", "PROCS", "IDLE", "OUTPUT", "LABELS"]
BUSY, CALM = "while :; do :; done", "echo 12345; sleep 60"


class Picture:
    """What a terminal shows of the bytes it got. Sequences that `top` has no business to send are errors."""
    TOKEN = re.compile(rb"\x1b\[(\??[0-9;]*)([A-Za-z])|\r|\n|\x1b|[^\x1b\r\n]+")

    def __init__(self):
        self.alternate = self.cursor_hidden = False
        self.rows, self.at, self.frames = [], 0, 0

    def feed(self, data):
        for token in self.TOKEN.finditer(data):
            numbers, kind = token.group(1), token.group(2)
            if kind:
                self.control(numbers.decode(), kind.decode())
            elif token.group() == b"\r":
                self.column = 0
            elif token.group() == b"\n":
                self.at += 1
            else:
                assert token.group() != b"\x1b", f"an escape of another kind in {data!r}"
                self.write(token.group().decode())
        return self

    def control(self, numbers, kind):
        if (numbers, kind) in (("?1049", "h"), ("?1049", "l")):
            self.alternate = kind == "h"
        elif (numbers, kind) in (("?25", "h"), ("?25", "l")):
            self.cursor_hidden = kind == "l"
        elif (numbers, kind) == ("", "H"):
            self.at, self.frames = 0, self.frames + 1
        elif (numbers, kind) == ("2", "J"):
            self.rows = []
        elif (numbers, kind) == ("", "J"):
            del self.rows[self.at + 1:]
        elif (numbers, kind) == ("999;1", "H"):
            self.at = 999
        else:
            assert (numbers, kind) == ("", "K"), f"an escape sequence: {numbers}{kind}"

    def write(self, text):
        self.rows += [""] * (self.at + 1 - len(self.rows))
        self.rows[self.at] = text


def picture(screen):
    return Picture().feed(screen.seen)


def ids_of(rows):
    return [row.split()[0] for row in rows if row.startswith("test-node.")]


def start(client, code, *arguments, runtime="bash"):
    """An execution of its own life, and its id; it runs."""
    status, out, err = client.run(code, "--detach", *arguments, runtime=runtime)
    assert status == 0, err
    execution_id = out.decode().strip()
    assert wait_until(lambda: client.daemon.get(execution_id).state == pb.STATE_RUNNING)
    return execution_id


@pytest.fixture
def two(client):
    """One that computes and one that does nothing."""
    ids = [start(client, BUSY, "-l", "kind=busy", "-t", "60s"), start(client, CALM, "-l", "kind=calm", "-l", "evil=\x1b[31mred\n", "-t", "60s")]
    yield ids
    client("cancel", *ids)
    for execution_id in ids:
        client.daemon.finished(execution_id)


# plain lines

def tables(out):
    """[(match of the head line, {id: row})] of what it printed; a row is {title: cell}."""
    found = []
    for block in out.decode().split("\n\n"):
        head, titles, *rows = block.rstrip("\n").split("\n")
        assert not [line for line in block.split("\n") if line.endswith(" ")], "a line ends in spaces"
        names, starts = titles.split(), [m.start() for m in re.finditer(r"\S+", titles)]
        cells = [{n: row[a:b].strip() for n, a, b in zip(names, starts, [*starts[1:], None])} for row in rows]
        found.append((HEAD.fullmatch(head), names, {row["ID"]: row for row in cells}))
        assert found[-1][0], head
    return found


def test_top_one_plain_table(client, two):
    """Every figure of the two executions, and the server's in the first line."""
    busy, calm = two
    status, out, err = client("top", "--count", "1")
    assert (status, err) == (0, b"") and b"\x1b" not in out
    [(head, names, rows)] = tables(out)
    info = client.daemon.info()
    assert head.group(1, 2, 3, 4) == ("test-node", "2", "0", str(info.max_executions)) and names == COLUMNS
    assert list(rows) == [busy, calm], "the busy one is not the first"
    assert 5 <= float(rows[busy]["CPU%"]) <= 300 and float(rows[calm]["CPU%"]) < float(rows[busy]["CPU%"])
    for row in rows.values():
        assert (row["RUNTIME"], row["STATE"]) == ("bash", "RUNNING") and int(row["PROCS"]) >= 1 and re.fullmatch(r"\d+ ms|\d+\.\d s", row["AGE"])
        assert row["LIMIT"] == ("waived" if "memory_bytes" in info.limits_not_enforced else "512 MiB")
        assert row["MEMORY"] == "-" or re.fullmatch(r"[\d.]+ [KM]iB", row["MEMORY"])
    assert (rows[busy]["OUTPUT"], rows[calm]["OUTPUT"]) == ("0 B", "6 B") and rows[busy]["IDLE"].endswith(" ms")
    assert rows[busy]["LABELS"] == "kind=busy" and set(rows[calm]["LABELS"].split()) == {"kind=calm", r"evil=\x1b[31mred\n"}
    waived = head.group(5) or ""
    for field, key in (("memory_bytes", "memory"), ("cpus", "cpus"), ("max_processes", "max-processes")):
        assert (field in info.limits_not_enforced) == bool(re.search(rf"\b{key}\b", waived))


def test_top_looks_again_and_again(client, two):
    """Without --count it goes on; idle time and age grow; one that has ended is gone from the next table."""
    busy, calm = two
    process = client.start("top", "--interval", "300ms")
    began = time.monotonic()
    text = b""
    while text.count(b" running, ") < 4:
        text += process.stdout.readline()
    assert 0.9 <= time.monotonic() - began < seconds(5), "not one table in each interval"
    client("cancel", busy)
    client.daemon.finished(busy)
    for _ in range(2):  # the table that was on its way, and one after it
        while (line := process.stdout.readline()) != b"\n":
            text += line
        text += line
    process.send_signal(signal.SIGTERM)
    assert process.wait(seconds(5)) == -signal.SIGTERM
    *_, last = found = tables(text.rstrip(b"\n"))
    assert list(last[2]) == [calm] and len(found) >= 5

    def milliseconds(cell):
        number, unit = cell.split()
        return float(number) * (1000 if unit == "s" else 1)

    ages, idle = ([milliseconds(rows[calm][title]) for _, _, rows in found] for title in ("AGE", "IDLE"))
    assert ages == sorted(ages) and ages[-1] - ages[0] > 800, ages
    assert idle[-1] - idle[0] > 500 and idle[-1] <= ages[-1] + 100, (idle, ages)


def test_top_json(client, two):
    """An object per execution and look: the look, its time, cpu, and the execution as the contract maps it."""
    busy, calm = two
    began = time.time()
    status, out, err = client("top", "--json", "--count", "3", "--interval", "200ms")
    assert (status, err) == (0, b"")
    every = [json.loads(line) for line in out.splitlines()]
    assert [list(line)[-1] for line in every] == ["executions", "execution", "execution"] * 3, "a look does not begin with its own line"
    maximum = client.daemon.info().max_executions
    for line in every[::3]:
        assert {k: line[k] for k in line if k not in ("look", "time")} == {"running": 2, "waiting": 0, "maxExecutions": maximum,
                                                                           "spawnerConnected": True, "executions": 2}
    lines = [line for line in every if "execution" in line]
    assert [(line["look"], line["execution"]["executionId"]) for line in lines] == [(n, i) for n in (1, 2, 3) for i in (busy, calm)]
    for line in lines:
        execution = json_format.Parse(json.dumps(line["execution"]), pb.Execution())
        assert (execution.runtime, execution.state) == ("bash", pb.STATE_RUNNING) and execution.processes >= 1
        at = json_format.Parse(json.dumps({"startedAt": line["time"]}), pb.Execution()).started_at.ToNanoseconds() / 1e9
        assert began - 1 < at < time.time() + 1
        assert line["cpuPercent"] >= (5 if execution.labels["kind"] == "busy" else 0), line
    assert execution.labels["evil"] == "\x1b[31mred\n" and b"\x1b" not in out


def test_top_measures_what_the_kernel_counts(client, two):
    """The cpu share agrees with the cpu times that the server tells before and after."""
    busy, _ = two
    process = client.start("top", "--json", "--count", "2", "--interval", "2s")
    json.loads(process.stdout.readline())
    before, began = client.daemon.get(busy).cpu_time.ToMicroseconds(), time.monotonic()
    lines = [line for line in map(json.loads, process.stdout.read().splitlines()) if "execution" in line]
    used, took = client.daemon.get(busy).cpu_time.ToMicroseconds() - before, time.monotonic() - began
    told = next(line["cpuPercent"] for line in lines if line["look"] == 2 and line["execution"]["executionId"] == busy)
    assert abs(told - used / took / 1e4) < 20, (told, used, took)


@pytest.mark.parametrize("by,first", [("cpu", "busy"), ("memory", None), ("processes", "calm"), ("age", "busy"), ("idle", "calm")])
def test_top_sorts(client, two, by, first):
    """bash and its sleep are two processes; the calm one came last. Without a memory controller memory is the same: none."""
    status, out, err = client("top", "--json", "--count", "1", "--sort", by)
    found = [line["execution"] for line in map(json.loads, out.splitlines()) if "execution" in line]
    assert (status, err, len(found)) == (0, b"", 2)
    if first:
        assert found[0]["labels"]["kind"] == first
    else:
        sizes = [int(e.get("memoryBytes", 0)) for e in found]
        assert sizes == sorted(sizes, reverse=True)


def test_top_with_nothing_to_show(client):
    status, out, err = client("top", "--count", "2", "--interval", "100ms")
    assert (status, err) == (0, b"")
    found = tables(out)
    assert len(found) == 2 and all((head.group(2, 3), names, rows) == (("0", "0"), COLUMNS, {}) for head, names, rows in found)
    status, out, err = client("top", "--json", "--count", "2", "--interval", "100ms")
    looks = [json.loads(line) for line in out.splitlines()]
    assert (status, err) == (0, b"") and [(k["look"], k["running"], k["waiting"], k["executions"]) for k in looks] == [(1, 0, 0, 0), (2, 0, 0, 0)]
    assert all(set(k) == {"look", "time", "running", "waiting", "maxExecutions", "spawnerConnected", "executions"} for k in looks)


@pytest.mark.limit(180)
def test_top_shows_those_that_wait_and_every_page(make_daemon):
    """More than a page of them; what waits has no figures yet."""
    daemon = make_daemon(config={"server": {"max-executions": 2, "max-waiting": 200, "wait-deadline": "60s", "max-executions-per-caller": 2}})
    client = Client(daemon)
    calls = [daemon.call("sleep 100") for _ in range(120)]
    try:
        assert wait_until(lambda: daemon.info().waiting == 118, 20)
        status, out, err = client("top", "--count", "1")
        [(head, _, rows)] = tables(out)
        assert (status, err) == (0, b"") and head.group(2, 3, 4) == ("2", "118", "2") and len(rows) == 120
        waiting = [row for row in rows.values() if row["STATE"] == "QUEUED"]
        assert len(waiting) == 118
        assert {(row["CPU%"], row["MEMORY"], row["PROCS"], row["IDLE"], row["OUTPUT"]) for row in waiting} == {("-", "-", "-", "-", "0 B")}
    finally:
        for call in calls:
            call.leave()


def test_top_of_others_is_for_operators(client, make_daemon):
    """Operators name a caller or *, and see whose it is; others are refused in one line."""
    daemon = make_daemon(config={"server": {"operators": "uid:1"}})
    other = Client(daemon)
    status, out, err = other("top", "--caller", "uid:7", "--count", "1")
    assert (status, out) == (125, b"") and LINE.fullmatch(err) and b"PERMISSION_DENIED" in err
    execution_id = start(client, CALM)
    status, out, err = client("top", "--caller", "*", "--count", "1")
    [(_, names, rows)] = tables(out)
    assert (status, err) == (0, b"") and names == ["ID", "CALLER", *COLUMNS[1:]] and rows[execution_id]["CALLER"] == "uid:0"
    status, out, err = client("top", "--caller", "uid:7", "--count", "1")
    assert (status, tables(out)[0][2]) == (0, {})
    client("cancel", execution_id)
    client.daemon.finished(execution_id)


def test_top_reader_that_leaves_and_full_disk(client):
    """It ends as any program in a pipeline does; a disk that is full is said in one line."""
    process = client.start("top", "--interval", "100ms")
    assert HEAD.fullmatch(process.stdout.readline().decode().rstrip("\n"))
    process.stdout.close()
    assert process.wait(seconds(5)) == -signal.SIGPIPE and process.stderr.read() == b""
    with open("/dev/full", "wb") as full:
        status, _, err = client("top", "--count", "1", stdout=full)
    assert status == 125 and b"No space left" in err and LINE.fullmatch(err)


# on a terminal

def test_top_on_a_terminal(client, terminal, two):
    """Drawn in place on the second screen; q gives the terminal back as it was, status 0."""
    screen = terminal("top", "--interval", "200ms", columns=200)
    screen.read(rb"(?s)(\x1b\[H.*kind=calm.*\x1b\[J){3}")
    shown = picture(screen)
    assert shown.frames >= 3
    assert shown.alternate and shown.cursor_hidden
    assert HEAD.fullmatch(shown.rows[0]) and shown.rows[1] == "" and shown.rows[2].split() == COLUMNS
    assert ids_of(shown.rows) == two and r"evil=\x1b[31mred\n" in "\n".join(shown.rows)
    assert not termios.tcgetattr(screen.master)[3] & (termios.ICANON | termios.ECHO)
    screen.type(b"q")
    screen.read(None)
    assert screen.process.wait(seconds(5)) == 0
    shown = picture(screen)
    assert not shown.alternate and not shown.cursor_hidden and screen.seen.endswith(b"\x1b[?25h")
    assert termios.tcgetattr(screen.master) == screen.before


@pytest.mark.parametrize("how", ["ctrl-c", signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_top_gives_the_terminal_back_however_it_ends(terminal, how):
    """The status is the signal's, as the shell expects it."""
    screen = terminal("top")
    screen.read(rb"LABELS")
    if how == "ctrl-c":
        screen.type(b"\x03")
        how = signal.SIGINT
    else:
        screen.process.send_signal(how)
    screen.read(None)
    assert screen.process.wait(seconds(5)) == -how
    assert not picture(screen).alternate and screen.seen.endswith(b"\x1b[?1049l\x1b[?25h")
    assert termios.tcgetattr(screen.master) == screen.before


def test_top_ignored_signals_stay_ignored(client, terminal):
    screen = terminal("top")
    screen.process.send_signal(signal.SIGTERM)
    assert screen.process.wait(seconds(5)) == -signal.SIGTERM
    process = client.start("top", "--count", "2", "--interval", "500ms", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(seconds(5)) == 0


def test_top_stops_and_goes_on(terminal, client):
    """Ctrl-Z gives the terminal back; once continued it takes it again, and draws."""
    screen = terminal("top", "--interval", "1h", columns=120)
    screen.read(rb"LABELS")
    screen.type(b"\x1a")
    screen.read(rb"\x1b\[\?1049l\x1b\[\?25h")
    pid = screen.process.pid
    assert wait_until(lambda: open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T")
    assert termios.tcgetattr(screen.master) == screen.before
    screen.seen = b""
    os.kill(pid, signal.SIGCONT)
    screen.read(rb"LABELS")
    shown = picture(screen)
    assert shown.alternate and shown.cursor_hidden and HEAD.fullmatch(shown.rows[0])
    screen.type(b"q")
    screen.read(None)
    assert screen.process.wait(seconds(5)) == 0 and termios.tcgetattr(screen.master) == screen.before


def test_top_fits_the_window_and_follows_it(client, terminal):
    """No line reaches the last column, no row is beyond the last; wide characters count as two; a new size is drawn at once."""
    ids = [start(client, CALM, "-l", "name=" + "漢字" * 30, "-t", "60s") for _ in range(6)]
    screen = terminal("top", "--interval", "1h", "--sort", "age", columns=150, rows=7)
    screen.read(rb"\x1b\[J")

    def fits(rows, columns):
        shown = picture(screen)
        width = max(len(row) + len(re.findall("[漢字]", row)) for row in shown.rows)
        fitting = min(rows - 3, 6) if rows >= 9 else rows - 4
        table = shown.rows[3:] if fitting == 6 else shown.rows[3:-1]
        whole = [row.split()[0].lstrip("…") for row in table]
        last = fitting == 6 or shown.rows[-1] == f"({6 - fitting} more)"
        full = "LABELS" not in shown.rows[2] or columns - 3 <= width  # the labels are long
        return last and full and width < columns and len(table) == fitting and all(i.endswith(cut) for i, cut in zip(ids, whole))

    assert fits(7, 150), picture(screen).rows
    for rows, columns in ((5, 40), (9, 170), (8, 120), (4, 10)):
        screen.seen = b""
        screen.resize(rows, columns)
        screen.read(rb"\x1b\[J")
        if columns > 32:
            assert fits(rows, columns), picture(screen).rows
        else:
            assert len(picture(screen).rows) <= rows and max(map(len, picture(screen).rows)) == columns - 1
    screen.type(b"q")
    assert screen.process.wait(seconds(5)) == 0
    client("cancel", *ids)
    for execution_id in ids:
        client.daemon.finished(execution_id)


@pytest.mark.parametrize("everyone", [False, True])
def test_top_shows_its_figures_in_80_columns(client, terminal, two, everyone):
    """Ids lose their front, so that all figures to IDLE are seen whole; the first line ends behind a word."""
    screen = terminal("top", "--interval", "200ms", *(["--caller", "*"] if everyone else []), columns=80)
    screen.read(rb"(?s)(\x1b\[H.*IDLE.*\x1b\[J){2}")
    head, blank, titles, *rows = picture(screen).rows
    wanted = ["ID", *(["CALLER"] if everyone else []), *COLUMNS[1:9]]
    assert titles.split() == wanted and len(titles) < 80 and blank == ""
    for row, execution_id in zip(rows, two, strict=True):
        cells = row.split()
        cut = cells[0]
        assert len(cells) == len(wanted) and len(row) < 80
        assert cut[0] == "…" and len(cut) >= 12 and execution_id.endswith(cut[1:])
        assert re.fullmatch(r"\d+ms|\d+\.\ds", cells[-1]) and re.fullmatch(r"\d+ms|\d+\.\ds", cells[wanted.index("AGE")])
        assert cells[-2].isdigit() and cells[-3] in ("waived", "512M")
    assert len(head) < 80 and (HEAD.fullmatch(head) or head[-1] == "…")
    if client.daemon.info().limits_not_enforced:
        assert re.search(r"; not enforced(: (memory|cpus|max-processes)(, (memory|cpus|max-processes))*)?…?$", head), head
    screen.type(b"q")
    assert screen.process.wait(seconds(5)) == 0


def test_top_keys_order(terminal, two):
    """Letters order at once, without waiting for the next look; others do nothing."""
    busy, calm = two
    screen = terminal("top", "--interval", "1h", columns=200)
    screen.read(rb"\x1b\[J")
    assert ids_of(picture(screen).rows) == [busy, calm]
    for key, order in ((b"i", [calm, busy]), (b"c", [busy, calm]), (b"p", [calm, busy]), (b"a", [busy, calm])):
        screen.seen = b""
        screen.type(b"\x1b[Bx" + key)
        screen.read(rb"LABELS\x1b\[K\r+\n" + order[0].encode() + rb"[^\n]*\n" + order[1].encode() + rb"[^\n]*\x1b\[J", 5)
    screen.type(b"q")
    assert screen.process.wait(seconds(5)) == 0


@pytest.mark.parametrize("term,arguments,alternate,drawn", [
    ("xterm-256color", [], True, True), ("screen", [], True, True), ("vt100", [], False, True), ("linux", [], False, True),
    ("dumb", [], False, False), ("", [], False, False), ("xterm", ["--json", "--count", "1"], False, False), ("xterm", ["--count", "1"], False, False),
])
def test_top_takes_of_the_terminal_what_it_can(client, terminal, term, arguments, alternate, drawn, two):
    """The second screen only where there is one; one that cannot move its cursor gets plain lines."""
    screen = terminal("top", "--interval", "200ms", *(arguments or ["--count", "2"]), columns=200, env={**client.environment, "TERM": term})
    seen = screen.read(None)
    assert screen.process.wait(seconds(5)) == 0 and all(word in seen for word in (b"kind", b"busy"))
    assert (b"\x1b[?1049h" in seen, b"\x1b" in seen) == (alternate, drawn)
    assert not picture(screen).alternate and termios.tcgetattr(screen.master) == screen.before


# a server that fails

class Odd(execution_pb2_grpc.ExecutionServiceServicer, system_pb2_grpc.SystemServiceServicer):
    """A server that is not ours: evil bytes everywhere, and what the test makes of it."""

    def __init__(self):
        self.pages, self.hang, self.open = {}, threading.Event(), threading.Event()

    def GetInfo(self, req, context):
        names = ["python", "$(touch /tmp/never)", "a;b", "x y", "\x1b[31m", "-r", "", "own:3.12"]
        return system_pb2.GetInfoResponse(node="\x1b]0;evil\x07\u202e", limits_not_enforced=["memory_bytes", "\x1b[2Jnew"], max_executions=5,
                                          runtimes=[system_pb2.RuntimeInfo(name=n, available=n != "gone") for n in [*names, "gone"]],
                                          profiles=[system_pb2.Profile(name=n) for n in ("quick", "`id`")])

    def ListExecutions(self, req, context):
        if self.hang.is_set():
            self.open.wait(60)
        return self.pages.get(req.page_token) or pb.ListExecutionsResponse()


@pytest.fixture
def odd(tmp_path):
    service = Odd()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    execution_pb2_grpc.add_ExecutionServiceServicer_to_server(service, server)
    system_pb2_grpc.add_SystemServiceServicer_to_server(service, server)
    service.address = f"unix:{tmp_path}/odd"
    server.add_insecure_port(service.address)
    server.start()
    yield service
    service.open.set()
    server.stop(None).wait()


def test_top_makes_foreign_bytes_harmless(client, terminal, odd):
    """Nothing that the server or a caller says reaches the terminal as an order."""
    evil = "\x1b[2J\x07\u202e\r\n"
    odd.pages[""] = pb.ListExecutionsResponse(executions=[pb.Execution(execution_id=evil, caller=evil, runtime=evil, labels={evil: evil}, state=77)])
    status, out, err = client("-s", odd.address, "top", "--count", "1", "--caller", "*")
    assert (status, err) == (0, b"") and len(out.splitlines()) == 3
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", out) and "\u202e" not in out.decode() and r"\x1b[2J\x07\u{202e}\x0d\n" in out.decode()
    screen = terminal("-s", odd.address, "top", "--caller", "*", columns=400)
    screen.read(rb"LABELS[^\x07]*\x1b\[J")
    assert len(picture(screen).rows) == 4 and b"\x07" not in screen.seen
    screen.type(b"q")
    assert screen.process.wait(seconds(5)) == 0


def test_top_list_without_end(client, odd):
    """The same page again and again is an error, not a client that never ends."""
    odd.pages[""] = odd.pages["x"] = pb.ListExecutionsResponse(executions=[pb.Execution(execution_id="e")], next_page_token="x")
    status, out, err = client("-s", odd.address, "top", "--count", "1")
    assert (status, out) == (125, b"") and LINE.fullmatch(err) and b"does not get on" in err


@pytest.mark.parametrize("key", [b"q", b"\x03", signal.SIGTERM])
def test_top_can_be_ended_while_the_server_hangs(terminal, odd, key):
    screen = terminal("-s", odd.address, "top", "--interval", "100ms")
    screen.read(rb"LABELS")
    odd.hang.set()
    time.sleep(seconds(0.5))
    began = time.monotonic()
    if key == signal.SIGTERM:
        screen.process.send_signal(key)
    else:
        screen.type(key)
    status = screen.process.wait(seconds(5))
    assert (status == 0 if key == b"q" else status < 0) and time.monotonic() - began < seconds(2)
    screen.read(None)
    assert screen.seen.endswith(b"\x1b[?1049l\x1b[?25h") and termios.tcgetattr(screen.master) == screen.before


@pytest.mark.kills("server")
def test_top_server_that_goes_away(client, terminal):
    """One line, on the screen that was there before; status 125."""
    screen = terminal("top", "--interval", "200ms", columns=200)
    plain = client.start("top", "--interval", "200ms")
    screen.read(rb"LABELS")
    assert HEAD.fullmatch(plain.stdout.readline().decode().rstrip("\n"))
    client.daemon.restart_server()
    seen = screen.read(None)
    assert screen.process.wait(seconds(10)) == 125 and termios.tcgetattr(screen.master) == screen.before
    assert re.search(rb"\x1b\[\?1049l\x1b\[\?25hglovebox: UNAVAILABLE: [^\r\n]*\r\n$", seen), seen[-300:]
    assert plain.wait(seconds(10)) == 125
    err = plain.stderr.read()
    assert LINE.fullmatch(err) and b"UNAVAILABLE" in err
    client.daemon.audit_start = client.daemon.audit_size()


# waived limits

def test_run_says_which_limits_are_waived(client, terminal):
    """In one line, on a terminal or when asked; nothing where nothing is waived, and nothing among the lines of a script."""
    waived = list(client.daemon.info().limits_not_enforced)
    assert client.run("echo x") == (0, b"x\n", b"")
    status, out, err = client.run("echo x", "-v")
    assert (status, out) == (0, b"x\n")
    screen = terminal("run", "-r", "bash", "-c", "echo x")
    screen.read(None)
    if not waived:
        assert err == b"" and screen.seen == b"x\r\n"
        return
    keys = {"memory_bytes": b"memory", "cpus": b"cpus", "max_processes": b"max-processes"}
    assert LINE.fullmatch(err) and err.endswith(b": " + b", ".join(keys[field] for field in waived) + b"\n")
    assert screen.seen == err.replace(b"\n", b"\r\n") + b"x\r\n" and NOTE.match(screen.seen)
    screen = terminal("run", "-r", "bash", "-c", "echo x", "--json")
    assert b"glovebox: " not in screen.read(None)


def test_run_refuses_a_waived_limit_and_names_the_cure(make_daemon):
    daemon = make_daemon(waive=["memory", "pids", "cpu", "io"])
    for flag, value, controller in (("--memory", "256M", b"memory"), ("--cpus", "1", b"cpu"), ("--max-processes", "9", b"pids")):
        status, out, err = Client(daemon).run("echo x", flag, value)
        assert (status, out) == (125, b"") and LINE.fullmatch(err) and err.startswith(b"glovebox: FAILED_PRECONDITION: ")
        assert b"waived the " + controller + b" controller" in err and f"leave the field out ({flag})".encode() in err


# runtimes by their endings

@pytest.mark.parametrize("name,code", [
    ("a.mjs", 'import { basename } from "node:path";\nconsole.log(basename("/x/y"), typeof require, import.meta.url.slice(-8), await 5);'),
    ("b.cjs", 'const { basename } = require("node:path");\nconsole.log(basename("/x/y"), typeof require, "main.mjs", 5);'),
    ("c.js", 'const { basename } = require("node:path");\nconsole.log(basename("/x/y"), typeof require, "main.mjs", 5);'),
])
def test_run_tells_both_kinds_of_javascript(client, tmp_path, name, code):
    """A file that is a module by its ending runs as one, on every Node; what is printed last before an exit is not lost."""
    (tmp_path / name).write_text(code + "\nprocess.stdout.write('x'.repeat(300000));\nprocess.exit(7);\n")
    status, out, err = client("run", tmp_path / name)
    word = b"undefined" if name == "a.mjs" else b"function"
    assert status == 7 and out == b"y " + word + b" main.mjs 5\n" + b"x" * 300000 and err.startswith(b"glovebox: FAILED: ")


# names for the shell

def complete(client, *words, line=None, path=None):
    """What bash offers for the last of these words."""
    script = client("completion", "bash")[1].decode()
    quoted = " ".join("'" + w + "'" for w in (path or str(client.daemon.client), *words))
    run = (f"{script}\ncompopt() {{ :; }}\nCOMP_LINE='{line or ''}'; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _glovebox; "
           "printf '%s\\n' \"${COMPREPLY[@]}\"")
    done = subprocess.run(["bash", "-uc", run], check=True, capture_output=True, text=True, env=client.environment)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_completion_asks_for_runtimes_and_profiles(client):
    info = client.daemon.info()
    assert complete(client, "run", "-r", "") == {r.name for r in info.runtimes if r.available} >= {"python", "javascript-module"}
    assert complete(client, "run", "--runtime", "pyt") == {"python", "python-data"}
    assert complete(client, "run", "--profile", "") == {p.name for p in info.profiles} and complete(client, "run", "-p", "he") == {"heavy"}
    status, out, err = client("completion", "runtimes")
    assert (status, err) == (0, b"") and out.decode().split() == [r.name for r in info.runtimes if r.available]
    assert client("completion", "runtimes", stdout=subprocess.DEVNULL)[0] == 0
    for shell in ("zsh", "fish"):
        assert b"glovebox" in client("completion", shell)[1] and b"completion" in client("completion", shell)[1]


def test_completion_asks_the_server_of_the_line_and_trusts_it_with_nothing(client, odd):
    """bash would run what stands in a name; only plain names come through."""
    for line in (f"glovebox -s {odd.address} run -r ", f"glovebox run --server={odd.address} -r "):
        assert complete(client, "run", "-r", "", line=line) == {"python", "own:3.12"}
        assert complete(client, "run", "-p", "", line=line) == {"quick"}
    assert not os.path.exists("/tmp/never")


@pytest.mark.parametrize("kind", ["none", "mute", "deaf"])
def test_completion_is_silent_when_the_server_fails(client, tmp_path, kind):
    """At most a second, and not a word."""
    with socket.socket(socket.AF_UNIX) as server:
        if kind != "none":
            server.bind(str(tmp_path / "s"))
            server.listen(0 if kind == "deaf" else 5)
        fill = []
        if kind == "deaf":  # its queue of connections is full
            for _ in range(3):
                one = socket.socket(socket.AF_UNIX)
                one.setblocking(False)
                one.connect_ex(str(tmp_path / "s"))
                fill.append(one)
        began = time.monotonic()
        status, out, err = client("-s", f"unix:{tmp_path}/s", "completion", "profiles")
        assert (status, out, err) == (125, b"", b"") and time.monotonic() - began < seconds(1.2)
        client.environment["GLOVEBOX_SERVER"] = f"unix:{tmp_path}/s"
        assert complete(client, "run", "-r", "") == set()
        for one in fill:
            one.close()
