"""postgresql: the manual of PostgreSQL."""
from experiments.text_tasks.lib.collection import Collection, read
from experiments.text_tasks.markup import html


@Collection(packages=("postgresql-doc-15",), licence="PostgreSQL")
def texts(files):
    for path in files(".html"):
        yield html.text_of(read(path))
