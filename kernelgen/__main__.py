"""``python -m kernelgen``."""

from .cli import main

main()
