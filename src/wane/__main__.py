"""`python -m wane` is the command `wane`."""

from wane.cli import main

if __name__ == "__main__":
    main()
