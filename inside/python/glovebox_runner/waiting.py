"""An interpreter that is there before its job: as a zygote, which is forked into a cell for each job (spawner/zygote-module.c), or started in a cell and
waiting there (`--wait=PATH`). Either way what the code finds is what a fresh start has, but for what docs/python.md names."""
import posix
import sys
from _functools import partial
import _frozen_importlib_external as importing

pipe = part("pipe")
jobs = part("job")
life = part("life")
ending = part("ending")
streams = part("streams")
native = part("native")

FOLDER = part("parts").FOLDER
JOB, REPORT, VALUE, SOCKET = 3, 4, 5, 3  # the socket is the zygote's, the others are its children's
EINVAL, ENOENT, ENOEXEC = 22, 2, 8
REPORT_FAILED = 1
DETAIL_MAX = 200  # spawner/zygote-wire.h
EXIT_NOT_STARTED = 125
FILE_RUNS = 3
REHEARSALS = 20  # the interpreter specialises code that it has run some times; a fork should find that done

files = {}  # what was compiled of those that are preloaded, by their paths

# Each reads its own when it is loaded, and starts as many threads: a process with threads cannot be forked.
THREADS = ("GOMAXPROCS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


def until_job():
    """Comes back when there is a job, with everything as a start with that job would have it. In a zygote that is in its children alone."""
    word = sys.argv[1]
    if word == "--zygote":
        zygote(sys.argv[2:])
    else:
        wait(word.partition("=")[2])


def wait(path):
    """In a cell, started as any program: what is left is the job."""
    try:
        module = native.extension()
    except ImportError as error:
        sys.stderr.write(f"glovebox: the runner cannot wait for a job: {error}\n")
        step = b"zygote module"
        posix.write(REPORT, REPORT_FAILED.to_bytes(4, "little") + (4 + len(step)).to_bytes(4, "little") + ENOEXEC.to_bytes(4, "little") + step)
        posix._exit(EXIT_NOT_STARTED)
    rehearse("rehearsal")
    module.settle()
    words, environment = module.take_job(path)
    set_environment(environment)
    for all_words in arguments():
        all_words[:] = [path if word == f"--wait={path}" else word for word in all_words] + words


def zygote(modules):
    module = None
    try:
        gc, atexit = hidden("gc"), hidden("atexit")
        module = native.extension()
        module.setup()
        preload(module, modules)
        make_random()
        make_streams()
        for n in range(REHEARSALS):
            rehearse("rehearsal")
            rehearse("rehearsal_error")
        if not module.is_single():
            raise Unfit("what is preloaded has started a thread")
        if module.has_children():
            raise Unfit("what is preloaded has started a process, which would outlive this one")
    except BaseException as error:
        tell_ready(error)
        posix._exit(1)
    ending.prepare(module, gc, atexit)
    collecting = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    tell_ready(None)
    pid = posix.getpid()
    warm = module.serve()
    if warm is None:
        posix._exit(0)
    born(module, warm, pid)
    if collecting:
        gc.enable()
    if warm:
        module.settle()
    words, environment = module.take_job()
    set_environment(environment)
    for all_words in arguments():
        all_words += words


def make_random():
    """OpenSSL makes its generator when it is first asked, which takes a millisecond. A child's seeds itself anew: OpenSSL sees that the process is
    another one, or renew() tells it."""
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_bytes(1)


def hidden(name):
    """A module that the code's own import makes anew: in a plain start it is not there either."""
    there = name in sys.modules
    module = __import__(name)
    if not there and sys.version_info >= (3, 10):  # before, another atexit would not know what was registered in this one
        del sys.modules[name]
    return module


def arguments():
    return [sys.argv, sys.orig_argv] if hasattr(sys, "orig_argv") else [sys.argv]


class Unfit(Exception):
    """No interpreter to fork from: why, in a sentence."""


def tell_ready(error):
    """struct ZygoteReady."""
    number = 0 if error is None else ENOENT if isinstance(error, Unfit) and isinstance(error.__cause__, ModuleNotFoundError) else EINVAL
    if isinstance(error, OSError) and error.errno:
        number = error.errno
    detail = "" if error is None else str(error) if isinstance(error, Unfit) else f"{type(error).__name__}: {error}"
    data = detail.encode("utf-8", "replace")[:DETAIL_MAX - 1].decode("utf-8", "ignore").encode()
    posix.write(SOCKET, (-number).to_bytes(4, sys.byteorder, signed=True) + data.ljust(DETAIL_MAX, b"\0"))


def preload(module, names):
    """Imports what the runtime's config names, as the code's own imports would; a path is a file that is run, with names of its own."""
    before = {name: posix.environ.get(name.encode()) for name in THREADS}
    set_environment([name + "=1" for name in THREADS])
    finder = part("figures").Finder()
    sys.meta_path.insert(0, finder)
    try:
        for name in names:
            try:
                if name.startswith("/"):
                    files[name] = importing.SourceFileLoader("rehearsal", name).get_code("rehearsal")
                    for _ in range(FILE_RUNS):
                        undone(partial(run_file, name))
                else:
                    __import__(name)
            except BaseException as error:
                raise Unfit(f"{name}: {type(error).__name__}: {error}") from error
            if not module.is_single():
                raise Unfit(f"{name} starts a thread when it is imported, and a process with threads cannot be forked")
            if leaves_open():
                raise Unfit(f"{name} leaves a file or a socket open, whose number is another one's in each execution")
    finally:
        sys.meta_path[:] = [one for one in sys.meta_path if one is not finder]
        for name, value in before.items():
            posix.unsetenv(name)
            posix.environ.pop(name.encode(), None)
            if value is not None:
                set_environment([f"{name}={value.decode('utf-8', 'surrogateescape')}"])
    for name in PARTS:
        part(name)


def leaves_open():
    """Looks at the lowest numbers: whatever is opened gets one of these."""
    for fd in range(SOCKET + 1, SOCKET + 33):
        try:
            posix.fstat(fd)
            return True
        except OSError:
            pass
    return False


def run_file(path):
    names = {"__name__": "rehearsal", "__file__": path, "__builtins__": sys.modules["builtins"]}
    try:
        exec(files[path], names)
    finally:
        names.clear()


# What a job may need, but for what few do.
PARTS = ("contract", "displays", "errors", "figures", "given", "hints", "policy", "source", "tables", "values")


def make_streams():
    """sys.stdin, sys.stdout and sys.stderr as they are on pipes, which is what a cell has: a stream notes what kind of file it is on."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        old = getattr(sys, name)
        if old is None:
            continue
        ends = posix.pipe()
        if mode == "w":
            old.flush()
        posix.dup2(ends[mode == "w"], fd)
        for end in ends:
            posix.close(end)
        streams.replace(fd, mode, name)


def set_environment(pairs, whole=False):
    """The C library's, and the dict that os.environ is a view of."""
    if whole:
        for name in list(posix.environ):
            posix.unsetenv(name)
        posix.environ.clear()
    for pair in pairs:
        name, _, value = pair.encode("utf-8", "surrogateescape").partition(b"=")
        posix.putenv(name, value)
        posix.environ[name] = value
        if name == b"TZ" and "time" in sys.modules:
            sys.modules["time"].tzset()


def born(module, warm, pid):
    """In a child of the zygote, behind the wall: its own environment and arguments, and nothing that another child has too and that is to differ."""
    words, environment = module.take_head()
    set_environment(environment, whole=True)
    runner = words.index(sys.argv[0])
    for all_words, first in zip(arguments(), (runner, 0)):
        all_words[:] = words[first:]
    if warm:
        rehearse("rehearsal")
        for name in files:
            try:
                undone(partial(run_file, name))
            except BaseException:
                pass  # it went well in the zygote; what this one may not do is nobody's need
        ending.rehearse()
    renew(pid)


def renew(pid):
    """pid: the zygote's. What no two processes may share, made when modules were imported or by a file that is preloaded."""
    def of(name):
        return sys.modules.get(name)
    if files and of("random"):  # it has seeded itself after the fork, and a file may have done that since
        sys.modules["random"].seed()
    if of("threading"):
        main = sys.modules["threading"].main_thread()
        getattr(main, "_set_native_id", int)()
    if of("tempfile"):
        sys.modules["tempfile"]._name_sequence = sys.modules["tempfile"].tempdir = None
    if of("uuid"):
        sys.modules["uuid"]._node = sys.modules["uuid"]._last_timestamp = None
    # OpenSSL knows a fork by its pid. In a pid namespace of its own it may have the zygote's; and OpenSSL 1 is told in another way, which is none here.
    if of("_ssl") and (pid == posix.getpid() or sys.modules["_ssl"].OPENSSL_VERSION_INFO < (3,)):
        sys.modules["_ssl"].RAND_add(posix.urandom(32), 32.0)
    if of("logging"):
        sys.modules["logging"]._startTime = sys.modules["time"].time()
    if of("multiprocessing.process"):
        process = sys.modules["multiprocessing.process"]
        process.current_process()._config["authkey"] = process.AuthenticationString(posix.urandom(32))
    if of("numpy.random"):
        sys.modules["numpy.random"].seed()
    if of("matplotlib"):  # it has asked for its folders once, in the zygote
        for folder in (sys.modules["matplotlib"].get_configdir(), sys.modules["matplotlib"].get_cachedir()):
            sys.modules["os"].makedirs(folder, exist_ok=True)


# What a job puts there.
MADE = {"builtins": ("Args", "Output", "Outputs", "display"), "sys": ("last_exc", "last_type", "last_value", "last_traceback")}


def rehearse(name):
    """Goes the way of a job."""
    undone(partial(play_job, name))


def play_job(name):
    null = posix.open("/dev/null", posix.O_WRONLY | posix.O_CLOEXEC)
    job, end = posix.pipe()
    try:
        posix.write(end, pipe.record(jobs.CONTRACT, b"\1") + pipe.record(jobs.RUNNER_END))
        posix.close(end)
        sys.argv[1:] = [f"{FOLDER}{name}.py"]
        play(life.run(job, null))
    finally:
        pipe.close_mine()


def undone(do):
    """Does it with prints to nowhere, and takes back what that changes."""
    before = [(each, each[:]) for each in (sys.path, sys.meta_path, *arguments())]
    main = sys.modules["__main__"]
    null = posix.open("/dev/null", posix.O_WRONLY | posix.O_CLOEXEC)
    kept = [posix.dup(fd) for fd in (1, 2)]
    try:
        for fd in (1, 2):
            posix.dup2(null, fd)
        do()
    finally:
        ending.flush()
        for fd, stream in zip((1, 2), kept):
            posix.dup2(stream, fd)
            posix.close(stream)
        posix.close(null)
        for each, content in before:
            each[:] = content
        for module, names in MADE.items():
            for made in names:
                vars(sys.modules[module]).pop(made, None)
        sys.modules["__main__"] = main


def play(work):
    """runner.py's way through a job."""
    outcome = None
    while True:
        try:
            step = work.send(outcome)
        except StopIteration:
            return
        answer = error = None
        try:
            answer = step()
        except BaseException as e:
            error = e
        outcome, step = (answer, error), None
