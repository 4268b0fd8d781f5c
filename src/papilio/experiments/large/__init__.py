"""Large dictionaries of image patches: what learning, coding and storing them costs, and their errors."""
