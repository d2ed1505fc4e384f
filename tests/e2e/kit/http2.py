"""HTTP/2 by hand, for clients that no library would be: frames are built from their fields, header blocks from plain literals."""
import socket
import struct
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def _integer(value, bits, first):
    limit = (1 << bits) - 1
    if value < limit:
        return bytes((first | value,))
    out, value = bytearray((first | limit,)), value - limit
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def literal(name, value):
    """One header field, never indexed, without Huffman."""
    name, value = name.encode(), value if isinstance(value, bytes) else value.encode()
    return b"\x10" + _integer(len(name), 7, 0) + name + _integer(len(value), 7, 0) + value


def request_headers(path, extra=()):
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"), ("te", "trailers"),
              ("content-type", "application/grpc"), *extra]
    return b"".join(literal(n, v) for n, v in fields)


def message(data):
    """A gRPC message, uncompressed."""
    return b"\0" + struct.pack(">I", len(data)) + data


class Connection:
    """A raw connection; a thread of its own reads frames, answers SETTINGS and PING, and counts."""

    def __init__(self, address, window=0, preface=True, answer=True):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
        else:
            self.socket = socket.socket(socket.AF_INET)
        self.socket.settimeout(20)
        self.socket.connect(address)
        self.frames, self.closed, self.goaway = [], threading.Event(), None
        self.counts = {}
        self.answer = answer
        self._next = 1
        self._lock = threading.Lock()
        if preface:
            settings = struct.pack(">HI", 4, window) if window else b""
            self.send(PREFACE + frame(SETTINGS, 0, 0, settings))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def send(self, data):
        """False once the peer has closed."""
        try:
            with self._lock:
                self.socket.sendall(data)
            return True
        except OSError:
            return False

    def stream(self, path, body=None, extra=(), end=True):
        """Opens a stream and returns its number; body None = headers alone, without an end."""
        number, self._next = self._next, self._next + 2
        data = frame(HEADERS, END_HEADERS, number, request_headers(path, extra))
        if body is not None:
            data += frame(DATA, END_STREAM if end else 0, number, message(body))
        self.send(data)
        return number

    def reset(self, number, code=8):
        return self.send(frame(RST_STREAM, 0, number, struct.pack(">I", code)))

    def ping(self, payload=b"12345678"):
        return self.send(frame(PING, 0, 0, payload))

    def _receive(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise OSError("closed")
            data += piece
        return data

    def _read(self):
        try:
            self.socket.settimeout(None)
            while True:
                head = self._receive(9)
                size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
                number = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
                self._take(kind, flags, number, self._receive(size) if size else b"")
        except OSError:
            self.closed.set()

    def _take(self, kind, flags, number, payload):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind == GOAWAY:
            self.goaway = (int.from_bytes(payload[4:8], "big"), payload[8:])
        if kind == DATA and len(self.frames) > 1000:
            payload = b""
        self.frames.append((kind, flags, number, payload, time.monotonic()))
        if self.answer and kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, ACK, 0))
        if self.answer and kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))

    def of(self, kind, stream=None):
        return [f for f in list(self.frames) if f[0] == kind and (stream is None or f[2] == stream)]

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()
