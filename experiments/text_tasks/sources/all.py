"""What a task may read, each part loaded when it is first asked for."""
import functools

from experiments.text_tasks.sources.gcide import Gcide
from experiments.text_tasks.sources.mutual import mutual_pairs
from experiments.text_tasks.sources.wordnet import WordNet


class Sources:
    """`wordnet_folder` and `gcide_file`: where the Debian packages put them, unless a test says otherwise."""

    def __init__(self, wordnet_folder, gcide_file):
        self._wordnet_folder, self._gcide_file = wordnet_folder, gcide_file

    @functools.cached_property
    def wordnet(self):
        return WordNet(self._wordnet_folder)

    @functools.cached_property
    def gcide(self):
        return Gcide(self._gcide_file)

    @functools.cached_property
    def mutual(self):
        return mutual_pairs(self.wordnet, self.gcide)
