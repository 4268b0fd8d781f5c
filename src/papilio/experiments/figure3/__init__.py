"""The paper's section 4.2 and figure 3: dictionaries between fast and adapted."""
