"""import_policy: which modules the user's code may import. Checked on the code before it runs, and again at each import that the code makes.

What a module imports itself is its own affair. So this is a policy that tells code what to do without, and not a wall: the cell is the wall."""
import _ast
import sys

MACHINERY = ("/importlib/__init__.py", "/importlib/util.py", "/importlib/_bootstrap.py", "/importlib/_bootstrap_external.py")


class Policy:
    """allowed: names of modules; a name allows what is below it. path: the user's file."""

    def __init__(self, allowed, path):
        self.allowed, self.path = allowed, path

    def allows(self, name):
        return any(name == one or name.startswith(one + ".") for one in self.allowed)

    def error(self, name):
        those = "only " + ", ".join(sorted(self.allowed)) if self.allowed else "nothing"
        return ImportError(f"import of {name!r} is not allowed: by import_policy this code may import {those}", name=name)

    def check(self, name, within=()):
        """within: what a `from name import …` names; each may be a module that is allowed although the package is not."""
        if not self.allows(name) and not (within and all(self.allows(f"{name}.{one}") for one in within)):
            raise self.error(name)

    def check_tree(self, tree):
        """Imports as they are written. The error has attributes line and column."""
        nodes = [tree]
        while nodes:
            node = nodes.pop()
            try:
                if isinstance(node, _ast.Import):
                    for alias in node.names:
                        self.check(alias.name)
                elif isinstance(node, _ast.ImportFrom) and node.module != "__future__":
                    name = "." * (node.level or 0) + (node.module or "")
                    self.check(name, [alias.name for alias in node.names])
            except ImportError as error:
                error.position = (node.lineno, node.col_offset)
                raise
            for field in reversed(node._fields):
                child = getattr(node, field, None)
                if isinstance(child, list):
                    nodes.extend(item for item in reversed(child) if isinstance(item, _ast.AST))
                elif isinstance(child, _ast.AST):
                    nodes.append(child)

    def is_users(self, depth, through_machinery=False):
        """Whether the user's file makes the import, by itself or by code in a string. through_machinery: importlib's own frames lie between."""
        try:
            frame = sys._getframe(depth + 1)
        except ValueError:
            return False
        while frame is not None:
            name = frame.f_code.co_filename
            if name == self.path or frame.f_globals.get("__name__", "__main__") == "__main__":  # compile() takes any name for a file
                return True
            if name == __file__:
                return False  # the import was looked at when it began
            if name.startswith("<frozen importlib") or name.endswith(MACHINERY):
                if not through_machinery:
                    return False
            elif not name.startswith("<") or name.startswith("<frozen"):
                return False
            frame = frame.f_back
        return False

    def install(self):
        """From here on imports are checked: import statements and __import__, importlib, and what looks for modules."""
        import builtins
        import importlib
        original, by_name, policy = builtins.__import__, importlib.import_module, self

        def __import__(name, globals=None, locals=None, fromlist=(), level=0):
            if policy.is_users(1) and type(name) is str and not level and name != "__future__":
                policy.check(name, [one for one in fromlist or () if type(one) is str])
            return original(name, globals, locals, fromlist, level)

        def import_module(name, package=None):
            if policy.is_users(1) and type(name) is str:
                policy.check(name)
            return by_name(name, package)

        __import__.__module__, __import__.__doc__ = "builtins", original.__doc__
        import_module.__module__, import_module.__doc__ = "importlib", by_name.__doc__
        builtins.__import__ = __import__
        importlib.__import__ = __import__
        importlib.import_module = import_module
        sys.meta_path.insert(0, Finder(self))


class Finder:
    """First of the finders: finds nothing, but looks who asks."""

    def __init__(self, policy):
        self.policy = policy

    def find_spec(self, name, path=None, target=None):
        if self.policy.is_users(1, through_machinery=True):
            self.policy.check(name)
        return None
