"""Six small changes to a schedule in cells, as mistakes of a person or a program.

Each takes a random generator and the rows, changes a single place, and returns a description of the
change; None if no place fits.
"""

import re

CELL = re.compile(r"(\d+)([A-Z_]+?)(\d*)$")
COMPUTATIONS = ("F", "B", "I", "W")


def parts(cell):
    """(stage, kind, microbatch) of a cell, unless the cell is a group."""
    match = CELL.match(cell)
    return match.groups() if match else ("", "", "")


def is_computation(cell):
    return parts(cell)[1] in COMPUTATIONS or cell.endswith("OVERLAP_F_B")


def is_receive(cell):
    return parts(cell)[1].startswith("RECV_")


def is_send(cell):
    return parts(cell)[1].startswith("SEND_")


def is_movable(cell):
    return parts(cell)[1].startswith(("RECV_", "WAIT_SEND_"))


def is_droppable(cell):
    """UNSHARD and RESHARD matter with FSDP only, which these runs do without."""
    return cell != "" and parts(cell)[1] not in ("UNSHARD", "RESHARD")


def places(rows, wanted):
    return [[i for i, cell in enumerate(row) if wanted(cell)] for row in rows]


def swap_neighbours(random, rows, wanted):
    """Swaps two wanted cells of a rank without another wanted cell between them."""
    found = places(rows, wanted)
    ranks = [rank for rank, at in enumerate(found) if len(at) >= 2]
    if not ranks:
        return None
    rank = random.choice(ranks)
    k = random.randrange(len(found[rank]) - 1)
    i, j = found[rank][k : k + 2]
    row = rows[rank]
    row[i], row[j] = row[j], row[i]
    return f"rank {rank}: {row[j]} and {row[i]} swapped"


def swap_computations(random, rows):
    return swap_neighbours(random, rows, is_computation)


def swap_receives(random, rows):
    return swap_neighbours(random, rows, is_receive)


def swap_sends(random, rows):
    return swap_neighbours(random, rows, is_send)


def move(random, rows):
    """Moves a receive or a wait a few places up or down."""
    found = places(rows, is_movable)
    ranks = [rank for rank, at in enumerate(found) if at]
    if not ranks:
        return None
    rank = random.choice(ranks)
    row = rows[rank]
    at = random.choice(found[rank])
    to = min(max(0, at + random.choice((-1, 1)) * random.randint(1, 6)), len(row) - 1)
    cell = row.pop(at)
    row.insert(to, cell)
    return f"rank {rank}: {cell} moved from place {at} to {to}"


def drop(random, rows):
    found = places(rows, is_droppable)
    rank = random.choice([rank for rank, at in enumerate(found) if at])
    # The kind is drawn first, so that rare kinds are dropped as often as common ones.
    kind = random.choice(sorted({parts(rows[rank][i])[1] for i in found[rank]}))
    at = random.choice([i for i in found[rank] if parts(rows[rank][i])[1] == kind])
    return f"rank {rank}: {rows[rank].pop(at)} dropped"


def swap_microbatches(random, rows):
    """Swaps the numbers of two actions of a stage and kind."""
    rank = random.randrange(len(rows))
    row = rows[rank]
    kinds = {}
    for i, cell in enumerate(row):
        stage, kind, microbatch = parts(cell)
        if microbatch:
            kinds.setdefault((stage, kind), []).append(i)
    choices = [at for _, at in sorted(kinds.items()) if len(at) >= 2]
    if not choices:
        return None
    i, j = random.sample(random.choice(choices), 2)
    row[i], row[j] = row[j], row[i]
    return f"rank {rank}: {row[j]} and {row[i]} have each other's microbatch"


CHANGES = (
    swap_computations, swap_receives, swap_sends, move, drop, swap_microbatches,
)
