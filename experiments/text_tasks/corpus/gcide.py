"""gcide: the dictionary GCIDE, all of its prose."""
from experiments.text_tasks.lib.collection import Collection, read
from experiments.text_tasks.markup import dictionary


@Collection(packages=("dict-gcide",), licence="GPL-2+")
def texts(files):
    for path in files(".dict.dz"):
        yield dictionary.text_of(read(path))
