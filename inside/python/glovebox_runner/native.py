"""The runner's part that is not Python (spawner/zygote-module.c). It is not built where Python's headers are missing."""
from _imp import create_dynamic, exec_dynamic
import _frozen_importlib_external as importing

FOLDER = part("parts").FOLDER
_module = None


def extension():
    """Not in sys.modules, as all that is ours. ImportError: there is none."""
    global _module
    if _module is None:
        path = FOLDER.rstrip("/").rpartition("/")[0] + "/glovebox_zygote.abi3.so"
        spec = importing.spec_from_file_location("glovebox_zygote", path, loader=importing.ExtensionFileLoader("glovebox_zygote", path))
        _module = create_dynamic(spec)
        exec_dynamic(_module)
    return _module
