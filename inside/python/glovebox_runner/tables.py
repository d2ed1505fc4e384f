"""Which classes of the standard library, numpy and pandas have a form in JSON, and which: the table of docs/python.md as code.

A library is never imported for this: a value of its class can exist only when user code has imported it."""
import sys

TEXT, ARRAY, OBJECT, AGAIN = range(4)
RULES = {}
_held = []  # the classes whose ids are in RULES
_seen = set()


def refuse(why):
    raise part("values").Refused(1, why)


def rule_list(base):
    def rule(value, kind, output):
        return ARRAY, base.__iter__(value)
    return rule


def rule_tuple(value, kind, output):
    names = getattr(kind, "_fields", None)
    if kind is not tuple and type(names) is tuple and len(names) == tuple.__len__(value) and all(type(name) is str for name in names):
        return OBJECT, zip(names, tuple.__iter__(value))  # a namedtuple
    return ARRAY, tuple.__iter__(value)


def rule_set(value, kind, output):
    base = frozenset if issubclass(kind, frozenset) else set
    items = list(base.__iter__(value))
    kinds = {type(item) for item in items}
    dates = sys.modules.get("datetime")
    # Only what orders itself without user code, and wholly.
    if kinds <= {int, float, bool} or len(kinds) == 1 and kinds <= {str, bytes, getattr(dates, "date", str), getattr(dates, "datetime", str)}:
        items.sort()
    return ARRAY, iter(items)


def rule_text(method):
    def rule(value, kind, output):
        text = method(value)
        return (TEXT, text) if type(text) is str else refuse(f"is a {kind.__name__} whose text is none")
    return rule


def rule_bytes(value, kind, output):
    from binascii import b2a_base64
    data = memoryview(value)
    output.room_for(data.nbytes, 1)
    return TEXT, b2a_base64(data if data.c_contiguous else data.tobytes(), newline=False).decode()


def rule_dict(value, kind, output):
    return OBJECT, iter(dict.items(value))


def rule_str(value, kind, output):
    return TEXT, str.__str__(value)


def rule_int(value, kind, output):
    return AGAIN, int.__int__(value)


def rule_float(value, kind, output):
    return AGAIN, float.__float__(value) if kind is not float else value


def rule_enum(value, kind, output):
    return AGAIN, object.__getattribute__(value, "_value_")


def rule_seconds(value, kind, output):
    return AGAIN, sys.modules["datetime"].timedelta.total_seconds(value)


def rule_null(value, kind, output):
    output.lossy = True
    return AGAIN, None


def generator(value, kind, output):
    refuse(f"is a {kind.__name__}, which can be read only once: return list(…) of it")


def described(kind, name):
    """For the sentence that refuses."""
    if name == "coroutine":
        return "a coroutine, which nothing has awaited"
    if kind is type or name in ("function", "builtin_function_or_method", "method", "module"):
        return f"a {'class' if kind is type else name}, which has no form in JSON"
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}, which has no form in JSON: return numbers, text, lists and dicts made from it"


for _class, _rule in (
        (list, rule_list(list)), (tuple, rule_tuple), (dict, rule_dict), (str, rule_str), (int, rule_int), (float, rule_float), (set, rule_set),
        (frozenset, rule_set), (bytes, rule_bytes), (bytearray, rule_bytes), (memoryview, rule_bytes), (range, rule_list(range)),
        (type({}.keys()), rule_list(type({}.keys()))), (type({}.values()), rule_list(type({}.values()))),
        (type({}.items()), rule_list(type({}.items()))), (type(n for n in ()), generator), (map, generator), (filter, generator),
        (zip, generator)):
    RULES[id(_class)] = _rule
    _held.append(_class)


def _array(value, kind, output):
    """numpy.ndarray. Masked entries are null."""
    output.room_for(value.size)
    code = value.dtype.kind
    if code == "M":
        return AGAIN, _texts(sys.modules["numpy"].datetime_as_string(value).tolist(), output)
    if code == "m":
        return AGAIN, (value / sys.modules["numpy"].timedelta64(1, "s")).tolist()
    if value.dtype.names:
        if not value.shape:
            return OBJECT, ((name, value[name]) for name in value.dtype.names)
        return ARRAY, iter([value[n] for n in range(len(value))])
    if code == "f" and value.dtype.itemsize > 8:  # a long double's own tolist() has no Python number
        return AGAIN, value.astype(float).tolist()
    return AGAIN, value.tolist()


def _texts(value, output):
    """ISO texts as they come from numpy, NaT as null."""
    if isinstance(value, list):
        return [_texts(item, output) for item in value]
    if value == "NaT":
        output.lossy = True
        return None
    return value


def _scalar(value, kind, output):
    """numpy.generic."""
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.void) and value.dtype.names:
        return OBJECT, ((name, value[name]) for name in value.dtype.names)
    if value.dtype.kind in "Mm" or value.dtype.itemsize > 8 and value.dtype.kind == "f":
        return _array(numpy.asarray(value), kind, output)
    plain = value.item()
    if type(plain) is kind or isinstance(plain, complex):
        refuse(f"is a {kind.__module__}.{kind.__name__}, which has no form in JSON")
    return AGAIN, plain


def plain_key(key):
    """A key of a dict that counting and grouping make: numpy's numbers, dates as ISO 8601. None for others."""
    numpy, datetime = sys.modules.get("numpy"), sys.modules.get("datetime")
    if numpy is not None and isinstance(key, numpy.generic):
        return key.item()
    if datetime is not None and isinstance(key, datetime.date):
        return key.isoformat()
    return None


def _label(key):
    """A label of an index as a key: dates as ISO 8601."""
    numpy, pandas = sys.modules["numpy"], sys.modules["pandas"]
    if isinstance(key, numpy.generic):
        key = key.item()
    if isinstance(key, sys.modules["datetime"].date) and key is not pandas.NaT:
        return key.isoformat()
    if isinstance(key, (pandas.Period, pandas.Interval, sys.modules["datetime"].timedelta)):
        return str(key)
    if isinstance(key, tuple):  # of several levels
        return ".".join(str(_label(item)) for item in key)
    return None if key is pandas.NaT or key is pandas.NA else key


def _is_default(index):
    pandas = sys.modules["pandas"]
    return isinstance(index, pandas.RangeIndex) and index.start == 0 and index.step == 1 and index.name is None


def _series(value, kind, output):
    """pandas.Series: a list when it has only the default index, else an object; with several levels or repeated labels the rows of a table."""
    output.room_for(value.size)
    if _is_default(value.index):
        return ARRAY, iter(value.tolist())
    if value.index.nlevels > 1 or not value.index.is_unique:
        return AGAIN, value.reset_index()
    return OBJECT, zip([_label(key) for key in value.index], value.tolist())


def _frame(value, kind, output):
    """pandas.DataFrame: a list of its rows as objects. An index that is not the default one comes first, as reset_index() has it."""
    output.room_for(value.size, 4)
    if not _is_default(value.index):
        if value.columns.nlevels > 1:  # several levels of names cannot take in the index's
            value = value.set_axis([_label(name) for name in value.columns], axis=1)
        value = value.reset_index()
    names = [_label(name) for name in value.columns]
    columns = [value.iloc[:, n].tolist() for n in range(len(names))]
    if not columns:
        return ARRAY, iter([{} for _ in range(len(value))])
    return ARRAY, (Row(names, row) for row in zip(*columns))


class Row:
    """One row of a table; repeated names of columns are found when it is written."""
    __slots__ = ("names", "values")

    def __init__(self, names, values):
        self.names, self.values = names, values


def _row(value, kind, output):
    return OBJECT, zip(value.names, value.values)


RULES[id(Row)] = _row
_held.append(Row)


def _to_list(value, kind, output):
    output.room_for(len(value))
    return ARRAY, iter([_label(item) if type(item) is tuple else item for item in value.tolist()])


def _str(value, kind, output):
    return TEXT, str(value)


def _iso(value, kind, output):
    return TEXT, value.isoformat()


def _pandas_seconds(value, kind, output):
    return AGAIN, value.total_seconds()


# Module, class, rule; looked up when a value of an unknown class comes.
LATER = [
    ("datetime", "datetime", lambda cls: rule_text(cls.isoformat)),
    ("datetime", "date", lambda cls: rule_text(cls.isoformat)),
    ("datetime", "time", lambda cls: rule_text(cls.isoformat)),
    ("datetime", "timedelta", lambda cls: rule_seconds),
    ("decimal", "Decimal", lambda cls: rule_text(cls.__str__)),
    ("fractions", "Fraction", lambda cls: rule_text(cls.__str__)),
    ("uuid", "UUID", lambda cls: rule_text(cls.__str__)),
    ("pathlib", "PurePath", lambda cls: rule_text(cls.__str__)),
    ("enum", "Enum", lambda cls: rule_enum),
    ("collections", "deque", rule_list),
    ("numpy", "ndarray", lambda cls: _array),
    ("numpy", "generic", lambda cls: _scalar),
    ("pandas", "Series", lambda cls: _series),
    ("pandas", "DataFrame", lambda cls: _frame),
    ("pandas", "Index", lambda cls: _to_list),
    ("pandas", "Categorical", lambda cls: _to_list),
    ("pandas.api.extensions", "ExtensionArray", lambda cls: _to_list),
    ("pandas", "Timestamp", lambda cls: _iso),
    ("pandas", "Timedelta", lambda cls: _pandas_seconds),
    ("pandas", "Period", lambda cls: _str),
    ("pandas", "Interval", lambda cls: _str),
    ("pandas._libs.tslibs.nattype", "NaTType", lambda cls: rule_null),
    ("pandas._libs.missing", "NAType", lambda cls: rule_null),
]


def find(cls):
    """The rule of a class of a library that was imported since."""
    for module, name, make in LATER:
        if (module, name) not in _seen and module in sys.modules:
            found = getattr(sys.modules[module], name, None)
            if isinstance(found, type):
                _seen.add((module, name))
                RULES[id(found)] = make(found)
                _held.append(found)
    return RULES.get(id(cls))
