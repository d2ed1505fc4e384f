"""matplotlib without a screen: what is open when the code ends, or when it calls plt.show(), becomes pictures. Nothing here is loaded, and matplotlib
never, unless the code imports it."""
import sys

displays = part("displays")

# Fonts with Chinese, Japanese and Korean letters; the first that is installed fills the gaps of the usual one.
CJK = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK TC", "Noto Sans CJK KR", "Source Han Sans SC", "Source Han Sans CN",
       "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Noto Sans SC", "Noto Sans JP", "Droid Sans Fallback", "AR PL UMing CN", "AR PL UKai CN", "SimHei", "Microsoft YaHei",
       "IPAGothic", "IPAexGothic", "TakaoGothic", "VL Gothic", "NanumGothic", "UnDotum")

_shown = set()


def draw(figure):
    """A figure as PNG."""
    from io import BytesIO
    data = BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight")
    return data.getvalue()


def ready(pyplot):
    """matplotlib.pyplot was imported: from now on show() shows, and text of any script is drawn."""
    pyplot.show = show
    try:
        from matplotlib import font_manager, rcParams
        names = {font.name for font in font_manager.fontManager.ttflist}
        found = [name for name in CJK if name in names][:1]
        if found:
            rcParams["font.family"] = [*rcParams["font.family"], *found]
    except Exception:
        pass  # a version that does this otherwise: boxes rather than no picture


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
            sys.stderr.write(f"figure {number} could not be drawn: {values.name_of(type(error))}{values.reason(error)}\n")
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


class Finder:
    """Among the first of the finders: notes the import of matplotlib.pyplot, and is then gone."""

    def find_spec(self, name, path=None, target=None):
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
