"""Writes a Python value as strict JSON, by the table in docs/python.md. Nothing recurses, the size is counted while it is written, and no method that
user code could have replaced is asked: a list is read as a list, whatever its class says of itself."""
import sys

tables = part("tables")

NOT_SERIALIZABLE, TOO_LARGE, TOO_DEEP, CIRCULAR = 1, 2, 3, 4
DEPTH_MAX = 256
COUNTED_MAX = 8 * 1024 * 1024  # a value that is too large is counted on for this much, to say how large it is
GATHER = 2048
SLICE = 64 * 1024
PATH_MAX, SENTENCE_MAX = 4096, 512

LONG_INT = 1 << 2000
INFINITY = float("inf")
CONTROLS = {n: f"\\u{n:04x}" for n in range(32)}
CONTROLS.update({8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"})

of_type = type.__dict__
classes_of = of_type["__mro__"].__get__
dict_of = of_type["__dict__"].__get__

# What slow() answers: a text, an array's iterator, an object's iterator of pairs, or another value in its place.
TEXT, ARRAY, OBJECT, AGAIN = range(4)


class Refused(Exception):
    """The value has no form in JSON. kind: NOT_SERIALIZABLE...; why: a sentence without its subject; of: the class that has none."""

    def __init__(self, kind, why, of=None):
        super().__init__(why)
        self.kind, self.why, self.path, self.of = kind, why, "$", of


class Level:
    """An array or object that is being written."""
    __slots__ = ("items", "is_object", "n", "key", "value", "keys")

    def __init__(self, items, is_object, value):
        self.items, self.is_object, self.value = items, is_object, value  # kept, so that its id stays its own
        self.n, self.key = 0, None
        self.keys = keys_to_remember(value) if is_object else None


class Output:
    """Takes the text in pieces, and counts its bytes as UTF-8. Above the cap it counts on and keeps nothing."""

    def __init__(self, most):
        self.most, self.size, self.lossy = most, 0, False
        self.texts, self.blocks = [], []

    def flush(self):
        text = "".join(self.texts)
        self.texts.clear()
        try:
            block = text.encode()
        except UnicodeEncodeError:  # halves of a surrogate pair
            block = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
            self.lossy = True
        self.size += len(block)
        if self.size <= self.most:
            self.blocks.append(block)
            return
        self.blocks.clear()
        if self.size > self.most + COUNTED_MAX:
            self.refuse("more than ")

    def refuse(self, more=""):
        raise Refused(TOO_LARGE, f"is {more}{self.size} bytes as JSON; the limit, limits.value_bytes, is {self.most}")

    def long_text(self, text):
        self.room_for(len(text), 1)
        for at in range(0, len(text), SLICE):
            self.texts.append(escape(text[at:at + SLICE]))
            self.flush()

    def room_for(self, count, least=2):
        """So many parts of at least so many bytes: refused before they are made, when there is no hope."""
        if count * least > self.most + COUNTED_MAX:
            self.size += count * least
            self.refuse("at least ")


def escape(text):
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text if text.isprintable() else text.translate(CONTROLS)


def name_of(kind):
    """A class's name as a traceback has it, whatever its metaclass does."""
    try:
        name = of_type["__qualname__"].__get__(kind)
        module = of_type["__module__"].__get__(kind)
    except Exception:
        return "object"
    return f"{module}.{name}" if isinstance(module, str) and module not in ("builtins", "__main__") else name


def float_text(value, output):
    if value != value or value in (INFINITY, -INFINITY):
        output.lossy = True
        return "null"
    return float.__repr__(value)


def int_text(value, output):
    if -LONG_INT < value < LONG_INT:
        return int.__repr__(value)
    output.room_for(int(int.bit_length(value) * 0.30103), 1)
    most = getattr(sys, "get_int_max_str_digits", int)()
    if not most:
        return int.__repr__(value)
    sys.set_int_max_str_digits(0)  # Python refuses numbers of more than 4300 digits, unless told otherwise
    try:
        return int.__repr__(value)
    finally:
        sys.set_int_max_str_digits(most)


def plain_text(value, kind, output):
    """The JSON of None, a bool, int, float or str; None for what is something else."""
    if kind is str:
        if len(value) > SLICE:
            return None
        return f'"{escape(value)}"'
    if kind is int:
        return int_text(value, output)
    if kind is float:
        return float_text(value, output)
    if kind is bool:
        return "true" if value else "false"
    return "null" if value is None else None


def key_text(key, output):
    """A key as JSON text; a key that is no str becomes the text of its JSON."""
    kind = type(key)
    if kind is str:
        return f'"{escape(key)}"'
    for cls in classes_of(kind):
        if cls is str:
            return f'"{escape(str.__str__(key))}"'
        if cls is bool:
            return '"true"' if key else '"false"'
        if cls is int:
            return f'"{int_text(int.__int__(key), output)}"'
        if cls is float:
            return f'"{float.__repr__(key)}"'
    if key is None:
        return '"null"'
    plain = tables.plain_key(key)
    if type(plain) in (str, int, float, bool):
        return key_text(plain, output)
    raise Refused(NOT_SERIALIZABLE, f"has the key {short_repr(key)}, a {name_of(kind)}; keys must be str, int, float, bool, None, a date or a number of numpy")


def short_repr(value):
    try:
        text = repr(value)
    except BaseException:
        text = "?"
    return text if len(text) <= 100 else text[:99] + "…"


def write(value, most):
    """The JSON in blocks of bytes, and whether it is lossy; or Refused, with its path."""
    output, levels, open_ids = Output(most), [], set()
    try:
        _write(value, output, levels, open_ids)
        output.flush()
        if output.size > most:
            output.refuse()
        return output.blocks, output.lossy
    except Refused as error:
        error.path = "$" if error.kind == TOO_LARGE else path_of(levels)
        raise
    except BaseException as error:
        refused = Refused(NOT_SERIALIZABLE, f"cannot be read: that raises {name_of(type(error))}{reason(error)}")
        if isinstance(error, MemoryError):
            refused = Refused(TOO_LARGE, "does not fit into the memory together with its JSON; the limit is limits.memory_bytes")
        refused.path = path_of(levels)
        raise refused from None


def reason(error):
    try:
        text = str(error)
    except BaseException:
        text = ""
    return f": {text[:500]}" if text else ""


def _write(value, output, levels, open_ids):
    add, texts = output.texts.append, output.texts
    start(value, output, levels, open_ids)
    while levels:
        level = levels[-1]
        for item in level.items:
            if level.n:
                add(",")
            level.n += 1
            if level.is_object:
                level.key, item = item
                key = key_text(level.key, output)
                if len(key) > SLICE:
                    output.flush()
                if level.keys is not None:
                    if key in level.keys:
                        raise Refused(NOT_SERIALIZABLE, f"has two keys that are {key[:100]} in JSON")
                    level.keys.add(key)
                add(key)
                add(":")
            text = plain_text(item, type(item), output)
            if text is None:
                if start(item, output, levels, open_ids):
                    break
            else:
                add(text)
                if len(texts) > GATHER or len(text) > SLICE:
                    output.flush()
        else:
            add("}" if level.is_object else "]")
            open_ids.discard(id(level.value))
            levels.pop()


def keys_to_remember(value):
    """A set when two keys could become one in JSON, as {1: …, "1": …} or columns of one name; None when they cannot."""
    if dict in classes_of(type(value)) and all(type(key) is str for key in dict.__iter__(value)):
        return None
    return set()


def start(value, output, levels, open_ids):
    """Writes what is no container, or opens a level for what is one: True."""
    original = value
    for _ in range(DEPTH_MAX):
        kind = type(value)
        text = plain_text(value, kind, output)
        if text is not None:
            output.texts.append(text)
            return False
        if kind is list:
            output.room_for(len(value))
            what, value = ARRAY, list.__iter__(value)
        elif kind is dict:
            what, value = OBJECT, iter(dict.items(value))
        else:
            what, value = slow(value, kind, output)
        if what == AGAIN:
            continue
        if what == TEXT:
            output.texts.append('"')
            output.long_text(value)
            output.texts.append('"')
            return False
        if id(original) in open_ids:
            raise Refused(CIRCULAR, f"is a {name_of(type(original))} that contains itself")
        if len(levels) >= DEPTH_MAX:
            raise Refused(TOO_DEEP, f"is nested more than {DEPTH_MAX} levels deep")
        open_ids.add(id(original))
        levels.append(Level(value, what == OBJECT, original))
        output.texts.append("{" if what == OBJECT else "[")
        return True
    raise Refused(TOO_DEEP, f"is a {name_of(type(original))} whose value never becomes plain")


def slow(value, kind, output):
    """What a value that is none of JSON's own kinds is written as."""
    for cls in classes_of(kind):
        own = dict_of(cls)
        if "__dataclass_fields__" in own:
            return OBJECT, dataclass_items(value, own["__dataclass_fields__"])
        rule = tables.RULES.get(id(cls)) or tables.find(cls)
        if rule:
            return rule(value, kind, output)
    raise Refused(NOT_SERIALIZABLE, f"is {tables.described(kind, name_of(kind))}", kind)


def dataclass_items(value, fields):
    normal = sys.modules["dataclasses"]._FIELD
    for name, field in dict.items(fields):
        if field._field_type is normal:
            yield name, object.__getattribute__(value, name)


def path_of(levels):
    """Where in the value: $.a[3], $["odd key"]. The list of levels is where the writing stopped."""
    parts = ["$"]
    for level in levels:
        if not level.n:
            break
        if not level.is_object:
            parts.append(f"[{level.n - 1}]")
            continue
        key = key_name(level.key)
        if key is None:
            break
        parts.append("." + key if key.isidentifier() and key.isascii() else f'["{escape(key)}"]')
    path = "".join(parts).encode("utf-8", "replace")
    if len(path) > PATH_MAX:
        path = path[:PATH_MAX // 2 - 2] + "…".encode() + path[-PATH_MAX // 2 + 2:]
    return path.decode("utf-8", "ignore").replace("\0", "\\u0000")


def key_name(key):
    try:
        text = key_text(key, Output(0))
        return str.__str__(key)[:1000] if isinstance(key, str) else text[1:-1][:1000]
    except BaseException:
        return None
