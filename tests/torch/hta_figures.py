"""The figures of Holistic Trace Analysis for the traces in a folder, as JSON on standard output.

    hta_figures.py FOLDER                    busy times and overlaps of ranks
    hta_figures.py FOLDER kernels OPERATOR   what GPUs did
    hta_figures.py FOLDER against OTHER STEP
                                             differences by name, of all ranks in a step
    hta_figures.py FILE memory               a memory timeline (.raw.json.gz)

The package is in the folder $STRINGLINE_HTA, and leaves out the last of several steps. The exit
status is 77 without the package.
"""

import contextlib
import glob
import json
import os
import sys
import tempfile

# The package rounds times to whole microseconds, and cannot build call stacks otherwise; the traces
# for all but the busy times have such times.
if len(sys.argv) == 2:
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"


def files_of(folder):
    files = {}
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path) as file:
            files[json.load(file)["distributedInfo"]["rank"]] = path
    return files


def rows_of(table):
    """A table's rows; columns of two levels are joined, and an index of names becomes columns."""
    table = table.reset_index()
    table.columns = ["_".join(filter(None, name)) if isinstance(name, tuple) else name
                     for name in table.columns]
    return json.loads(table.to_json(orient="records", double_precision=15))


def take_objects():
    """The package's call stacks are arrays of objects with newer versions of pandas, in which NumPy
    looks for equal rows only if they are numbers."""
    import numpy

    unique = numpy.unique

    def of_numbers(array, *rest, **more):
        is_object = str(getattr(array, "dtype", "")) == "object" and "axis" in more
        return unique(array.astype(float) if is_object else array, *rest, **more)

    numpy.unique = of_numbers


def busy(analysis):
    times = analysis.get_temporal_breakdown(visualize=False)
    overlaps = analysis.get_comm_comp_overlap(visualize=False)
    figures = {int(row["rank"]): row for row in json.loads(times.to_json(orient="records"))}
    for row in json.loads(overlaps.to_json(orient="records")):
        figures[int(row["rank"])].update(row)
    return figures


def kernels(analysis, files, operator):
    from hta.analyzers.trace_counters import TraceCounters

    take_objects()
    ranks = sorted(files)
    trace = analysis.t
    kinds, all_kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=10_000)
    idle, _ = analysis.get_idle_time_breakdown(ranks=ranks, visualize=False)
    launches = analysis.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False)
    queues = TraceCounters.get_queue_length_time_series(trace, ranks)
    rates = TraceCounters.get_memory_bw_time_series(trace, ranks)
    figures = {
        "min_ts": float(trace.min_ts),
        "kinds": rows_of(kinds),
        "kernels": rows_of(all_kernels),
        "idle": rows_of(idle),
        "launches": {rank: rows_of(launches[rank]) for rank in ranks},
        "queues": {rank: rows_of(queues[rank]) for rank in ranks},
        "queue_summary": rows_of(analysis.get_queue_length_summary(ranks=ranks)),
        "rates": {rank: rows_of(rates[rank]) for rank in ranks},
        "rate_summary": rows_of(analysis.get_memory_bw_summary(ranks=ranks)),
        "stragglers": [int(rank) for rank in analysis.get_potential_stragglers()],
    }
    with tempfile.TemporaryDirectory() as scratch:
        figures["sequences"] = {
            rank: rows_of(analysis.get_frequent_cuda_kernel_sequences(
                operator, scratch, rank=rank, visualize=False)) for rank in ranks}
    analysis.generate_trace_with_counters(ranks=ranks)
    figures["counters"] = {}
    for rank in ranks:
        import gzip

        path = files[rank].replace(".json", "_with_counters.json")
        with gzip.open(path) as file:
            events = json.load(file)["traceEvents"]
        figures["counters"][rank] = [event for event in events if event["ph"] == "C"]
        os.remove(path)
    return figures


def differences(first, second, step):
    from hta.common.trace import Trace
    from hta.trace_diff import LabeledTrace, TraceDiff

    sides = []
    for label, files in (("first", first), ("second", second)):
        trace = Trace(trace_files=files, trace_dir="")
        sides.append(LabeledTrace(label=label, t=trace))
    ranks = sorted(first)
    return rows_of(TraceDiff.compare_traces(*sides, ranks, ranks, step, step))


def main(folder, what="busy", *more):
    sys.path.insert(0, os.environ.get("STRINGLINE_HTA", ""))
    try:
        from hta.trace_analysis import TraceAnalysis
    except ImportError:
        return 77
    files = files_of(folder) if os.path.isdir(folder) else {}
    with contextlib.redirect_stdout(sys.stderr):
        if what == "memory":
            from hta.memory_analysis import MemoryAnalysis

            figures = MemoryAnalysis(folder)._process_raw_events()
        elif what == "against":
            figures = differences(files, files_of(more[0]), int(more[1]))
        else:
            analysis = TraceAnalysis(trace_files=files, trace_dir=folder)
            figures = busy(analysis) if what == "busy" else kernels(analysis, files, *more)
    json.dump(figures, sys.stdout, default=lambda number: number.item())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
