"""What to buy for a traffic: processors, memory, network and the judge's bill, from measured unit costs."""
