"""matplotlib without a screen: what is open when the code ends, or when it calls plt.show(), becomes pictures. Nothing here is loaded, and matplotlib
never, unless the code imports it."""
import sys

displays = part("displays")

# Fonts with Chinese, Japanese and Korean letters; the first that is installed fills the gaps of the usual one.
CJK = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK TC", "Noto Sans CJK KR", "Source Han Sans SC", "Source Han Sans CN",
    "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Noto Sans SC", "Noto Sans JP", "Droid Sans Fallback", "AR PL UMing CN", "AR PL UKai CN",
    "SimHei", "Microsoft YaHei", "IPAGothic", "IPAexGothic", "TakaoGothic", "VL Gothic", "NanumGothic", "UnDotum",
)

TOLD_MAX = 100

_shown = set()
_told = set()


def draw(figure):
    """A figure as PNG. Warnings (a letter that no font has, …) are told as the figure's: the line that draws it is not the user's."""
    import warnings
    from io import BytesIO
    data = BytesIO()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        figure.savefig(data, format="png", bbox_inches="tight")
    for text in dict.fromkeys(f"figure {getattr(figure, 'number', '')}: {one.category.__name__}: {one.message}" for one in found):
        tell(text)
    return data.getvalue()


def tell(text):
    if sys.stderr is not None:
        sys.stderr.write(text + "\n")


def ready(pyplot):
    """matplotlib.pyplot was imported: from now on show() shows, and text of any script is drawn."""
    pyplot.show = show
    try:
        import logging
        from matplotlib import font_manager, rcParams
        logging.getLogger("matplotlib.font_manager").addFilter(only_once)  # it tells of a missing font for each piece of text
        names = {font.name for font in font_manager.fontManager.ttflist}
        found = [name for name in CJK if name in names][:1]
        if found:
            rcParams["font.family"] = [*rcParams["font.family"], *found]
    except Exception:
        pass  # a version that does this otherwise: boxes rather than no picture


def only_once(record):
    """Whether a message of matplotlib's log is new."""
    text = record.getMessage()
    if text in _told:
        return False
    if len(_told) < TOLD_MAX:
        _told.add(text)
    return True


def show(*args, block=True, **kwargs):
    """Shows all open figures, and closes them. With block=False they stay open, to be drawn on, and are shown at the end."""
    if block is not False:
        show_open()
        sys.modules["matplotlib.pyplot"].close("all")


def show_open():
    """All open figures, in order of their numbers; none twice that display() or an earlier call has shown just as it is."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None:
        return
    for number in sorted(helpers.Gcf.figs):
        try:
            data = draw(helpers.Gcf.figs[number].canvas.figure)
        except Exception as error:
            values = displays.values
            tell(f"figure {number} could not be drawn: {values.name_of(type(error))}{values.reason(error)}")
            continue
        if remember(data):
            displays.show({"image/png": data}, {})


def remember(data):
    """Whether a picture is new."""
    key = hash(data)
    if key in _shown:
        return False
    _shown.add(key)
    return True


def is_part(kind):
    """Whether a class is one of matplotlib's: what calls that draw return (lines, bars, axes)."""
    for cls in displays.values.classes_of(kind):
        module = displays.values.dict_of(cls).get("__module__")
        if type(module) is str and module.startswith("matplotlib."):
            return True
    return False


class Finder:
    """Among the first of the finders: notes the import of matplotlib.pyplot, and is then gone."""

    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib.font_manager":
            try:
                # Without its list of fonts matplotlib looks through all of them, and a cell's home is always new.
                part("fonts").take(sys.modules["matplotlib"].get_cachedir())
            except Exception:
                pass  # it is slower without
        if name != "matplotlib.pyplot":
            return None
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader
        original = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            original(module)
            ready(module)
        loader.exec_module = exec_module
        return spec
