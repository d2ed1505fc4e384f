"""What makes starts quicker and is the same for all of them: `python3 prepare.py [FOLDER]`, with the interpreter and the libraries that cells have.

Compiles the runner (else every start does, which takes 10 ms), and lets matplotlib, where it is installed, make its list of fonts (else every cell that
draws does, which takes most of a second). FOLDER: that of this file, or a copy of it."""
import compileall
import importlib.util
import os
import py_compile
import sys


def fonts(folder):
    if importlib.util.find_spec("matplotlib") is None:
        return
    os.environ.update(MPLCONFIGDIR=folder, MPLBACKEND="Agg")
    os.makedirs(folder, exist_ok=True)
    import matplotlib.font_manager  # noqa: F401  it writes the list


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    # By content and unchecked: installing changes times.
    done = compileall.compile_dir(target, quiet=1, force=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH, stripdir=target,
                                  prependdir="/glovebox/python")
    fonts(os.path.join(target, "matplotlib"))
    sys.exit(0 if done else 1)
