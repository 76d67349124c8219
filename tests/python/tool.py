"""The command line, beside which the package is tested."""

import json
import os
import subprocess

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
TOOL = os.environ["STRINGLINE_TOOL"]

COSTS = {"F": 18522, "I": 18086, "W": 9337, "p2p": 601, "D": 9000, "U": 8000}
COST_WORDS = "F=18522,I=18086,W=9337,p2p=601,D=9000,U=8000"


def said(*words, status=0):
    """The tool's standard output, at the top of the repository."""
    ran = subprocess.run([TOOL, *map(str, words)], cwd=SOURCE, capture_output=True)
    assert ran.returncode == status, (words, ran.stdout, ran.stderr)
    return ran.stdout.decode()


def figures(*words):
    found = json.loads(said(*words, "--json"))
    found.pop("ok")
    return found
