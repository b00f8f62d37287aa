# labels: unit
# timeout: 60
"""experiments/text_tasks/sources: what is read from the files of WordNet and GCIDE, on files made here."""
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [ROOT, os.path.dirname(os.path.abspath(__file__))]
sys.dont_write_bytecode = True
from make_sources import Made, write_gcide, write_wordnet  # noqa: E402

from experiments.text_tasks.sources import texts  # noqa: E402
from experiments.text_tasks.sources.gcide import Gcide  # noqa: E402
from experiments.text_tasks.sources.mutual import mutual_pairs  # noqa: E402
from experiments.text_tasks.sources.tree import NounTree  # noqa: E402
from experiments.text_tasks.sources.wordnet import WordNet  # noqa: E402
from plots.lib.errors import CorruptData, EnvironmentFailure  # noqa: E402

SYNSETS = [
    Made("n00000010", ("entity",), "that which is", (("~", "n00000020"),)),
    Made("n00000020", ("animal", "beast"), "a living thing that moves; (also called) creature; \"the Animal ran, \"; \"don't!\"", (("@", "n00000010"), ("~", "n00000030"))),
    Made("n00000030", ("dog", "domestic_dog"), "an animal kept by man", (("@", "n00000020"), ("~i", "n00000050"))),
    Made("n00000040", ("cat",), "an animal that purrs and slurs", (("@", "n00000020"),)),
    Made("n00000050", ("Lassie",), "a dog of the pictures", (("@i", "n00000030"),)),
    Made("n00000060", ("dog",), "a dull person; \"you Dog;\"; \"you (dog)\"; \"caf\u00e9\"", (("@", "n00000010"),)),
    Made("a00000010", ("great(p)", "big(a)"), "large in size", (("&", "a00000020"), ("!", "a00000030"))),
    Made("a00000020", ("huge",), "very large in size", (("&", "a00000010"),), satellite=True),
    Made("a00000030", ("small",), "not large", (("!", "a00000010"),)),
    Made("v00000010", ("run",), "move fast", ()),
    Made("r00000010", ("fast",), "in a quick way", ()),
]

GCIDE = r"""00-database-short
     The dictionary

Dog \Dog\ (d[o^]g), n. [AS. docga; akin to
   D. dog.]
   1. (Zo["o]l.) A {quadruped} animal kept by man [see Cat]; as, a
      good dog. --Some Body.
      [1913 Webster]

   2. A mean or bad fellow. [Colloq.] --Shak.
   [1913 Webster]

   3. [Obs.] A device for holding a log. A second sentence of it.
   [1913 Webster]

   4. a dog of the new kind, called also pup.
   [WordNet 1.5]

    5. Indented by four, which none is.
   [1913 Webster]

   Syn: cur; hound; this is no definition.
   [1913 Webster]

   -- Dog days, the days of a dog.
   [1913 Webster]

Dog \Dog\, v. t.
   To hunt or track like a hound; -- often with down.
   [Webster 1913 Suppl.]

Of \Of\, prep.
   From, or out from something.
   [1913 Webster]

Great \Great\, a.
   Large in size or number?
   [1913 Webster]

   Of great size, e. g., huge.
   [1913 Webster]
"""


class Texts(unittest.TestCase):
    def test_tokens(self):
        self.assertEqual(texts.tokens("it's a well-known fact, no. 12b; o'clock-"), ("it's", "a", "well-known", "fact", "no", "12", "b", "o'clock"))

    def test_overlap_counts_five_letters_of_words_of_content(self):
        self.assertEqual(texts.stems("the walking dogs were walkers"), {"walki", "dogs", "walke"})
        self.assertEqual(texts.overlap("an animal of the animals", "some animality of it"), 1)

    def test_tidy(self):
        self.assertEqual(texts.tidy(" A (b (c) d)  Thing ; "), "a (b d) thing")
        self.assertFalse(texts.is_allowed("a (b"))
        self.assertFalse(texts.is_allowed(""))

    def test_substitute(self):
        for text, wanted in (
            ("a dog, barks", "an animal, barks"),
            ("an dog!", "an animal!"),
            ("the dog and the dog", None),
            ("the dogs", None),
            ("dog", "animal"),
        ):
            self.assertEqual(texts.substitute(text, "dog", "animal"), wanted, text)
        self.assertEqual(texts.substitute("an apple a day", "apple", "dog"), "a dog a day")


class OfWordNet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        write_wordnet(cls.scratch.name, SYNSETS, uncommon={("beast", "n")})
        cls.wordnet = WordNet(cls.scratch.name)

    def test_order_of_synsets(self):
        self.assertEqual([synset.id for synset in self.wordnet], sorted((s.id for s in SYNSETS), key=lambda i: ("nvar".index(i[0]), i)))

    def test_definition_and_examples(self):
        animal = self.wordnet["n00000020"]
        self.assertEqual(animal.definition, "a living thing that moves; creature")
        self.assertEqual(animal.examples, ["the animal ran", "don't!"])
        self.assertEqual(self.wordnet["n00000060"].examples, ["you dog"])  # the others have characters that are not allowed

    def test_good_is_neither_bad_nor_proper(self):
        self.assertEqual([s.id for s in self.wordnet if not s.good], ["n00000040", "n00000050"])
        self.assertTrue(self.wordnet["n00000040"].bad)
        self.assertTrue(self.wordnet["n00000050"].proper)

    def test_words(self):
        self.assertEqual(self.wordnet["n00000030"].words, ["dog", "domestic dog"])
        self.assertEqual(self.wordnet["a00000010"].words, ["great", "big"])
        self.assertEqual(self.wordnet["n00000050"].words, ["lassie"])

    def test_senses_in_order_and_counts(self):
        self.assertEqual([s.id for s in self.wordnet.senses("dog", "n")], ["n00000030", "n00000060"])
        self.assertEqual(self.wordnet.senses("dog", "v"), [])
        self.assertEqual([self.wordnet.is_common(word, "n") for word in ("dog", "beast", "zebra")], [True, False, False])
        self.assertEqual(self.wordnet.parts("run"), {"v"})

    def test_links(self):
        self.assertEqual(self.wordnet.ancestors("n00000050"), ("n00000030", "n00000020", "n00000010"))
        self.assertEqual(self.wordnet.children("n00000020"), ["n00000030", "n00000040"])
        self.assertEqual(self.wordnet.children("n00000030"), ["n00000050"])
        self.assertEqual(self.wordnet.related("n00000030"), ("n00000040",))
        self.assertEqual(self.wordnet.related("a00000010"), ("a00000020", "a00000030"))

    def test_the_tree_of_nouns(self):
        tree = NounTree(self.wordnet)
        self.assertEqual([tree.depth(i) for i in ("n00000010", "n00000020", "n00000050")], [0, 1, 3])
        self.assertEqual(tree.tenths("n00000030", "n00000040"), 25)  # 100 * 1 / (2 + 2)
        self.assertEqual(tree.tenths("n00000050", "n00000040"), 20)  # 100 * 1 / (3 + 2)
        self.assertEqual(tree.tenths("n00000020", "n00000060"), 0)
        self.assertEqual(tree.tenths("n00000030", "n00000030"), 50)

        class Every:  # takes each number in turn
            def __init__(self):
                self.at = -1

            def below(self, n):
                self.at, self.most = self.at + 1, n
                return self.at

        draws = Every()
        self.assertEqual([tree.below("n00000020", draws) for _ in range(4)], ["n00000020", "n00000030", "n00000050", "n00000040"])
        self.assertEqual(draws.most, 4)

    def test_missing_and_damaged_files_are_named(self):
        with self.assertRaisesRegex(EnvironmentFailure, "data.noun is missing; install the package wordnet-base"):
            WordNet("/nowhere")
        with tempfile.TemporaryDirectory() as folder:
            write_wordnet(folder, SYNSETS)
            with open(os.path.join(folder, "data.verb"), "a", encoding="utf-8") as file:
                file.write("00000099 30 v zz run\n")
            with self.assertRaisesRegex(CorruptData, "data.verb has a line that is no synset"):
                WordNet(folder)


class OfGcide(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = os.path.join(scratch.name, "gcide.dict.dz")
        write_gcide(self.path, GCIDE)
        write_wordnet(scratch.name, SYNSETS)
        self.wordnet = WordNet(scratch.name)

    def test_definitions(self):
        gcide = Gcide(self.path)
        self.assertEqual(gcide.definitions("dog", "n"), ["a quadruped animal kept by man", "a mean or bad fellow", "a device for holding a log"])
        self.assertEqual(gcide.definitions("dog", "v"), ["to hunt or track like a hound"])
        self.assertEqual(gcide.definitions("great", "a"), ["of great size"])
        self.assertEqual(gcide.definitions("of", "n"), [])

    def test_mutual_pairs(self):
        pairs = mutual_pairs(self.wordnet, Gcide(self.path))
        self.assertEqual({i: (p.word, p.text, p.shared) for i, p in pairs.items()}, {"n00000030": ("dog", "a quadruped animal kept by man", 3)})

    def test_missing_and_damaged_files_are_named(self):
        with self.assertRaisesRegex(EnvironmentFailure, "install the package dict-gcide"):
            Gcide("/nowhere/gcide.dict.dz")
        with open(self.path, "rb") as file:
            data = file.read()
        for damaged in (data[:-20], b"no gzip"):
            with open(self.path, "wb") as file:
                file.write(damaged)
            with self.assertRaisesRegex(CorruptData, "is damaged"):
                Gcide(self.path)


if __name__ == "__main__":
    unittest.main()
