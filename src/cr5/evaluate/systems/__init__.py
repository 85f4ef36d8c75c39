"""What is measured against each other: the model and the baselines."""
