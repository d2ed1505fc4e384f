"""Runs one piece of Python code: `python3 runner.py /workspace/main.py ARGS...`. The rest of the job is read from descriptor 3, and what the
code came to is written to descriptor 5 (common/job.h and common/value.h). With `--wait=/workspace/main.py` it waits for the job, and with
`--zygote MODULES...` it imports the modules and is then forked for each job.

Python compiles a script anew at every start, so all but the start is in glovebox_runner/, which can be compiled beforehand.

The user's code is called from here, the outermost frame, and not from within functions: the steps come from a generator, which is not on the
stack while it waits. So a traceback, a warning or a debugger of the user finds one frame below the code, and none when this file's is taken off."""
import sys
import _frozen_importlib_external as importing


def prepare():
    """Loads everything that does not depend on a job. What runs later, in a fork of this process or at once, is life.run()."""
    folder = __file__.rpartition("/")[0] or "."
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]  # this file's folder is not the user's business
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        path = folder + "/glovebox_runner/parts.py"
        parts = {"__builtins__": dict(vars(sys.modules["builtins"])), "FOLDER": folder + "/glovebox_runner/", "RUNNER": prepare.__code__.co_filename}
        exec(importing.SourceFileLoader("parts", path).get_code("parts"), parts)
        return parts["part"]("life")
    finally:
        sys.dont_write_bytecode = keep


life = prepare()
life.await_job()
work = life.run(job=3, value=5)
# User code may do to builtins what it likes, and leave a tracer behind that would see, and end, the runner's own frames.
Stop, Any, hooks = StopIteration, BaseException, ((sys.getprofile, sys.setprofile), (sys.gettrace, sys.settrace))
outcome = end = None
while end is None:
    try:
        step = work.send(outcome)
    except Stop as stop:
        end = stop.value
        break
    answer = error = None
    try:
        answer = step()
    except Any as e:
        error = e
    try:
        for get, put in hooks:
            if get():
                put(None)
    except Any:
        pass
    outcome, step = (answer, error), None
    answer = error = None
outcome = work = None
held, end = [end], None
end = life.finish(held)
if end is not None:
    raise end
