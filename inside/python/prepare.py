"""What makes starts quicker and is the same for all of them: `python3 prepare.py [--fonts]`, with the interpreter and the libraries that cells have.

Compiles the runner (else every start does, which takes 10 ms), and lets matplotlib, where it is installed, make its list of fonts (else every cell
that draws does, which takes a second). --fonts: only that."""
import compileall
import importlib.util
import os
import py_compile
import sys

from glovebox_runner import fonts


def compile_runner(folder):
    # By content and unchecked: installing changes times.
    return compileall.compile_dir(folder, quiet=1, force=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH, stripdir=folder,
                                  prependdir="/glovebox/python")


def list_fonts():
    if importlib.util.find_spec("matplotlib") is None:
        return
    os.makedirs(fonts.PREPARED, exist_ok=True)
    for name in os.listdir(fonts.PREPARED):
        os.unlink(os.path.join(fonts.PREPARED, name))
    os.environ.update(MPLCONFIGDIR=fonts.PREPARED, MPLBACKEND="Agg", XDG_DATA_HOME="/nonexistent", HOME="/nonexistent")
    try:
        import matplotlib.font_manager  # noqa: F401  it writes the list
    except Exception as error:
        print(f"prepare.py: matplotlib made no list of fonts, so cells that draw will: {error}", file=sys.stderr)
        return
    with open(fonts.PREPARED + "/folders", "w", encoding="utf-8") as file:
        file.write(fonts.stamp())


if __name__ == "__main__":
    done = sys.argv[1:] == ["--fonts"] or compile_runner(os.path.dirname(os.path.abspath(__file__)))
    list_fonts()
    sys.exit(0 if done else 1)
