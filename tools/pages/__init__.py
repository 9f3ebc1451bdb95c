"""What is made from the code in docs/: pages, parts of pages, files. `python -m tools.pages docs` writes all."""
