"""Sources of corpora: one module per source yields documents; ``registry`` lists them, the other modules are shared."""
