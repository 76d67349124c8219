"""The actions of every rank in torch's schedule classes, as the cells of their CSV files.

The classes ask their stages for little more than their indices, so stand-ins are enough: no
processes and no modules.
"""

import types

COMPUTE, COMMS, DEFERRED = "compute", "comms", "deferred"  # the last: receives as late as torch can

# class, stages on a rank (None: any number)
LOOPED = [
    ("ScheduleLoopedBFS", None),
    ("ScheduleInterleaved1F1B", None),
    ("ScheduleInterleavedZeroBubble", None),
    ("ScheduleZBVZeroBubble", 2),
    ("ScheduleDualPipeV", 2),
]
SINGLE = [("ScheduleGPipe", 1), ("Schedule1F1B", 1)]
CLASSES = LOOPED + SINGLE


def stand_ins(ranks, stages_on_rank):
    count = ranks * stages_on_rank
    return [
        types.SimpleNamespace(
            stage_index=i * ranks, num_stages=count, group_size=ranks, group_rank=0, submod=None,
            is_first=i == 0, is_last=False, has_backward=True, p2p_per_edge=False,
        )
        for i in range(stages_on_rank)
    ]


def lowered(schedules, order, ranks, microbatches, **options):
    runtime = schedules._PipelineScheduleRuntime(stand_ins(ranks, 1), microbatches, **options)
    runtime._prepare_schedule_with_comms(order)
    return runtime.pipeline_order_with_comms


def single_order(schedules, name, ranks, microbatches):
    """GPipe and 1F1B give rows for their pictures, with reductions, which a file may not hold."""
    schedule = getattr(schedules, name)(stand_ins(ranks, 1)[0], microbatches)
    rows = schedule._get_pipeline_order()
    return {
        rank: [a for a in row if a is None or a.computation_type.value in ("F", "I", "W", "B")]
        for rank, row in rows.items()
    }


def rows(schedules, name, form, ranks, stages_on_rank, microbatches):
    """A list of cells for every rank. ValueError or AssertionError: torch refuses these numbers."""
    if (name, 1) in SINGLE:
        order = single_order(schedules, name, ranks, microbatches)
        if form != COMPUTE:
            order = lowered(schedules, order, ranks, microbatches, defer_pp_recv=form == DEFERRED)
    else:
        schedule = getattr(schedules, name)(
            stand_ins(ranks, stages_on_rank), microbatches, defer_pp_recv=form == DEFERRED
        )
        order = schedule.pipeline_order if form == COMPUTE else schedule.pipeline_order_with_comms
    return [["" if a is None else str(a) for a in order[rank]] for rank in range(ranks)]
