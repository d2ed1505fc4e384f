"""One execution, from the job to the value. run() is a generator: what it yields are the calls of user code, which runner.py makes."""
import sys
from _functools import partial
from _frozen_importlib_external import SourceFileLoader
from posix import read, open as open_file, close, O_RDONLY, O_CLOEXEC

pipe = part("pipe")
jobs = part("job")
source = part("source")
values = part("values")
contract = part("contract")
errors = part("errors")
displays = part("displays")
figures = part("figures")

EXIT_BROKEN = 125
WHERE_MAX = 100  # of a value's path, in a sentence


def await_job():
    """For an interpreter that was started before there is a job; any has streams that lose nothing."""
    part("streams").mend()
    if sys.argv[1] == "--zygote" or sys.argv[1].startswith("--wait="):
        part("waiting").until_job()


def finish(held):
    """What to end with. held: a list with it, which nothing else may hold."""
    return part("ending").finish(held) if waited() else held.pop()


def waited():
    return "ending" in part("parts").PARTS


def run(job, value):
    """job, value: the descriptors. The result is the exception to end with, or None: the end of a script that went well."""
    path = sys.argv[1]
    pipe.open(value)
    try:
        told = jobs.take(job)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"glovebox: the job could not be read: {error}\n")
        return SystemExit(EXIT_BROKEN)
    script, policy = b"", None
    if told.allowed is not None:
        policy = part("policy").Policy(told.allowed, path)
        part("hints").set_policy(policy)
    look_plain(path)
    try:
        script = read_file(path)
        unit = compiled(source.strip_fence(script, path), path, told, policy)
    except Exception as error:
        return invalid(error, path, script)
    reach_folder(path)
    module = fresh_main(path)
    pipe.send([pipe.record(pipe.STARTED)])
    return (yield from life(told, unit, module.__dict__, path, script, policy))


def read_file(path):
    fd, blocks = open_file(path, O_RDONLY | O_CLOEXEC), []
    try:
        while not blocks or blocks[-1]:
            blocks.append(read(fd, 1 << 20))
    finally:
        close(fd)
    return b"".join(blocks)


def look_plain(path):
    """Arguments as `python3 main.py` has them."""
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [word for n, word in enumerate(sys.orig_argv) if word != sys.argv[0] or sys.orig_argv[n + 1:n + 2] != [path]]
    sys.path_importer_cache.pop(sys.argv[0], None)
    del sys.argv[0]


def reach_folder(path):
    """From here on the code's folder is on the module path. Not before it has compiled: a codec or a warning may import a module, and one of that name
    beside the code would run, of which nothing must have run yet."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path.insert(0, path.rpartition("/")[0] or ".")


def compiled(code, path, job, policy):
    want_last = job.contract in (jobs.AUTO, jobs.RESULT)
    tree, limit = None, sys.getrecursionlimit()
    sys.setrecursionlimit(3 * limit)  # code as a tree may be nested a third as deep as the same code as text
    try:
        if want_last or policy:
            tree = source.parse(code, path)
            if policy:
                policy.check_tree(tree)
        return source.make(code, path, tree, want_last)
    finally:
        sys.setrecursionlimit(limit)


def invalid(error, path, script):
    """It does not compile, or may not import what it imports: nothing runs."""
    errors.TRACEBACK.__set__(error, None)
    error.__context__ = None
    told = errors.tell_invalid(error, script)
    cut_off = source.looks_cut_off(source_of(script, path, error), error)
    if cut_off:
        told.hint = source.CUT_OFF
    if isinstance(error, source.CutOff):
        told.type = "SyntaxError"
        error = as_plain(error)
    errors.text_of(error, told, path)
    pipe.send([*told.records(), pipe.record(pipe.INVALID, b"\1" if cut_off else b"\0")])
    return SystemExit(1)


def source_of(script, path, error):
    """What was compiled: without its fence."""
    try:
        return source.strip_fence(script, path)
    except SyntaxError:
        return script


def as_plain(error):
    plain = SyntaxError(error.msg, (error.filename, error.lineno, error.offset, error.text))
    return plain


def fresh_main(path):
    """A __main__ with nothing in it but what a script finds."""
    module = type(sys)("__main__")
    module.__dict__.update(__file__=path, __cached__=None, __builtins__=sys.modules["builtins"], __annotations__={},
                           __loader__=SourceFileLoader("__main__", path))
    sys.modules["__main__"] = module
    return module


def given(told, names, policy):
    """Puts the variables into the globals; the inputs."""
    def allow(name):
        if policy:
            policy.check(name)
    inputs = {}
    if told.variables is not None:
        names.update(part("given").variables(told.variables, allow))
    if told.inputs is not None:
        inputs = part("given").parse(told.inputs, "inputs_json")
    return inputs


def life(job, unit, names, path, script, policy):
    failure = None
    value = contract.Value()
    try:
        inputs = given(job, names, policy)
    except Exception as error:
        failure = error
    if failure is not None:
        return (yield from uncaught(failure, path, script))
    displays.supply(job.content_max)
    if job.contract != jobs.SCRIPT:
        contract.supply()
    sys.meta_path.insert(0, figures.Finder())
    if policy:
        policy.install()
    failure = yield from go_through(contract.story(unit, names, job, inputs, value), unit.waits())
    try:
        end = yield from told_end(failure, job, names, value, path, script)
    except BaseException as late:  # of a signal handler of the user's, in the middle of our own work
        failure = late
        end = None
    if end is None and failure is not None:
        try:
            end = yield from uncaught(failure, path, script)
        except BaseException:  # it cannot even be told
            end = SystemExit(1)
    if pipe.is_mine():
        try:
            figures.show_open()
        except BaseException:
            pass  # matplotlib was taken apart
    return end


def go_through(story, waits):
    """Makes the calls of a story; what was raised, or None."""
    if waits:
        _, failure = yield contract.run_loop(contract.drive(story))
        return failure
    answer = failure = None
    while failure is None:
        try:
            step = story.send(answer)
        except StopIteration:
            return None
        except BaseException as error:
            return error
        answer, failure = yield step
        if failure is None and contract.is_awaitable(answer):
            answer, failure = yield contract.run_loop(contract.wait(answer))
    return failure


def told_end(failure, job, names, value, path, script):
    """Sends the value or the error; what to end with."""
    if errors.is_a(failure, SystemExit):
        if not failure.code and job.contract in (jobs.AUTO, jobs.RESULT) and "_result" in names:
            contract.result(names, None, value)
            send_value(value, job)
        return failure
    if failure is not None:
        return (yield from uncaught(failure, path, script))
    if value.note and pipe.is_mine() and b"main" in script:
        try:
            if not source.loads_name(source.strip_fence(script, path), "main"):
                pipe.send([pipe.record(pipe.NOTE, value.note.encode())])
        except Exception:
            pass  # user code has taken apart what that needs
    send_value(value, job)
    return None


def send_value(value, job):
    if not value.has or not pipe.is_mine():
        return
    try:
        blocks, lossy = values.write(value.value, job.value_max)
    except values.Refused as refused:
        if value.of_expression and refused.of and is_for_the_eye(value.value, refused):
            return
        where = refused.path if len(refused.path) <= WHERE_MAX else f"{refused.path[:WHERE_MAX - 40]}…{refused.path[-40:]}"
        about = errors.encoded(refused.path) + b"\0" + errors.cut_end(errors.encoded(f"{where} {refused.why}"), values.SENTENCE_MAX)
        pipe.send([pipe.record(pipe.ERROR, bytes([refused.kind]) + about)])
        return
    pipe.send([*pipe.pieces(pipe.JSON, blocks), pipe.record(pipe.END, b"\1" if lossy else b"\0")])


def is_for_the_eye(value, refused):
    """A last expression that is no value but something to look at. What says itself how it looks is displayed, as in a notebook; what a call that
    draws returns (plt.plot(…): a list of lines) is part of a figure, which is shown anyway."""
    if refused.path == "$" and displays.is_rich(value):
        try:
            displays.display(value)
            return True
        except Exception:
            return False
    return figures.is_part(refused.of)


def uncaught(error, path, script):
    """Tells an error of user code, on stderr by the user's own sys.excepthook if there is one."""
    told = errors.tell(error, path, script)  # hints look at frames of libraries, too
    errors.clean(error, path)
    hook, own = sys.excepthook, sys.excepthook not in (errors.HOOK, errors.PLAIN_HOOK)
    kind, traceback = type(error), errors.TRACEBACK.__get__(error)
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, traceback
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    errors.text_of(error, told, path, show=not own)
    if pipe.is_mine():
        pipe.send([*told.records(), pipe.record(pipe.ERROR_END)])
    if own:
        _, failure = yield partial(hook, kind, error, traceback)
        if errors.is_a(failure, SystemExit):
            return failure
        if failure is not None:
            errors.hook_failed(error, failure, path)
    if errors.is_a(error, KeyboardInterrupt):
        sys.excepthook = lambda *_: None  # it has been told; the interpreter then ends by SIGINT, as it should
        return error
    return SystemExit(1)
