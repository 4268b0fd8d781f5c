"""The paper's appendix A.3: wavelet synthesis as a product of sparse matrices."""
