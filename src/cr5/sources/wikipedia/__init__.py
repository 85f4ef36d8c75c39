"""Wikipedia dumps to an aligned corpus."""
