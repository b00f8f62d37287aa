"""foldoc: the Free On-line Dictionary of Computing."""
from experiments.text_tasks.lib.collection import Collection, read
from experiments.text_tasks.markup import dictionary


@Collection(packages=("dict-foldoc",), licence="GFDL")
def texts(files):
    for path in files(".dict.dz"):
        yield dictionary.text_of(read(path))
