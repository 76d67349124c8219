"""Torch's own passes over an interleaved schedule, as every rank of a job performs them first.

    torch_passes.py RANKS STAGES_ON_RANK MICROBATCHES

Prints one JSON object: processor seconds by pass, the number of lowered actions, memory. The class
is made as in a job, with stand-ins for its stages; the passes that its constructor calls are timed
where they stand. Then torch's simulator runs over the resulting order, and its writer of traces
over the simulation. The simulator does not know UNSHARD, RESHARD, REDUCE_GRAD and its wait: they
are left out.
"""

import json
import os
import resource
import sys
import tempfile
import time
import types

from torch.distributed.pipelining import schedules

PASSES = {
    "_validate_schedule": "validate",
    "_add_unshard_reshard": "unshard and reshard",
    "_add_reduce_grad": "reduce",
    "_add_send_recv": "send and receive",
    "_add_wait_send": "waits",
    "_validate_send_waits": "validate waits",
}
UNKNOWN_TO_THE_SIMULATOR = ("UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD")


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed_passes(seconds):
    """Puts a clock around each pass of the module."""
    for name, label in PASSES.items():
        def clocked(*arguments, inner=getattr(schedules, name),  # noqa: B008
                    label=label, **keywords):
            began = time.process_time()
            try:
                return inner(*arguments, **keywords)
            finally:
                seconds[label] = seconds.get(label, 0.0) + time.process_time() - began
        setattr(schedules, name, clocked)


def stand_ins(ranks, stages_on_rank):
    return [
        types.SimpleNamespace(
            stage_index=i * ranks, num_stages=ranks * stages_on_rank, group_size=ranks,
            group_rank=0, submod=None, is_first=i == 0, is_last=False, p2p_per_edge=False,
        )
        for i in range(stages_on_rank)
    ]


def main():
    ranks, stages_on_rank, microbatches = map(int, sys.argv[1:])
    seconds = {}
    timed_passes(seconds)
    empty_mib = peak_mib()
    began = time.process_time()
    schedule = schedules.ScheduleInterleaved1F1B(stand_ins(ranks, stages_on_rank), microbatches)
    made = time.process_time() - began
    seconds = {"order": made - sum(seconds.values()), **seconds}
    rows = schedule.pipeline_order_with_comms
    actions = sum(map(len, rows.values()))

    known = {
        rank: [a for a in row if a.computation_type.value not in UNKNOWN_TO_THE_SIMULATOR]
        for rank, row in rows.items()
    }
    began = time.process_time()
    simulated = schedules._simulate_comms_compute(
        known, lambda stage: stage % ranks, ranks * stages_on_rank
    )
    seconds["simulate"] = time.process_time() - began
    simulated_mib = peak_mib()

    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    began = time.process_time()
    schedules._dump_chrometrace(simulated, path)
    seconds["trace"] = time.process_time() - began
    os.unlink(path)
    print(json.dumps({"seconds": seconds, "actions": actions, "empty_mib": empty_mib,
                      "peak_mib": simulated_mib, "trace_peak_mib": peak_mib()}))


if __name__ == "__main__":
    main()
