"""Holds the README and the book to what is there: links, options, and every command.

    book.py links BOOK                       links and anchors of the built book and of the Markdown around it
    book.py run DAYLIGHT PYTHON [PAGE...]    every command of README and book, in a fresh copy for each page

A fenced block of `sh` is run; comments right above a block say what else is to know:

    <!-- not run: REASON -->         the block needs what is not everywhere (a GPU, minutes, a service)
    <!-- not run `TEXT`: REASON -->  the same of its lines with TEXT
    <!-- exit N -->                  its last command ends with this code
    <!-- first: COMMAND -->          set-up that readers have done or need not see
    <!-- file PATH -->               the block, of any language, is written to this file
    <!-- shows -->                   the block is what the commands before it print: its lines appear there, in order;
                                     numbers may differ, and `...` stands for anything

Commands of one page run in its order, in one folder, with `set -e`. `daylight` is DAYLIGHT, `python` is PYTHON, HOME is
an empty folder, and cargo builds where this checkout does.
"""
import functools
import html.parser
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_S = 180
COMMENT = re.compile(r"<!-- (not run `(?P<text>[^`]+)`|not run|exit|first|file|shows)(?::? ?(?P<value>.*?))? ?-->")
FENCE = re.compile(r"( *)(```+)\s*([\w-]*)\s*$")


def pages():
    """README and the chapters, in the order of the summary."""
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    chapters = [ROOT / "docs" / name for name in re.findall(r"\]\(([^)]+\.md)\)", summary)]
    missing = {p for p in (ROOT / "docs").glob("*.md")} - set(chapters) - {ROOT / "docs/SUMMARY.md"}
    if missing:
        sys.exit(f"not in docs/SUMMARY.md: {sorted(p.name for p in missing)}")
    return [ROOT / "README.md", *chapters]


def blocks(page):
    """The fenced blocks of a page: line, language, text, comments above."""
    lines = page.read_text().splitlines()
    comments, out, at = [], [], 0
    while at < len(lines):
        fence, comment = FENCE.match(lines[at]), COMMENT.fullmatch(lines[at].strip())
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == fence[2])
            text = "\n".join(line[len(fence[1]):] for line in lines[at + 1:end]) + "\n"
            out.append((at + 1, fence[3], text, comments))
            at, comments = end, []
        elif comment:
            kind = "not run" if comment["text"] else comment[1]
            comments = [*comments, (kind, comment["text"], comment["value"])]
        elif lines[at].strip():
            comments = []
        at += 1
    return out


def name(page):
    return str(page.relative_to(ROOT))


# Links ---------------------------------------------------------------------------------------------------------------

class Page(html.parser.HTMLParser):
    """Targets and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key in ("href", "src") and tag in ("a", "img", "link", "script"):
                self.links.append(value)
            if key in ("id", "name"):
                self.anchors.add(value)


@functools.cache
def parsed(path):
    return Page(path.read_text())


def slugs(path):
    """The anchors of the headings of a Markdown file, as GitHub makes them."""
    out = set()
    for heading in re.findall(r"^#+ (.*)$", path.read_text(), re.M):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        out.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return out


def broken(source, target, anchors):
    """Why a link leads nowhere, or None."""
    parts = urllib.parse.urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    path = (source.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else source
    if not path.exists():
        return "there is no such file"
    wanted = urllib.parse.unquote(parts.fragment)
    if wanted and path.suffix in (".md", ".html") and wanted not in anchors(path):
        return "there is no such anchor"
    return None


def links(book):
    wrong, count = [], 0
    chapters = [(book / p.relative_to(ROOT / "docs")).with_suffix(".html") for p in pages()[1:]]
    for source in chapters:
        for target in parsed(source).links:
            count += 1
            why = broken(source, target, lambda p: parsed(p).anchors)
            wrong += [f"{source.name}: {target}: {why}"] if why else []
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for source in [ROOT / line for line in tracked.split()]:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", source.read_text(), flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            count += 1
            why = broken(source, target, slugs)
            wrong += [f"{name(source)}: {target}: {why}"] if why else []
    return wrong, f"{count} links of {len(chapters)} chapters and of the Markdown files lead somewhere"


# Commands ------------------------------------------------------------------------------------------------------------

def options(daylight, page):
    """Commands within the text are not run; what they name has to exist."""
    wrong = []
    text = re.sub(r"^( *```+).*?^\1\s*$", "", page.read_text(), flags=re.S | re.M)
    for command in re.findall(r"`daylight ([^`]*)`", text):
        words = command.split()
        subcommands = [w for w in words[:2] if re.fullmatch(r"[a-z][a-z-]*", w)]
        while subcommands and not said(daylight, tuple(subcommands)):
            subcommands.pop()
        told = said(daylight, tuple(subcommands))
        known = told and (subcommands or words[0].startswith("-"))
        unknown = [w for w in words if w.startswith("--") and f" {w.split('=')[0]}" not in told]
        if not known or unknown:
            wrong.append(f"{name(page)}: `daylight {command}`: {unknown or 'no such command'}")
    return wrong


@functools.cache
def said(daylight, subcommands):
    """The help of a command; empty where there is no such command."""
    done = subprocess.run([daylight, *subcommands, "--help"], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def copy(folder):
    """What a fresh clone holds, with the times of the files, so that cargo knows what it has built."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in filter(None, listed.split("\0")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, folder / path, follow_symlinks=False)


def environment(daylight, python, home):
    user = pathlib.Path.home()
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
    kept = {"CARGO_HOME": user / ".cargo", "RUSTUP_HOME": user / ".rustup", "XDG_CACHE_HOME": user / ".cache"}
    paths = [pathlib.Path(daylight).parent, pathlib.Path(python).parent]
    return {
        **{key: str(value) for key, value in kept.items()}, **os.environ, "HOME": str(home),
        "CARGO_TARGET_DIR": str(target), "CARGO_INSTALL_ROOT": str(target / "ci-install"),
        "PATH": ":".join([*map(str, paths), os.environ["PATH"]]),
    }


def shell(text, folder, env):
    """Exit code and output of commands; none of their processes is left."""
    child = subprocess.Popen(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output = child.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return None, child.communicate()[0]
    return child.returncode, output


def commands(text):
    """The commands of a block, lines that go on joined."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def pattern(line):
    """A line of shown output, with any numbers in it."""
    parts = [re.escape(" ".join(part.split())) for part in line.split("...")]
    return re.compile(".*".join(re.sub(r"\d+(\\\.\d+)*", r"[\\d.]+", part) for part in parts))


def unseen(shown, output):
    """The first line that is shown and was not printed."""
    printed = iter([" ".join(line.split()) for line in output.splitlines()])
    for line in filter(str.strip, shown.splitlines()):
        if not any(pattern(line.strip()).fullmatch(p) for p in printed):
            return line
    return None


class Runner:
    """Runs the pages and counts."""

    def __init__(self, daylight, python):
        self.daylight, self.python = daylight, python
        self.wrong, self.left_out, self.count = [], [], 0

    def page(self, page, scratch):
        folder, home = scratch / "clone", scratch / "home"
        folder.mkdir()
        home.mkdir()
        copy(folder)
        env, output = environment(self.daylight, self.python, home), ""
        for line, language, text, comments in blocks(page):
            where = f"{name(page)}:{line}"
            for kind, _, value in comments:
                if kind == "file":
                    (folder / value).parent.mkdir(parents=True, exist_ok=True)
                    (folder / value).write_text(text)
                if kind == "shows" and (lost := unseen(text, output)):
                    self.wrong.append(f"{where}: not printed: {lost.strip()}\n{output}")
            if language == "sh":
                output = self.block(where, text, comments, folder, env)

    def block(self, where, text, comments, folder, env):
        """Runs the commands of a block that are to run; gives their output."""
        all_commands = commands(text)
        reasons = [(marked, reason) for kind, marked, reason in comments if kind == "not run"]
        run = []
        for command in all_commands:
            reason = next((reason for marked, reason in reasons if marked is None or marked in command), None)
            if reason is None:
                run.append(command)
            elif reason:
                self.left_out.append((where, command.strip(), reason))
            else:
                self.wrong.append(f"{where}: `not run` without a reason")
        unused = [marked for marked, _ in reasons if marked and not any(marked in c for c in all_commands)]
        self.wrong += [f"{where}: no command has `{marked}`" for marked in unused]
        if not run:
            return ""
        first = [value for kind, _, value in comments if kind == "first"]
        wanted = next((int(value) for kind, _, value in comments if kind == "exit"), 0)
        self.count += len(run)
        began = time.monotonic()
        code, output = shell("\n".join([*first, *run]), folder, env)
        print(f"{time.monotonic() - began:6.1f} s  {where}: {len(run)} commands", flush=True)
        if code != wanted:
            ended = f"ran longer than {LIMIT_S} s" if code is None else f"ended with {code}, not {wanted}"
            self.wrong.append(f"{where}: {ended}\n  " + "\n  ".join(run) + f"\n{output}")
        return output


def run(daylight, python, *only):
    daylight, python = str(pathlib.Path(daylight).resolve()), str(pathlib.Path(python).absolute())
    runner = Runner(daylight, python)
    for page in [p for p in pages() if not only or name(p) in only]:
        runner.wrong += options(daylight, page)
        if any(language == "sh" for _, language, _, _ in blocks(page)):
            with tempfile.TemporaryDirectory() as scratch:
                runner.page(page, pathlib.Path(scratch))
    print(f"{len(runner.left_out)} commands are not run:")
    for where, command, reason in runner.left_out:
        print(f"  {where}: {command}: {reason}")
    return runner.wrong, f"{runner.count} commands of README and book did what they say"


def main(what, *arguments):
    wrong, well = links(pathlib.Path(arguments[0]).resolve()) if what == "links" else run(*arguments)
    if wrong:
        sys.exit("\n".join(wrong))
    print(well)


if __name__ == "__main__":
    main(*sys.argv[1:])
