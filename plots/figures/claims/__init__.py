"""What all pages of claims share: the numbers of every judged claim beside the margins of its rule."""
