"""Random numbers that are the same everywhere: SplitMix64, seeded by a name (docs/papers/text_tasks.md, "Rules common to all tasks").

Python's own generator is not used: what its `shuffle` and `choice` draw may change with the version."""

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio


def fnv1a64(text):
    """The 64-bit FNV-1a hash of a text's bytes."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


class Stream:
    """One stream of a name (a task's) and a seed."""

    def __init__(self, name, seed):
        self._state = (fnv1a64(name) + seed * GOLDEN) & MASK

    def next(self):
        """64 random bits: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", figure 16."""
        self._state = (self._state + GOLDEN) & MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        """0 to n - 1, by the high 64 bits of a product; its bias, n / 2^64, is no matter here."""
        return (self.next() * n) >> 64

    def pick(self, values):
        return values[self.below(len(values))]

    def shuffle(self, values):
        """In place, by Fisher and Yates, from the end."""
        for i in range(len(values) - 1, 0, -1):
            j = self.below(i + 1)
            values[i], values[j] = values[j], values[i]
