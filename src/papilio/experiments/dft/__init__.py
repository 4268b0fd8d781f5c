"""The paper's appendix A.1: the DFT as two permutations and butterfly stages."""
