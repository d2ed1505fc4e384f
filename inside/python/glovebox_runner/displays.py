"""display(obj): what an object looks like, in the MIME types that it offers itself (_repr_png_, _repr_html_, …), as Jupyter has it."""
import builtins
import sys

pipe = part("pipe")
values = part("values")

DISPLAYS_MAX, HEAD_MAX, ID_MAX = 1000, 64 * 1024, 200
REPR_MAX = 1024 * 1024
METHODS = (
    ("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_svg_", "image/svg+xml"), ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"), ("_repr_pdf_", "application/pdf"), ("_repr_latex_", "text/latex"), ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)

_count = _bytes = 0
_content_max = 0
_told = False  # that something did not fit


def supply(content_max):
    """Makes display() a builtin."""
    global _content_max
    _content_max = content_max
    builtins.display = display


def display(*objects, include=None, exclude=None, metadata=None, display_id=None, raw=False, **_):
    """Shows objects to whoever runs this code: pictures, tables, HTML, else their repr(). raw=True: they are dicts from MIME types to data."""
    for one in objects:
        bundle, about = (one, {}) if raw else bundle_of(one)
        if type(bundle) is not dict:
            raise TypeError(f"display(…, raw=True) takes dicts from MIME types to data, not {type(one).__name__}")
        chosen = {mime: data for mime, data in bundle.items() if (not include or mime in include) and (not exclude or mime not in exclude)}
        show(chosen, {**about, **(metadata or {})}, display_id)


display.__module__ = "builtins"


def method(value, name):
    """A method that the object's class defines; an attribute of every name, as some objects have, does not count."""
    for cls in values.classes_of(type(value)):
        own = values.dict_of(cls)
        if name in own:
            return None if own[name] is None else lambda: getattr(value, name)()
    return None


def is_figure(value):
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    return isinstance(figure, type) and figure in values.classes_of(type(value))


def is_rich(value):
    """Whether it looks like more than its repr()."""
    return is_figure(value) or any(method(value, name) for name in ("_repr_mimebundle_", *(name for name, _ in METHODS)))


def bundle_of(value):
    """What an object offers: MIME type to data, and metadata. What raises is left out, as long as there is something else."""
    if is_figure(value):
        figures = part("figures")
        data = figures.draw(value)
        figures.remember(data)
        return {"image/png": data}, {}
    bundle, about = {}, {}
    offer = method(value, "_repr_mimebundle_")
    if offer:
        data, more = split(attempt(offer))
        if isinstance(data, dict):
            bundle.update(data)
            about.update(more)
    for name, mime in METHODS:
        offer = method(value, name)
        if mime in bundle or offer is None or mime == "image/jpeg" and "image/png" in bundle:
            continue
        data, more = split(attempt(offer))
        if data is not None:
            bundle[mime] = data
            if more:
                about[mime] = more
    if "text/plain" not in bundle:
        text = repr(value)
        bundle["text/plain"] = text if len(text) <= REPR_MAX else text[:REPR_MAX] + "…"
    return bundle, about


def attempt(offer):
    try:
        return offer()
    except Exception:
        return None


def split(answer):
    """A method answers data, or data and metadata."""
    if type(answer) is tuple and len(answer) == 2:
        return answer[0], answer[1] if isinstance(answer[1], dict) else {}
    return answer, {}


def data_of(mime, data):
    """Data of one MIME type as bytes: pictures may be base64, JSON a Python value."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if isinstance(data, str):
        if mime.startswith(("image/", "audio/", "video/")) and mime != "image/svg+xml" or mime == "application/pdf":
            from binascii import a2b_base64
            return a2b_base64(data)
        return part("errors").encoded(data)
    if mime == "application/json" or mime.endswith("+json"):
        return b"".join(values.write(data, _content_max)[0])
    return part("errors").encoded(str(data))


def made_of(bundle):
    """The data of each MIME type. What cannot be made is left out, as long as there is something else."""
    failure = None
    made = []
    for mime, data in bundle.items():
        if type(mime) is not str or data is None:
            continue
        try:
            made.append((mime, data_of(mime, data)))
        except values.Refused as error:
            failure = f"display: the {mime[:100]} cannot be made: {error.path} {error.why}"
        except ValueError as error:
            failure = f"display: the {mime[:100]} cannot be made: {error}"
    if failure and not made:
        raise TypeError(failure)
    return made


def show(bundle, about, display_id=None):
    """Sends one display: each MIME type is a record of the same id. What is over the caps is left out, whole; the first time that is told."""
    global _count, _bytes, _told
    if _count > DISPLAYS_MAX or not bundle or not pipe.is_mine():
        return
    made = made_of(bundle)
    _count += 1
    ident = str(display_id)[:ID_MAX].replace("\0", "") if display_id is not None else str(_count)
    metadata = b""
    if about:
        try:
            metadata = b"".join(values.write(about, HEAD_MAX // 2)[0])
        except values.Refused:
            metadata = b""
    records = []
    for mime, data in made:
        size = len(data) + len(metadata)  # as whoever reads it counts
        fits = _count <= DISPLAYS_MAX and _bytes + size <= _content_max
        if fits:
            _bytes += size
        elif _told:
            continue
        head = part("errors").encoded(ident) + b"\0" + part("errors").encoded(mime[:200].replace("\0", "")) + b"\0"
        records.append(pipe.record(pipe.DISPLAY, head + metadata if fits else head))
        if fits:
            records.extend(pipe.pieces(pipe.DISPLAY_DATA, [data]))
        records.append(pipe.record(pipe.DISPLAY_END, b"" if fits else b"\1"))
        _told = _told or not fits
    pipe.send(records)
