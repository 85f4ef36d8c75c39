"""The paper's data as its authors published them (Zenodo record 3359814), and the table that they printed.

A folder holds three files for each language: ``word_indices/word_index_XX.tsv`` with a word's id (from 1, most
frequent first), a number and the word itself on every line, ``concept_indices/concept_index_XX.tsv``, and
``sparse_matrices/sparse_matrix_XX.txt.gz`` with a concept, a word's id and a count on every line. Where a file has
its columns in another order, they are recognised by their content.
"""
