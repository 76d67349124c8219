"""The distance of colours for readers without a kind of cone.

By the matrices of Machado, Oliveira and Fernandes (2009) for a complete lack, on linear RGB;
distances in CIE L*a*b* (1976).
"""
import itertools
import math

SIGHTS = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
}
TO_XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750),
          (0.0193339, 0.1191920, 0.9503041))
WHITE = (0.95047, 1, 1.08883)


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def linear(channel):
    c = channel / 255
    return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4


def lab(rgb, sight):
    seen = [min(1, max(0, c)) for c in times(SIGHTS[sight], [linear(c) for c in rgb])]
    shares = [value / white for value, white in zip(times(TO_XYZ, seen), WHITE)]
    x, y, z = [s ** (1 / 3) if s > 216 / 24389 else (24389 / 27 * s + 16) / 116 for s in shares]
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def least_distance(kinds, sight):
    """Between two colours of different kinds; `kinds` are lists of [red, green, blue]."""
    seen = [[lab(rgb, sight) for rgb in kind] for kind in kinds]
    return min(math.dist(a, b) for one, other in itertools.combinations(seen, 2)
               for a in one for b in other)
