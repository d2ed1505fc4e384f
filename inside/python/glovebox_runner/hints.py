"""One sentence for errors whose cause is certain, and what helps. No hint rather than a guess."""
import sys

WRITABLE = ("/workspace", "/tmp", "/home/sandbox", "/dev/shm")

# What does the same and is usually there, for packages that code asks for most.
CLOSED = "the network is closed, for urllib.request too"  # another client would be no help
INSTEAD = {
    "IPython": "display(obj) is there without any import",
    "PIL": "matplotlib", "cv2": "PIL", "imageio": "PIL", "skimage": "PIL",
    "plotly": "matplotlib", "seaborn": "matplotlib", "bokeh": "matplotlib", "altair": "matplotlib",
    "polars": "pandas", "dask": "pandas", "modin": "pandas",
    "requests": CLOSED, "httpx": CLOSED, "aiohttp": CLOSED, "urllib3": CLOSED,
    "orjson": "json", "ujson": "json", "simplejson": "json", "toml": "tomllib", "tomli": "tomllib",
    "pytz": "zoneinfo", "dateutil": "datetime", "lxml": "xml.etree.ElementTree", "bs4": "html.parser", "pysqlite3": "sqlite3",
    "regex": "re", "mock": "unittest.mock", "attr": "dataclasses",
}
NETWORK_ERRNOS = (101, 113)  # ENETUNREACH, EHOSTUNREACH
ENOSPC, EROFS, EACCES, EPERM, EDQUOT = 28, 30, 13, 1, 122
DEPTH_MAX = 16

_allows = None


def set_policy(policy):
    """Only what the import policy allows is proposed."""
    global _allows
    _allows = policy.allows if policy else None


def hint(error):
    try:
        text = _hint(error)
        return f"{text[0].upper()}{text[1:]}." if text else None
    except BaseException:
        return None


def _hint(error):
    if isinstance(error, ModuleNotFoundError):
        return _missing(error)
    if isinstance(error, EOFError):
        return "the code waited for input and there was none: send it as stdin" if str(error) == "EOF when reading a line" else None
    if isinstance(error, MemoryError):
        return "the memory does not suffice: work on less at a time, or ask for more with limits.memory_bytes"
    if isinstance(error, RuntimeError) and str(error).startswith("can't start new thread"):
        return "the limit limits.max_processes is reached, which counts processes and threads: start fewer, or ask for more"
    if isinstance(error, (AttributeError, TypeError)) and _is_of_args(error):
        return "the inputs are in args.params, such as args.params['name']"
    if _is_network(error):
        return "the network is closed in this sandbox"
    return _file(error) if isinstance(error, OSError) else None


# Ours: a class Args of the code's own has what members it likes.
def _is_of_args(error):
    text = str(error)
    is_one = text == "'Args' object is not subscriptable" or text.startswith("'Args' object has no attribute ")
    return is_one and "Args" not in vars(sys.modules["__main__"])


def _missing(error):
    name = error.name
    if type(name) is not str or "No module named" not in str(error):
        return None
    top = name.partition(".")[0]
    if top != name and top in sys.modules:
        return None  # a package that is there, but has no such part
    sentence = f"the package {top!r} is not installed in this sandbox"
    instead = INSTEAD.get(top)
    if instead and " " in instead:
        return f"{sentence}; {instead}"
    return f"{sentence}; {instead} is" if instead and _is_there(instead) else sentence


def _is_there(name):
    if _allows and not _allows(name):
        return False
    if name in sys.modules:
        return True
    top = name.partition(".")[0]
    if top in sys.builtin_module_names:
        return True
    finders = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") in ("FrozenImporter", "PathFinder")]
    return any(finder.find_spec(top, None) is not None for finder in finders)


def _is_network(error):
    """The error, or what it was made from, is that of a name that cannot be looked up or a network that is not there."""
    todo, seen = [error], set()
    while todo and len(seen) < DEPTH_MAX:
        one = todo.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, OSError) and (one.errno in NETWORK_ERRNOS or type(one).__name__ == "gaierror" and type(one).__module__ == "socket"):
            return True
        if isinstance(one, OSError) or one is not error:
            todo += [one.__cause__, one.__context__, getattr(one, "reason", None)]
        else:
            todo.append(one.__cause__)
    return False


def _file(error):
    path = error.filename
    path = path.decode("utf-8", "replace") if isinstance(path, bytes) else path
    if error.errno in (ENOSPC, EDQUOT):
        return "no space is left: limits.workspace_bytes or limits.workspace_inodes is reached"
    if type(path) is not str:
        return None
    if isinstance(error, FileNotFoundError) and path and not path.startswith("/"):
        started = _started_by(error)
        if started:
            return f"the program {path!r} is not installed in this sandbox" if "/" not in path and started.get("cwd") is None else None
        from posix import getcwd
        return f"a relative path starts at the working directory, which is {getcwd()}; files to read must be sent with the request, folders to write to must be made first"
    if error.errno == EROFS or error.errno in (EACCES, EPERM) and path.startswith("/") and not path.startswith(WRITABLE):
        return "only /workspace and /tmp are writable, and the home"
    return None


def _started_by(error):
    """The variables of subprocess, when the error comes from starting a program."""
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_name == "_execute_child" and tb.tb_frame.f_code.co_filename.endswith("/subprocess.py"):
            return tb.tb_frame.f_locals
        tb = tb.tb_next
    return None
