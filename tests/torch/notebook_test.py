"""Runs the cells of the examples' notebooks, one after the other in one namespace, as Jupyter does.

    notebook_test.py SITE SOURCES

SITE is the folder with the package (tools/wheel --test leaves it), SOURCES the top of the
repository. A cell that raises is a failure. Printed output is not compared, since much of it is
measured; UPDATE_GOLDEN=1 writes the output into the notebook. The exit status is 77, with a line of
explanation, without torch or the package: skipped, for ctest.
"""

import ast
import contextlib
import glob
import io
import json
import os
import shutil
import sys
import tempfile
import traceback

import whole_model


def run_cell(source, names):
    """The printed text, and the value of the last expression."""
    parsed = ast.parse(source)
    last = None
    if parsed.body and isinstance(parsed.body[-1], ast.Expr):
        last = ast.Expression(parsed.body.pop().value)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(parsed, "<cell>", "exec"), names)
        value = None if last is None else eval(compile(last, "<cell>", "eval"), names)
    return said.getvalue(), value


def lines(text):
    return text.splitlines(keepends=True)


def outputs(said, value, count):
    """In the form of notebooks: a picture if the value has one, text otherwise."""
    found = []
    if said:
        found.append({"name": "stdout", "output_type": "stream", "text": lines(said)})
    if value is not None:
        picture = getattr(type(value), "_repr_svg_", None)
        shown = {"image/svg+xml": lines(picture(value))} if picture else {
            "text/plain": lines(repr(value))}
        found.append({"data": shown, "execution_count": count, "metadata": {},
                      "output_type": "execute_result"})
    return found


def run_notebook(path):
    """True if all cells run, in a copy of the notebook's folder."""
    with open(path, encoding="utf-8") as file:
        notebook = json.load(file)
    names, count = {"__name__": "__main__"}, 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "notebook")
        shutil.copytree(os.path.dirname(path), folder)
        os.chdir(folder)
        sys.path.insert(0, folder)
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            count += 1
            try:
                said, value = run_cell("".join(cell["source"]), names)
            except Exception as error:
                traceback.print_exc()
                print(getattr(error, "stderr", None) or "")
                print(f"FAILED: {path}: cell {count}")
                return False
            cell["outputs"] = outputs(said, value, count)
            cell["execution_count"] = count
        os.chdir(os.path.dirname(path))
    if os.environ.get("UPDATE_GOLDEN") == "1":
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    print(f"ok: {path}: {count} cells", flush=True)
    return count > 0


def main():
    site, sources = map(os.path.abspath, sys.argv[1:3])
    whole_model.load_torch()
    sys.path.insert(0, site)
    os.environ["PYTHONPATH"] = site  # of the processes that cells start
    try:
        import stringline.torch  # noqa: F401
    except ImportError as error:
        whole_model.skip(str(error))
    notebooks = sorted(glob.glob(os.path.join(sources, "examples/*/*.ipynb")))
    good = [run_notebook(path) for path in notebooks]
    sys.exit(0 if good and all(good) else 1)


if __name__ == "__main__":
    main()
