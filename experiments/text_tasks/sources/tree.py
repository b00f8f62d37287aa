"""Nouns as a tree: each below its first hypernym. Depth, what lies below, and similarity by the nearest common ancestor."""


class NounTree:
    def __init__(self, wordnet):
        self._wordnet = wordnet
        below = {}
        roots = []
        for synset in wordnet:
            if synset.part == "n":
                parents = synset.hypernyms
                below.setdefault(parents[0], []).append(synset.id) if parents else roots.append(synset.id)
        self._order, self._range = [], {}
        self._walk(roots, below)

    def _walk(self, roots, below):
        """Preorder, children in the order of ids; without recursion."""
        begun, waiting = {}, [(root, False) for root in reversed(roots)]
        while waiting:
            node, left = waiting.pop()
            if left:
                self._range[node] = begun[node], len(self._order)
                continue
            begun[node] = len(self._order)
            self._order.append(node)
            waiting.append((node, True))
            waiting += [(child, False) for child in reversed(below.get(node, []))]

    def below(self, node, stream):
        """A random id of those below a node, itself included."""
        first, end = self._range[node]
        return self._order[first + stream.below(end - first)]

    def depth(self, node):
        return len(self._wordnet.ancestors(node))

    def tenths(self, one, other):
        """Tenths of points, 0 to 50: 5 * 2 d(c) / (d(one) + d(other)), c the nearest common ancestor; 0 at the root.

        Wu and Palmer 1994, "Verb semantics and lexical selection", section 4, with depths from 0."""
        above = {one, *self._wordnet.ancestors(one)}
        common = next((node for node in (other, *self._wordnet.ancestors(other)) if node in above), None)
        if common is None:
            return 0
        return 100 * self.depth(common) // (self.depth(one) + self.depth(other))
