"""The paper's experiments and our own: settings → tables → figures and claims. One module each, on one harness."""
