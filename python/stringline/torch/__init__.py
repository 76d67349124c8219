"""Schedules performed by PyTorch: ``torch.distributed.pipelining`` with the orders of this package.

    >>> import stringline.torch
    >>> mine = stringline.torch.stages_of_rank("zb_v", rank, P=4, M=8)
    >>> stages = [PipelineStage(modules[i], i, 8, device) for i in mine]
    >>> runtime = stringline.torch.runtime("zb_v", stages, loss_fn, M=8)
    >>> runtime.step(batch, target=target)

Only this subpackage imports torch: version 2.10 or later.
"""

from .planned import stages_of_rank
from .runtime import instead_of, runtime

__all__ = ["instead_of", "runtime", "stages_of_rank"]
