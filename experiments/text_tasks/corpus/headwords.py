"""headwords: a line "headword : definition" for each definition that the tasks' reader of GCIDE finds."""
from experiments.text_tasks.lib.collection import Collection
from experiments.text_tasks.sources.gcide import Gcide


@Collection(packages=("dict-gcide",), licence="GPL-2+", prose=False)
def texts(files):
    for path in files("/gcide.dict.dz"):
        yield "\n\n".join(f"{word} : {text}" for word, text in Gcide(path).all())
