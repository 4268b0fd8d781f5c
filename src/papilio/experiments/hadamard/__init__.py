"""The paper's section 4.1: the Hadamard matrix from its entries alone (figures 1 and 2)."""
