# What `./dev demo` runs: each line is on the caller's screen as soon as it is printed.
import os
import platform
import time

print(f"Hello from Python {platform.python_version()} in a cell of its own:")
for what, value in [
    ("user id", os.getuid()),
    ("processes to be seen here", sum(name.isdigit() for name in os.listdir("/proc"))),
    ("network interfaces", ", ".join(sorted(line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line))),
    ("working directory", os.getcwd()),
]:
    time.sleep(0.5)
    print(f"  {what}: {value}")
try:
    open("/etc/motd", "w")
except OSError as error:
    print(f"  writing to the system: {error.strerror}")
