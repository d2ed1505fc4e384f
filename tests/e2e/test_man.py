"""Man pages: every option that a program prints and every key of the config is in its page, and nothing else; groff and man have nothing to say."""
import gzip
import re
import subprocess

import pytest

from kit.daemon import BUILD
from kit.stubs import SOURCE

PAGES = ("glovebox.1", "gloveboxd.8", "glovebox-spawner.8", "glovebox-standalone.8", "glovebox.conf.5")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def page(name):
    return gzip.decompress((BUILD / "man" / f"{name}.gz").read_bytes()).decode()


def plain(text):
    """Roff with the font changes and escapes taken out."""
    return re.sub(r"\\f.|\\&", "", text).replace("\\-", "-").replace("\\e", "\\")


def described(text):
    """The options that have a paragraph of their own."""
    found = set()
    lines = plain(text).splitlines()
    for before, line in zip(lines, lines[1:]):
        if before in (".TP", ".TQ"):
            found |= set(OPTION.findall(line))
    return found


def printed(*command):
    return subprocess.run([BUILD / "bin" / command[0], *command[1:]], check=True, capture_output=True, text=True, timeout=20).stdout


@pytest.mark.parametrize("program", ["gloveboxd", "glovebox-spawner", "glovebox-standalone"])
def test_options_of_the_daemons(program):
    """--help and the page name the same options."""
    told = set(re.findall(r"^  +(--[a-z-]+)", printed(program, "--help"), re.M)) | set(OPTION.findall(
        " ".join(line for line in printed(program, "--help").splitlines() if line.startswith("  --"))))
    assert len(told) > 4 and described(page(f"{program}.8")) == told


def test_options_of_the_client():
    """Every verb and every option of its help is in glovebox(1)."""
    text = page("glovebox.1")
    verbs = re.findall(r"^  ([a-z-]+) ", printed("glovebox", "help").split("Verbs:")[1].split("\n\n")[0], re.M)
    assert len(verbs) > 4
    for verb in verbs:
        assert verb == "help" or f".SS glovebox {verb}" in text, verb
        options = set(re.findall(r"^  .{0,4}(--[a-z-]+)", printed("glovebox", "help", verb), re.M))
        assert options and options <= described(text), (verb, options - described(text))


def test_keys_of_the_config():
    """Every key of the shipped glovebox.conf is in the page, in its section; and every key of a runtime's file."""
    wanted, section = set(), None
    for line in (SOURCE / "systemd/glovebox.conf").read_text().splitlines():
        if heading := re.match(r"#?\[(.*)\]", line):
            section = heading.group(1)
        elif key := re.match(r"#([a-z-]+) =", line):
            wanted.add((section, key.group(1)))
    told, section, text = set(), None, plain(page("glovebox.conf.5"))
    for line in text.splitlines():
        if heading := re.match(r"\.SS \[(.*)\]", line):
            section = heading.group(1)
        elif key := re.match(r"\.B ([a-z-]+) =", line):
            told.add((section, key.group(1)))
    assert told == wanted and len(wanted) > 60
    runtime = set(re.findall(r'\{ "runtime", "([a-z-]+)",', (SOURCE / "common/runtimes.c").read_text()))
    assert len(runtime) >= 10 and runtime <= set(re.findall(r"^\.B ([a-z-]+)$", text.split(".SH RUNTIMES")[1], re.M))


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_clean(name):
    """groff -ww and man --warnings find nothing to warn of, and no placeholder is left."""
    text = page(name)
    assert not re.search(r"@[A-Z_]+@", text)
    for command in (["groff", "-k", "-ww", "-man", "-Tutf8", "-z"], ["man", "--warnings", "-l", "-Tutf8", "-"]):
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=30)
        assert done.returncode == 0 and done.stderr == b"", (command, done.stderr)
