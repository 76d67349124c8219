"""The commands `$ python …` in the examples' pages, run beside torch: they print what is shown there.

    example_test.py SITE SOURCES

SITE is the folder with the package (tools/wheel --test leaves it), SOURCES the top of the
repository. UPDATE_GOLDEN=1 writes what the commands print into the pages. (`DocumentsTest` runs the
pages' commands that need no torch.) The exit status is 77, with a line of explanation, if anything
is missing: skipped, for ctest.
"""

import glob
import os
import subprocess
import sys

import whole_model

SECONDS = 120  # of a command
BEGINS = "$ python "


def printed(command, site, sources):
    ran = subprocess.run(
        [sys.executable, *command.removeprefix(BEGINS).split()], cwd=sources, timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": site}, capture_output=True, text=True,
    )
    return (ran.stdout + ran.stderr).splitlines()


def check(page, site, sources):
    """How many commands of a page ran, and how many of these print something else."""
    with open(page, encoding="utf-8") as file:
        lines = file.read().splitlines()
    fresh, inside, ran, wrong = [], False, 0, 0
    while lines:
        line = lines.pop(0)
        fresh.append(line)
        if line.startswith("```"):
            inside = line == "```console"
        if not inside or not line.startswith(BEGINS):
            continue
        shown = []
        while lines and not lines[0].startswith(("```", "$ ")):
            shown.append(lines.pop(0))
        found = printed(line, site, sources)
        fresh += found
        same = shown == found
        ran, wrong = ran + 1, wrong + (not same)
        print("ok:" if same else f"FAILED, it prints {found}:", line, flush=True)
    if wrong and os.environ.get("UPDATE_GOLDEN") == "1":
        with open(page, "w", encoding="utf-8") as file:
            file.write("\n".join(fresh) + "\n")
    return ran, wrong


def main():
    site, sources = map(os.path.abspath, sys.argv[1:3])
    whole_model.load_torch()
    sys.path.insert(0, site)
    try:
        import stringline.torch  # noqa: F401
    except ImportError as error:
        whole_model.skip(str(error))
    pages = sorted(glob.glob(os.path.join(sources, "examples/*/README.md")))
    counts = [check(page, site, sources) for page in pages]
    ran, wrong = map(sum, zip(*counts))
    sys.exit(0 if ran and not wrong else 1)


if __name__ == "__main__":
    main()
