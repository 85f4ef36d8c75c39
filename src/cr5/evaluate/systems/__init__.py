"""Systems that are compared with each other: cr5 itself, baselines and an upper bound; ``registry`` lists them."""
