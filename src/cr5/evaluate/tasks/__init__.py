"""What is measured: documents, sentences, words, and the table of the paper."""
