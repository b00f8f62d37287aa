# labels: unit
# timeout: 60
"""experiments/text_tasks/lib: hash, random stream, split."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, ROOT)
sys.dont_write_bytecode = True
from experiments.text_tasks.lib.split import is_dev, split  # noqa: E402
from experiments.text_tasks.lib.stream import GOLDEN, Stream, fnv1a64  # noqa: E402
from experiments.text_tasks.lib.task import Row  # noqa: E402


class Streams(unittest.TestCase):
    def test_the_hash_is_fnv_1a(self):  # vectors of its authors' page
        self.assertEqual([fnv1a64(text) for text in ("", "a", "foobar")], [0xCBF29CE484222325, 0xAF63DC4C8601EC8C, 0x85944171F73967E8])

    def test_numbers_are_those_of_split_mix_64(self):
        stream = Stream("acc", 1)
        self.assertEqual([stream.next(), stream.next()], [0x62A19D4C8C9F8D35, 0xB71B202543A79B2E])
        stream = Stream("acc", 0)
        stream._state = 0
        self.assertEqual(stream.next(), 0xE220A8397B1DCDAF)

    def test_seeds_and_names_part_streams(self):
        firsts = {Stream(name, seed).next() for name in ("acc", "pol") for seed in range(50)}
        self.assertEqual(len(firsts), 100)
        self.assertEqual(Stream("acc", 1 << 64).next(), Stream("acc", 0).next())
        self.assertEqual(Stream("acc", 1)._state, (fnv1a64("acc") + GOLDEN) % (1 << 64))

    def test_below_covers_its_range_evenly(self):
        stream, counts = Stream("even", 1), [0] * 7
        for _ in range(7000):
            counts[stream.below(7)] += 1
        self.assertTrue(all(abs(count - 1000) < 5 * 29.3 for count in counts), counts)  # 5 sigma of a binomial of 1/7

    def test_below_takes_the_high_bits(self):
        one, other = Stream("high", 3), Stream("high", 3)
        self.assertEqual(one.below(1 << 64), other.next())
        self.assertEqual(one.below(1 << 8), other.next() >> 56)
        self.assertEqual(one.below(1), 0)

    def test_a_shuffle_permutes_and_every_value_gets_everywhere(self):
        stream, places = Stream("shuffle", 1), [set() for _ in range(4)]
        for _ in range(200):
            values = list(range(4))
            stream.shuffle(values)
            self.assertEqual(sorted(values), list(range(4)))
            for place, value in zip(places, values):
                place.add(value)
        self.assertEqual(places, [set(range(4))] * 4)

    def test_a_shuffle_goes_from_the_end_and_draws_once_a_place(self):
        stream, draws = Stream("order", 1), Stream("order", 1)
        values = list(range(5))
        stream.shuffle(values)
        wanted = list(range(5))
        for i in (4, 3, 2, 1):
            j = draws.below(i + 1)
            wanted[i], wanted[j] = wanted[j], wanted[i]
        self.assertEqual(values, wanted)
        self.assertEqual(stream.next(), draws.next())


class Splits(unittest.TestCase):
    ROWS = [Row(f"k{i % 400}", str(i % 2), (f"text {i % 700}", f"other {i}")) for i in range(2000)]

    def halves(self, rows, train=10**6, dev=10**6, seed=1):
        return split(rows, Stream("split", seed), train, dev)

    def test_a_key_is_on_one_side(self):
        self.assertEqual(is_dev("n00001740"), fnv1a64("split:n00001740") % 5 == 0)
        train, dev = self.halves([Row(f"k{i % 400}", "1", (f"k{i % 400} {i}",)) for i in range(2000)])
        keys = [{row[1].split()[0] for row in side} for side in (train, dev)]
        self.assertEqual(keys[0] & keys[1], set())
        self.assertEqual(len(keys[0] | keys[1]), 400)
        self.assertTrue(30 < len(keys[1]) < 130)  # a fifth of 400, 5 sigma either way

    def test_no_text_of_dev_is_in_train(self):
        train, dev = self.halves(self.ROWS)
        texts = [{text for row in side for text in row[1:]} for side in (train, dev)]
        self.assertGreater(len(dev), 10)
        self.assertEqual(texts[0] & texts[1], set())

    def test_dev_loses_only_what_the_cut_train_has(self):
        whole, cut = self.halves(self.ROWS)[1], self.halves(self.ROWS, train=10)[1]
        self.assertGreater(len(cut), len(whole))

    def test_rows_stand_once_and_sides_are_cut(self):
        train, dev = self.halves(self.ROWS + self.ROWS, train=100, dev=7)
        self.assertEqual((len(train), len(dev)), (100, 7))
        train, dev = self.halves(self.ROWS + self.ROWS)
        self.assertEqual(len(set(train)), len(train))
        self.assertEqual(len(train), sum(not is_dev(row.key) for row in self.ROWS))

    def test_equal_seeds_give_equal_sides(self):
        self.assertEqual(self.halves(self.ROWS), self.halves(self.ROWS))
        self.assertNotEqual(self.halves(self.ROWS)[0], self.halves(self.ROWS, seed=2)[0])


if __name__ == "__main__":
    unittest.main()
