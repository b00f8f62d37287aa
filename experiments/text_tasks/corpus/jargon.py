"""jargon: the Jargon File, words of hackers."""
from experiments.text_tasks.lib.collection import Collection, read
from experiments.text_tasks.markup import dictionary


@Collection(packages=("dict-jargon",), licence="public domain")
def texts(files):
    for path in files(".dict.dz"):
        yield dictionary.text_of(read(path))
