"""Loads the runner's modules so that user code neither finds nor breaks them: they are not in sys.modules, no folder of theirs is on sys.path, and
each has the builtins as they were at the start, whatever user code does to `len` or `open` later.

Every module is given part(): `pipe = part("pipe")` is what an import would be."""
import sys
import _frozen_importlib_external as importing

MODULE = type(sys)
PARTS = {}


def part(name):
    module = PARTS.get(name)
    if module is None:
        path = FOLDER + name + ".py"
        module = MODULE(name)
        module.__dict__.update(__builtins__=__builtins__, __file__=path, part=part)
        keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            exec(importing.SourceFileLoader(name, path).get_code(name), module.__dict__)
        finally:
            sys.dont_write_bytecode = keep
        PARTS[name] = module
    return module


def is_ours(code):
    """Whether a code object is the runner's."""
    return code.co_filename.startswith(FOLDER) or code.co_filename == RUNNER


PARTS["parts"] = MODULE("parts")
PARTS["parts"].is_ours = is_ours
PARTS["parts"].RUNNER = RUNNER
PARTS["parts"].FOLDER = FOLDER
PARTS["parts"].PARTS = PARTS
