"""The figures of `report` beside those of Holistic Trace Analysis, for hta_test.py.

Equal means: to rounding of the floating-point numbers that the package adds up. Where the package
counts in its own way the comment at the figure says so.
"""

import gzip
import json
import os
import random
import subprocess

import hta_test
import trace_test

OPERATORS = ["aten::linear", "evaluate_function: AddmmBackward0"]
NEAR_US = 0.02  # a sum of numbers of about 1e12, of 1e-4 each
NEAR_MOST = 1e-6  # as a share, of what is not a time of the trace


def is_near(ours, theirs, least=NEAR_US):
    return abs(ours - theirs) <= max(least, NEAR_MOST * abs(theirs))


def equal_rows(title, ours, theirs, near=is_near):
    """Both are tables from keys to lists of numbers. Prints the first difference."""
    wrong = [f"{key}: {ours.get(key)} and {theirs.get(key)}"
             for key in sorted(set(ours) | set(theirs), key=str)
             if key not in ours or key not in theirs
             or len(ours[key]) != len(theirs[key])
             or not all(near(a, b) for a, b in zip(ours[key], theirs[key]))]
    numbers = sum(map(len, theirs.values()))
    assert numbers > 0, title
    print(f"{'FAILED' if wrong else 'ok'}: {title}: {numbers} numbers"
          + (f"; {len(wrong)} rows differ, as {wrong[0]}" if wrong else ""), flush=True)
    return not wrong


def check_idle(ranks, theirs):
    # A stream without gaps of a kind has no row there. The limit of "30 nanoseconds" is compared
    # with microseconds there, and is 30 us here.
    names = {"host_wait": "host_wait_us", "kernel_wait": "kernel_wait_us", "other": "other_us"}
    ours = {(rank["rank"], of["stream"], name): [of[key]]
            for rank in ranks for of in rank["streams"] for name, key in names.items() if of[key]}
    rows = {(row["rank"], row["stream"], row["idle_category"]): [row["idle_time"]]
            for row in theirs["idle"] if row["idle_time"]}
    assert {key[2] for key in rows} == set(names), "a cause of idle time does not occur"
    return equal_rows("idle time by cause", ours, rows)


def check_kernels(report, theirs):
    kinds = {"computation": "COMPUTATION", "communication": "COMMUNICATION", "memory": "MEMORY"}
    keys = ["sum_us", "mean_us", "least_us", "most_us", "deviation_us"]
    ours = {(rank["rank"], kinds[of["kind"]], of["name"]): [of[key] for key in keys]
            for rank in report["ranks"] for of in rank["kernels"]}
    columns = ["sum (us)", "mean (us)", "min (us)", "max (us)", "stddev"]
    rows = {(row["rank"], row["kernel_type"], row["name"]): [row[key] for key in columns]
            for row in theirs["kernels"]}
    good = equal_rows("kernels and their times", ours, rows)
    ours = {" overlapping ".join(kinds[kind] for kind in of["kinds"].split(", ")):
            [of["time_us"], round(100 * of["share"], 1)] for of in report["kinds"]}
    rows = {row["kernel_type"]: [row["sum"], row["percentage"]] for row in theirs["kinds"]
            if row["sum"] > 0}  # where two kinds meet at one time they are at once for 0 us there
    return equal_rows("kinds of work at once", ours, rows) and good


def check_launches(ranks, theirs):
    columns = ["correlation", "cpu_duration", "gpu_duration", "launch_delay"]
    ours, rows = {}, {}
    for rank in ranks:
        of = rank["launches"]
        for number, *times in zip(of["correlation"], of["host_us"], of["gpu_us"], of["delay_us"]):
            ours[rank["rank"], number] = times
        for row in theirs["launches"][str(rank["rank"])]:
            number, *times = (row[name] for name in columns)
            rows[rank["rank"], number] = times
        counted = [sum(row["gpu_duration"] < row["cpu_duration"] for row in
                       theirs["launches"][str(rank["rank"])]),
                   sum(row["cpu_duration"] > 50 for row in
                       theirs["launches"][str(rank["rank"])]),
                   sum(row["launch_delay"] > 100 for row in
                       theirs["launches"][str(rank["rank"])])]
        ours[rank["rank"], "counted"] = [of["short_work"], of["long_calls"], of["long_delays"]]
        rows[rank["rank"], "counted"] = counted
    return equal_rows("launches", ours, rows)


def series(samples):
    """A curve as its values at its times: samples of one time in any order are one."""
    last = {}
    for at, value in samples:
        last[round(at, 2)] = value
    return [number for sample in sorted(last.items()) for number in sample]


DESCRIBED = ["count", "mean", "std", "min", "25%", "50%", "75%", "max"]
DISTRIBUTION = ["count", "mean", "deviation", "least", "lower", "median", "upper", "most"]


def check_curves(ranks, theirs, firsts):
    ours, rows = {}, {}
    for rank in ranks:
        number, first = rank["rank"], firsts[rank["rank"]]
        for of in rank["queues"]:
            ours[number, "queue", of["stream"]] = series(
                (at + first, value) for at, value in zip(of["at_us"], of["length"]))
            ours[number, "queues", of["stream"]] = [of["distribution"][key] for key in DISTRIBUTION]
        for of in rank["copies"]:
            ours[number, "rate", of["kind"]] = series(
                (at + first, value) for at, value in zip(of["at_us"], of["gb_per_second"]))
            ours[number, "rates", of["kind"]] = [of["distribution"][key] for key in DISTRIBUTION]
        for what, column, name in (("queues", "queue_length", "stream"),
                                   ("rates", "memory_bw_gbps", "name")):
            for row in theirs[what][str(number)]:
                key = (number, what[:-1], row[name])
                rows.setdefault(key, []).append((row["ts"], row[column]))
    rows = {key: series(samples) for key, samples in rows.items()}
    for row in theirs["queue_summary"]:
        rows[row["rank"], "queues", row["stream"]] = [row[f"queue_length_{name}"]
                                                      for name in DESCRIBED]
    for row in theirs["rate_summary"]:
        rows[row["rank"], "rates", row["name"]] = [row[f"memory_bw_gbps_{name}"]
                                                   for name in DESCRIBED]
    return equal_rows("queues and rates of copies", ours, rows)


def events_of(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        return json.load(file)["traceEvents"]


def check_counters(tool, folder, theirs, scratch):
    out = os.path.join(scratch, "counters")
    report = trace_test.answer(tool, "report", folder, "--counters", out)
    ours, rows = {}, {}
    for rank in report["ranks"]:
        before = events_of(rank["trace"])
        after = events_of(os.path.join(out, os.path.basename(rank["trace"])))
        assert after[:len(before)] == before and len(after) > len(before)
        for table, events in ((ours, after[len(before):]),
                              (rows, theirs["counters"][str(rank["rank"])])):
            found = {}
            for event in events:
                assert event["ph"] == "C"
                (what, value), = event["args"].items()
                key = (rank["rank"], what, event["name"], event["pid"], event.get("id"))
                found.setdefault(key, []).append((event["ts"], value))
            table.update((key, series(samples)) for key, samples in found.items())
    return equal_rows("counters written into traces", ours, rows)


def check_sequences(tool, folder, operator, theirs):
    ours, rows = {}, {}
    for rank in trace_test.answer(tool, "report", folder, "--operator", operator)["ranks"]:
        for of in rank["sequences"]:
            ours[rank["rank"], "|".join([of["operator"], *of["kernels"]])] = [
                of["count"], of["gpu_us"], of["host_us"]]
        for row in theirs["sequences"][str(rank["rank"])]:
            rows[rank["rank"], row["pattern"]] = [
                row["count"], row["GPU kernel duration (us)"], row["CPU op duration (us)"]]
    return equal_rows(f"sequences of {operator}", ours, rows)


def check_stragglers(report, theirs):
    # The package knows the kernels of old NCCL only, whose name these traces have.
    ours = [of["rank"] for of in report["stragglers"]["ranks"][:2]]
    late = {of["late"] for of in report["stragglers"]["ranks"]}
    good = set(ours) == set(theirs["stragglers"])
    print(f"{'ok' if good else 'FAILED'}: stragglers {ours} and {theirs['stragglers']}, late in "
          f"{sorted(late)} steps", flush=True)
    return good


def check_differences(tool, first, second, step):
    words = ["report", first, "--against", second, "--step", str(step)]
    ours, rows = {}, {}
    for of in trace_test.answer(tool, *words)["differences"]:
        sums = ours.setdefault(of["name"], [0, 0, 0, 0])
        for i, key in enumerate(["first_count", "second_count", "first_us", "second_us"]):
            sums[i] += of[key]
    columns = ["first_counts", "second_counts", "first_total_duration", "second_total_duration"]
    for row in hta_test.json_of_hta(first, "against", second, str(step)):
        rows[row["name"]] = [row[name] for name in columns]
    assert any(row[0] != row[1] for row in rows.values())
    return equal_rows("differences by name", ours, rows)


def check_memory(tool, scratch):
    """A memory timeline, as export_memory_timeline writes it: made at random."""
    seed = random.randrange(1_000_000)
    draw = random.Random(seed)
    changes = [[-1, 0, draw.randrange(1, 10**9), category] for category in (0, 1, 7)]
    at = 1_790_857_026_000_000_000
    for _ in range(500):
        at += draw.choice([0, 1000, 2500])
        changes.append([at, draw.randrange(4), draw.randrange(-10**6, 10**6), draw.randrange(8)])
    path = os.path.join(scratch, "made.raw.json.gz")
    with gzip.open(path, "wt") as file:
        json.dump(changes, file)
    ours = trace_test.answer(tool, "report", path)
    times, sizes = hta_test.json_of_hta(path, "memory")
    rows = {i: [(time - times[0]) / 1000, *of] for i, (time, of) in enumerate(zip(times, sizes))}
    columns = [ours["at_us"], *ours["bytes"].values()]
    return equal_rows(f"memory by category (seed {seed})", dict(enumerate(zip(*columns))), rows)


def firsts_of(folder, theirs):
    """By rank, the first time of its trace, as the package counts."""
    firsts = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as file:
            trace = json.load(file)
        times = [event["ts"] for event in trace["traceEvents"] if event["ph"] in ("X", "i")]
        firsts[trace["distributedInfo"]["rank"]] = min(times) - theirs["min_ts"]
    return firsts


def with_old_names(folder):
    """Communication kernels get the names that old NCCL gave them."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("ncclDevKernel_", "ncclKernel_"))


def check_folder(tool, folder, scratch):
    report = trace_test.answer(tool, "report", folder)
    theirs = hta_test.json_of_hta(folder, "kernels", OPERATORS[0])
    ranks = report["ranks"]
    good = check_kernels(report, theirs)
    good = check_launches(ranks, theirs) and good
    good = check_curves(ranks, theirs, firsts_of(folder, theirs)) and good
    good = check_counters(tool, folder, theirs, scratch) and good
    good = check_stragglers(report, theirs) and good
    return good, ranks, theirs


def check(tool, sources, writer, scratch):
    folders = []
    for steps, seed in ((1, 3), (3, 3), (1, 4)):
        folders.append(os.path.join(scratch, f"kernels_{steps}_{seed}_same"))
        path = os.path.join(sources, "schedules", "1f1b.sched")
        microbatches = str(seed + 3)
        subprocess.run([writer, path, "4", microbatches, str(steps), str(seed), folders[-1]],
                       check=True, timeout=60)
        with_old_names(folders[-1])
    print("one step:", flush=True)
    good, ranks, theirs = check_folder(tool, folders[0], os.path.join(scratch, "one"))
    # The package looks up launches by labels that stand twice where it has left out a step: the
    # causes of idle time and the calls of operators are compared in traces of one step.
    good = check_idle(ranks, theirs) and good
    for operator in OPERATORS:
        theirs = hta_test.json_of_hta(folders[0], "kernels", operator)
        good = check_sequences(tool, folders[0], operator, theirs) and good
    print("three steps, of which the last is left out:", flush=True)
    good = check_folder(tool, folders[1], os.path.join(scratch, "three"))[0] and good
    good = check_differences(tool, folders[0], folders[2], 1) and good
    return check_memory(tool, scratch) and good
