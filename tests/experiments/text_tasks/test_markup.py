# labels: unit
"""Plain prose from HTML, pod, manual pages and dictionaries, and which paragraphs of it are kept."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, ROOT)
sys.dont_write_bytecode = True
from experiments.text_tasks.markup import dictionary, html, man, pod, prose  # noqa: E402

SENTENCE = "This is a sentence of the kind that is to be kept in the corpus."


def blocks(text):
    return [" ".join(block.split()) for block in text.split("\n\n") if block.strip()]


class Markup(unittest.TestCase):
    def test_html_is_freed_of_tags_scripts_and_listings(self):
        page = "<html><head><title>No</title></head><body><p>One <b>bold</b> &amp; <a href='x'>linked</a>\nword.</p><pre>int x;</pre><script>no()</script><ul><li>Two.<li>Three.</ul>"
        self.assertEqual(blocks(html.text_of(page)), ["One bold & linked word.", "Two.", "Three."])

    def test_html_that_ends_a_tag_never_begun_is_read_on(self):
        self.assertEqual(blocks(html.text_of("<p>One.</pre></div><p>Two.<style>p {}")), ["One.", "Two."])

    def test_pod_keeps_paragraphs_without_codes(self):
        page = "=head1 NAME\n\nThe B<bold I<word>> of L<perlfunc|perlfunc/x> and C<< $a <=> $b >>, E<lt>hereE<gt>.X<index>\n\n    code();\n\n=begin html\n\nno\n\n=end html\n\nMore.\n\n=cut"
        self.assertEqual(blocks(pod.text_of(page)), ["The bold word of perlfunc and $a <=> $b, <here>.", "More."])

    def test_manual_pages_lose_requests_fonts_and_listings(self):
        page = '.\\" comment\n.TH X 2\n.SH NAME\nx \\- does\n.SH DESCRIPTION\nThe function\n.BR x ()\nreturns \\fIfd\\fP, or \\-1.\n.nf\nint x(void);\n.fi\n.PP\nIt\\(aqs \\*(lqsaid\\*(rq.\n'
        self.assertEqual(blocks(man.text_of(page)), ["x - does", "The function x() returns fd, or -1.", "It's \"said\"."])

    def test_dictionaries_lose_marks_numbers_and_authors(self):
        text = "Word \\Word\\, n.\n   1. A {thing} said\n      aloud. --Milton.\n      [1913 Webster]\n\n   (a) Another. [Obs.]\n"
        self.assertEqual(blocks(dictionary.text_of(text)), ["Word \\Word\\, n. 1. A thing said aloud.", "Another. [Obs.]"])

    def test_dictionaries_lose_what_was_taken_from_wordnet(self):
        for mark in ("[WordNet 1.5]", "[WordNet 1.5 +PJC]", "[1913 Webster + WordNet 1.5]"):
            text = f"   1. From Webster.\n      [1913 Webster]\n\n   2. From WordNet.\n      {mark}\n\n   3. The word [WordNet] inside a text.\n"
            self.assertEqual(blocks(dictionary.text_of(text)), ["From Webster.", "The word [WordNet] inside a text."], mark)

    def test_a_dictionarys_mark_speaks_for_the_paragraphs_above_it(self):
        of_wordnet = "   2. Of WordNet.\n\n      An example.\n\n   Syn: other\n        [WordNet 1.5]\n\n"
        self.assertEqual(blocks(dictionary.text_of("   1. Of Webster.\n      [1913 Webster]\n\n" + of_wordnet + "   3. Unmarked.\n")), ["Of Webster.", "Unmarked."])
        self.assertEqual(blocks(dictionary.text_of("Word \\Word\\, n.\n   Another entry's.\n\n   Unmarked.\n\nNext \\Next\\, n.\n" + of_wordnet)), ["Word \\Word\\, n. Another entry's.", "Unmarked."])


class Prose(unittest.TestCase):
    def kept(self, text):
        return list(prose.paragraphs(text))

    def test_a_paragraph_becomes_a_line(self):
        self.assertEqual(self.kept("\n  This is a sentence of the kind\n that is to be kept in the corpus.\n \n\n" + SENTENCE), [SENTENCE, SENTENCE])

    def test_quotation_marks_and_dashes_become_ascii(self):
        self.assertEqual(self.kept("It is \u201cthe\u201d kind of thing\u2014that we\u2019d keep\u00a0in the corpus if it were to be long enough\u2026"), ["It is \"the\" kind of thing-that we'd keep in the corpus if it were to be long enough..."])

    def test_what_is_no_prose_is_left_out(self):
        for text in (
            "It is of the kind that is too short.",  # 36 characters
            SENTENCE[:-1],  # no end
            "Installation configuration administration of the internationalization.",  # few words
            "x = (a + b) * c[1] / 2; y = the sum of it, and z = the product of that; w is it.",  # few letters
            "Alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi.",  # no function words
            "\u042d\u0442\u043e is a sentence of the kind that is to be kept in the corpus.",  # characters beyond ASCII
        ):
            self.assertEqual(self.kept(text), [], text)


if __name__ == "__main__":
    unittest.main()
