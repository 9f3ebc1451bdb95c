"""The pages and files of docs/ that are made from the code: `python -m tools.pages docs` writes all of them."""
