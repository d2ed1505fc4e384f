"""What the caller gives: inputs_json, and variables_json with its typed values."""
import sys


def parse(data, field):
    """Strict JSON with Python's own scanner, which needs no import of `json` (and of `re` with it). ValueError names the field."""
    try:
        text = data.decode("utf-8-sig").strip(" \t\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{field} is not UTF-8 at byte {error.start}") from None
    if not text:
        raise ValueError(f"{field} is empty; it must be JSON")
    from _json import make_scanner
    most = getattr(sys, "get_int_max_str_digits", int)()
    if most:
        sys.set_int_max_str_digits(0)  # numbers may have all their digits
    try:
        value, end = make_scanner(Grammar())(text, 0)
    except StopIteration as stop:
        raise ValueError(f"{field} is not JSON at character {stop.value + 1}") from None
    except RecursionError:
        raise ValueError(f"{field} is nested too deeply") from None
    except (ValueError, SystemError):  # the scanner alone cannot make json's own error
        raise ValueError(f"{field} is not JSON: {reason(text)}") from None
    finally:
        if most:
            sys.set_int_max_str_digits(most)
    if end != len(text):
        raise ValueError(f"{field} is not JSON at character {end + 1}")
    return value


def reason(text):
    """What is wrong with a text, by the module that tells it best."""
    from json import loads
    try:
        loads(text, parse_constant=_constant)
    except ValueError as error:
        return str(error)
    return "it cannot be read"


def _constant(name):
    raise ValueError(f"{name} is no JSON")


class Grammar:
    """What the scanner asks for."""
    strict, object_hook, object_pairs_hook, parse_float, parse_int, parse_constant = True, None, None, float, int, staticmethod(_constant)
    memo = {}


def variables(data, allow):
    """The globals that the code finds. allow(name) raises ImportError for a module that the import policy does not have."""
    given = parse(data, "variables_json")
    if type(given) is not dict:
        raise ValueError("variables_json must be an object: {\"name\": value, …}")
    made = {}
    for name, value in given.items():
        if not name.isidentifier() or name.startswith("__"):
            raise ValueError(f"variables_json: {name[:100]!r} is no name for a variable")
        try:
            made[name] = typed(value, allow)
        except ImportError as error:
            raise type(error)(f"variables_json: {name}: {error}", name=error.name) from None
        except Exception as error:
            raise ValueError(f"variables_json: {name}: {error}") from None
    return made


def typed(value, allow):
    """An object with just the fields of a typed value becomes that; everything else stays what it is."""
    if type(value) is not dict or type(value.get("type")) is not str:
        return value
    make = TYPES.get((value["type"], *sorted(value.keys() - {"type"})))
    return make(value, allow) if make else value


def _frame(value, allow):
    allow("pandas")
    import pandas
    data = value["data"]
    if type(data) is dict and data.keys() in ({"columns", "data"}, {"columns", "index", "data"}) and all(type(row) is list for row in data["data"]):
        return pandas.DataFrame(data["data"], index=data.get("index"), columns=data["columns"])
    if type(data) is dict or type(data) is list and all(type(row) is dict for row in data):
        return pandas.DataFrame(data)
    raise ValueError('data must be records [{"a": 1}, …], columns {"a": [1, …]}, or {"columns": […], "index": […], "data": [[…], …]}')


def _datetime(value, allow):
    from datetime import datetime
    text = value["value"]
    if type(text) is not str:
        raise ValueError("value must be a text such as 2024-06-19T12:00:00+02:00")
    return datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "Zz" and text else text)


def _bytes(value, allow):
    from binascii import a2b_base64
    if type(value["base64"]) is not str:
        raise ValueError("base64 must be a text")
    return a2b_base64(value["base64"])


def _module(value, allow):
    """A module, or something in one: "base64", "io.BytesIO"."""
    name = value["name"]
    if type(name) is not str or not all(part.isidentifier() for part in name.split(".")):
        raise ValueError("name must be that of a module, or of something in a module")
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        allow(module if count == len(parts) else parts[0])
        try:
            __import__(module)
        except ModuleNotFoundError as error:
            if count == 1 or error.name != module:
                raise
            continue
        found = sys.modules[module]
        for attribute in parts[count:]:
            if not hasattr(found, attribute):
                raise ValueError(f"{module} has no {'.'.join(parts[count:])}")
            found = getattr(found, attribute)
        return found


TYPES = {
    ("pandas.DataFrame", "data"): _frame,
    ("datetime", "value"): _datetime,
    ("bytes", "base64"): _bytes,
    ("module", "name"): _module,
}
