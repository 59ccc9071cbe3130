"""Student's distribution, without a library for it."""
import math


def two_sided_quantile(outside, freedom):
    """What a value stays within but for a share `outside`, with an even number of degrees of freedom
    (Abramowitz and Stegun 26.7.4)."""
    def within(t):
        angle = math.atan(t / math.sqrt(freedom))
        term = total = 1.0
        for k in range(1, freedom // 2):
            term *= (2 * k - 1) / (2 * k) * math.cos(angle) ** 2
            total += term
        return math.sin(angle) * total
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if 1 - within(middle) < outside else (middle, high)
    return high
