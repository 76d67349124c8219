"""Schedules performed in Megatron-LM: a function in place of Megatron Core's own.

    >>> import stringline.megatron
    >>> forward_backward = stringline.megatron.forward_backward_func("interleaved", V=2)
    >>> losses = forward_backward(forward_step_func=…, data_iterator=…, model=…, …)

Only this subpackage imports Megatron Core: version 0.16 or later, beside torch.
"""

from .function import forward_backward_func

__all__ = ["forward_backward_func"]
