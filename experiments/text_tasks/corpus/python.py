"""python: the documentation of Python."""
from experiments.text_tasks.lib.collection import Collection, read
from experiments.text_tasks.markup import html


@Collection(packages=("python3.11-doc",), licence="PSF")
def texts(files):
    for path in files(".html"):
        yield html.text_of(read(path))
