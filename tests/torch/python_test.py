"""Schedule objects of torch's in the Python package, and the way back. Arguments: the folder with the
package (tools/wheel --test leaves it)."""

import sys

import torch_orders
from torch.distributed.pipelining import schedules

RANKS, MICROBATCHES = 4, 8


def main(folder):
    sys.path.insert(0, folder)
    try:
        import stringline
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    for name, stages in torch_orders.CLASSES:
        stand_ins = torch_orders.stand_ins(RANKS, stages or 2)
        only = stand_ins[0] if (name, 1) in torch_orders.SINGLE else stand_ins
        schedule = getattr(schedules, name)(only, MICROBATCHES)
        plan = stringline.from_torch(schedule, name=name)
        print(plan.check())
        computed = [
            [group for group in rank if "_" not in group and "SHARD" not in group]
            for rank in plan.ranks
        ]
        back = stringline.from_torch(plan.to_torch_csv("compute"))
        assert back.ranks == computed, name
    for name, published in (("Schedule1F1B", "1f1b"), ("ScheduleGPipe", "gpipe")):
        schedule = getattr(schedules, name)(torch_orders.stand_ins(RANKS, 1)[0], MICROBATCHES)
        ours = stringline.load(published).plan(RANKS, MICROBATCHES)
        assert stringline.from_torch(schedule).ranks == ours.ranks, name
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
