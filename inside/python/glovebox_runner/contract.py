"""What of the code is called, and what its value is: MAIN, RESULT, SCRIPT and AUTO."""
import builtins
from _functools import partial

jobs = part("job")
values = part("values")

# By the number of arguments that main takes.
NOT_CALLED = {
    1: "main was not called: send inputs_json (even {}) or contract MAIN to have it called",
    0: "main was not called: send contract MAIN, or let it take one argument and send inputs_json, to have it called",
    None: "main was not called: it must take one argument, main(args)",
}
VAR_POSITIONAL = 4  # CO_VARARGS


class Args:
    """What main is given: params are the inputs."""

    def __init__(self, *params):
        self.params, = params or ({},)

    def __repr__(self):
        return f"Args(params={self.params!r})"


class Output(dict):
    """For annotations: what main returns."""


def supply():
    """The names that code may use without defining them. They are builtins, so that the code's own globals hold only its own."""
    for cls in (Args, Output):
        cls.__module__ = "builtins"
    builtins.Args, builtins.Output, builtins.Outputs = Args, Output, Output


FUNCTION, METHOD = type(supply), type(Args().__repr__)


class Value:
    """What the code came to. has: whether there is a value (None is one); note: what Result.message is to add."""

    def __init__(self):
        self.has, self.value, self.note, self.of_expression = False, None, None, False


def takes(function):
    """How many arguments a callable can be called with: 1, else 0, else None."""
    if type(function) not in (FUNCTION, METHOD):
        return _takes_by_signature(function)
    bound = type(function) is METHOD
    code = function.__func__.__code__ if bound and type(function.__func__) is FUNCTION else getattr(function, "__code__", None)
    if code is None:
        return _takes_by_signature(function)
    defaults = (function.__func__ if bound else function)
    if code.co_kwonlyargcount > len(defaults.__kwdefaults__ or {}):
        return None
    most = code.co_argcount - bound
    least = most - len(defaults.__defaults__ or ())
    if least <= 1 and (most >= 1 or code.co_flags & VAR_POSITIONAL):
        return 1
    return 0 if least <= 0 else None


def _takes_by_signature(function):
    try:
        import inspect
        signature = inspect.signature(function)
    except Exception:  # also where the code has an inspect.py of its own
        return 1
    for given in ((None,), ()):
        try:
            signature.bind(*given)
            return len(given)
        except TypeError:
            pass
    return None


def story(unit, names, job, inputs, value):
    """The steps of a run, each one a call that is made outside of the runner's own frames; an awaitable that comes of it is awaited.
    Fills in value."""
    yield partial(eval, unit.first, names)
    last = None
    if unit.last is not None:
        last = yield partial(eval, unit.last, names)
    if job.contract == jobs.SCRIPT:
        return
    main = names.get("main")
    count = takes(main) if callable(main) else None
    if job.contract == jobs.MAIN and not callable(main):
        raise NameError("the code defines no main: with contract MAIN define main(args); what it returns is the value")
    if job.contract == jobs.RESULT or job.contract == jobs.AUTO and not (count == 1 and (job.inputs is not None or "Args" in names)):
        result(names, last, value)
        if job.contract == jobs.AUTO and callable(main):
            value.note = NOT_CALLED[count]
        return
    if count == 0:
        value.value = yield main
    else:
        args = yield partial(names.get("Args", Args), inputs)
        value.value = yield partial(main, args)
    value.has = True


def result(names, last, value):
    """The value of RESULT: the global _result when it is there, else the last expression, when that is not None."""
    if "_result" in names:
        value.has, value.value = True, names["_result"]
    elif last is not None:
        value.has, value.value, value.of_expression = True, last, True


def is_awaitable(value):
    kind = type(value)
    return kind is not type and any("__await__" in values.dict_of(cls) for cls in values.classes_of(kind))


async def drive(story):
    """The whole story within one event loop, for code that awaits at its top level."""
    answer = None
    while True:
        try:
            step = story.send(answer)
        except StopIteration:
            return
        answer = step()
        if is_awaitable(answer):
            answer = await answer


async def wait(awaitable):
    return await awaitable


def run_loop(coroutine):
    import asyncio
    return partial(asyncio.run, coroutine)
