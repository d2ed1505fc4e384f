"""pip builds and installs a package without a network, into a folder and into a virtual environment; what has no network says so soon."""
import os
import pathlib
import subprocess
import sys
import time

package = pathlib.Path("/workspace/package")
(package / "hello").mkdir(parents=True)
(package / "hello" / "__init__.py").write_text("def greet():\n    return 'hello'\n")


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


assert "pip" in run(sys.executable, "-m", "pip", "--version")
wheel = "/workspace/hello-1.0-py3-none-any.whl"
import zipfile  # noqa: E402

with zipfile.ZipFile(wheel, "w") as archive:
    archive.write(package / "hello" / "__init__.py", "hello/__init__.py")
    archive.writestr("hello-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
    archive.writestr("hello-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    archive.writestr("hello-1.0.dist-info/RECORD", "hello/__init__.py,,\nhello-1.0.dist-info/METADATA,,\nhello-1.0.dist-info/WHEEL,,\n"
                                                   "hello-1.0.dist-info/RECORD,,\n")
run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", "--target", "/workspace/lib", wheel)
sys.path.insert(0, "/workspace/lib")
import hello  # noqa: E402

assert hello.greet() == "hello"
run(sys.executable, "-m", "venv", "--without-pip", "/workspace/venv")
assert run("/workspace/venv/bin/python", "-c", "import sys; print(sys.prefix)") == "/workspace/venv\n"

# A package index that cannot be reached is an answer, not a wait.
began = time.monotonic()
done = subprocess.run([sys.executable, "-m", "pip", "download", "--retries", "0", "--disable-pip-version-check", "hello-not-there"],
                      capture_output=True, text=True, env={**os.environ, "PIP_CONFIG_FILE": os.devnull})
assert done.returncode != 0 and time.monotonic() - began < 20, done
print("works")
