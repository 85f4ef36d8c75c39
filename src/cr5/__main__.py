"""``python -m cr5`` is the command ``cr5``."""

from cr5.cli import main

if __name__ == "__main__":
    main()
