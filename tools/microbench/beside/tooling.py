"""Understanding a schedule: torch's passes and simulator beside `stringline check` and `sim`."""

import json
import os

from beside.measure import Figures, mebibytes, ratio, run, seconds

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = [(8, 2, 32), (16, 2, 128), (32, 2, 256), (64, 2, 512), (128, 2, 1024)]
QUICK = 3  # so many of them with --quick
TORCH_SECONDS = 3600
OWN_SECONDS = 120
ONCE_ABOVE = 5.0  # seconds: a longer pass of torch's is run once


def measure(given):
    return [measure_size(given, size) for size in (SIZES[:QUICK] if given.quick else SIZES)]


def measure_size(given, size):
    """Both in turns, so that disturbances of the machine meet both."""
    torch, own = Figures(), Figures()
    row = {"size": size}
    for _ in range(given.repeats):
        if not torch or torch.least < ONCE_ABOVE:
            command = [*given.torch, f"{HERE}/torch_passes.py", *map(str, size)]
            answer = json.loads(run(command, TORCH_SECONDS).out)
            torch.append(sum(s for name, s in answer["seconds"].items() if name != "trace"))
            if torch[-1] == torch.least:
                row["torch"] = answer
        check, sim = (run(command, OWN_SECONDS) for command in own_commands(given, size))
        own.append(check.cpu_s + sim.cpu_s)
        if own[-1] == own.least:
            row["own"] = {"check_s": check.cpu_s, "sim_s": sim.cpu_s,
                          "peak_mib": max(check.peak_mib, sim.peak_mib)}
    row["torch_s"], row["own_s"] = torch, own
    print(f"{size}: torch {torch.least:.3g} s, stringline {own.least:.3g} s", flush=True)
    return row


def own_commands(given, size):
    ranks, stages, microbatches = size
    arguments = [f"{given.sources}/schedules/interleaved.sched", f"P={ranks}", f"V={stages}",
                 f"M={microbatches}"]
    return [[given.tool, command, *arguments] for command in ("check", "sim")]


def headline(rows):
    last = rows[-1]
    ranks, stages, microbatches = last["size"]
    torch, own = min(last["torch_s"]), min(last["own_s"])
    yield (f"understand a schedule of {last['torch']['actions']:,} actions, processor time",
           seconds(torch), seconds(own), ratio(torch, own))
    memory = last["torch"]["peak_mib"], last["own"]["peak_mib"]
    yield ("the same, memory", mebibytes(memory[0]), mebibytes(memory[1]), ratio(*memory))


def page(rows):
    """The lines of the section."""
    yield "## Understanding a schedule"
    yield ""
    yield ("Interleaved 1F1B, from its parameters to a simulated step. Torch: what the constructor "
           "of `ScheduleInterleaved1F1B` does on every rank of a job, for all ranks (order, "
           "validation, lowering), and `_simulate_comms_compute` over the result. Stringline: "
           "`check` and `sim`, two processes, from text; `check` proves what torch does not ask, "
           "and `sim` has durations where torch counts steps. Processor time, user and system, "
           "without torch's import; the least of the runs, and their median. Torch counts waits "
           "and collectives among its lowered actions; without them there are a quarter fewer.")
    yield ""
    yield "| P x V x M | lowered actions | torch | median | stringline | median | ratio |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        torch, own = Figures(row["torch_s"]), Figures(row["own_s"])
        median = seconds(torch.median) if len(torch) > 1 else "(one run)"
        yield (f"| {' x '.join(map(str, row['size']))} | {row['torch']['actions']:,} | "
               f"{seconds(torch.least)} | {median} | {seconds(own.least)} | "
               f"{seconds(own.median)} | {ratio(torch.least, own.least)} |")
    yield ""
    last = rows[-1]
    parts = ", ".join(f"{name} {seconds(s)}" for name, s in last["torch"]["seconds"].items())
    yield (f"The last row, pass by pass: {parts}; stringline: check "
           f"{seconds(last['own']['check_s'])}, sim {seconds(last['own']['sim_s'])}. "
           "(`trace`, torch's writing of a trace, is not in the table.) Peak memory: torch "
           f"{mebibytes(last['torch']['peak_mib'])}, of which "
           f"{mebibytes(last['torch']['empty_mib'])} are there after its import; stringline "
           f"{mebibytes(last['own']['peak_mib'])}.")
