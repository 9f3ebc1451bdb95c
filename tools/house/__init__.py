"""The measures of the house: how many things the product has, and how many of them one interaction meets."""
