"""PNG by hand: whether a picture is one to its last byte, which no library is needed for."""
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by type of colour


def decode(data):
    """(width, height, set of all bytes of the picture); fails unless every checksum and length is right and it ends where the data ends."""
    assert data.startswith(SIGNATURE), data[:16]
    at, chunks = len(SIGNATURE), []
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack_from(">I", data, at + 8 + size)[0], f"the checksum of {kind}"
        chunks.append((kind, body))
        at += size + 12
    assert chunks[0][0] == b"IHDR" and chunks[-1] == (b"IEND", b"") and at == len(data), [kind for kind, _ in chunks]
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    pixels = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    line = 1 + (width * depth * CHANNELS[colour] + 7) // 8
    assert interlaced or len(pixels) == line * height, (len(pixels), line, height)
    return width, height, set(pixels)


def assert_drawn(data, at_least=100):
    """A picture of some size that is not of one colour."""
    width, height, values = decode(data)
    assert width >= at_least and height >= at_least and len(values) > 16, (width, height, len(values))
