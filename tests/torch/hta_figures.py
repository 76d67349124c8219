"""The figures of Holistic Trace Analysis for the traces in a folder, as JSON on standard output.

    hta_figures.py FOLDER

The package is in the folder $STRINGLINE_HTA, and leaves out the last of several steps. The exit
status is 77 without the package.
"""

import contextlib
import glob
import json
import os
import sys

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"


def main(folder):
    sys.path.insert(0, os.environ.get("STRINGLINE_HTA", ""))
    try:
        from hta.trace_analysis import TraceAnalysis
    except ImportError:
        return 77
    files = {}
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path) as file:
            files[json.load(file)["distributedInfo"]["rank"]] = path
    with contextlib.redirect_stdout(sys.stderr):
        analysis = TraceAnalysis(trace_files=files, trace_dir=folder)
        times = analysis.get_temporal_breakdown(visualize=False)
        overlaps = analysis.get_comm_comp_overlap(visualize=False)
    figures = {int(row["rank"]): row for row in json.loads(times.to_json(orient="records"))}
    for row in json.loads(overlaps.to_json(orient="records")):
        figures[int(row["rank"])].update(row)
    json.dump(figures, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
