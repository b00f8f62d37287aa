# labels: docs
# timeout: 120
# needs: train_gpt
"""Every training that docs/text.md and docs/papers/text_tasks.md show is one that train_gpt takes: its options exist and agree with each other and, where pretrain.sh starts it, with the recipe. Nothing is
trained, for the texts and checkpoints are the reader's own."""
import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("THINWIRE_BIN_DIR", os.path.join(ROOT, "build", "bin"))
RECIPE = os.path.join(ROOT, "experiments", "text_tasks", "pretraining.toml")
SCRIPTS_OWN = ("--out", "--text", "--pieces", "--config", "--ranks")  # of pretrain.sh
BERT_BASE = {"model_type": "bert", "hidden_act": "gelu", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522, "type_vocab_size": 2,
             "max_position_embeddings": 512, "layer_norm_eps": 1e-12}  # fmt: skip


def lines():
    for page in ("text.md", os.path.join("papers", "text_tasks.md")):
        with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
            for block in re.findall(r"^```\n(.*?)^```$", file.read(), flags=re.M | re.S):
                yield from block.replace("\\\n", " ").splitlines()


def pairs(words):
    return list(zip(words[::2], words[1::2]))


def trainings():
    """Options of train_gpt, by the command that gives them."""
    for line in lines():
        words = shlex.split(line, comments=True)
        if words and words[0].endswith("pretrain.sh"):
            given = [word for option, value in pairs(words[1:]) if option not in SCRIPTS_OWN for word in (option, value)]
            yield line, ["--config", RECIPE, "--vocabulary", "vocab.txt", "--vocab", "16000", "--checkpoint", "pretrained.h5", *given]
        for at, word in enumerate(words):
            if os.path.basename(word) == "train_gpt":
                yield line, words[at + 1 :]


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists(os.path.join(BIN, "train_gpt")):
            raise unittest.SkipTest("train_gpt is not built")

    def test_every_training_is_one_that_the_program_takes(self):
        found = list(trainings())
        self.assertGreaterEqual(len(found), 5)
        for line, options in found:
            with self.subTest(line), tempfile.TemporaryDirectory() as folder:
                for option, value in pairs(options):
                    if option == "--from":
                        os.makedirs(os.path.join(folder, value))
                        with open(os.path.join(folder, value, "config.json"), "w", encoding="utf-8") as file:
                            json.dump(BERT_BASE, file)
                done = subprocess.run([os.path.join(BIN, "train_gpt"), *options, "--print-config"], cwd=folder, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
                steps, warmup = (int(re.search(rf"^{key} = (\d+)", done.stdout, flags=re.M)[1]) for key in ("steps", "warmup"))
                self.assertLessEqual(4 * warmup, steps, "most of a training is warm-up")


if __name__ == "__main__":
    unittest.main()
