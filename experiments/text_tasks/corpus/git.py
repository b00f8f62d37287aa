"""git: the manual of git."""
from experiments.text_tasks.lib.collection import Collection, read
from experiments.text_tasks.markup import html


@Collection(packages=("git-doc",), licence="GPL-2")
def texts(files):
    for path in files(".html"):
        yield html.text_of(read(path))
