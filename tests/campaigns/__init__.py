"""Campaigns: many random cases, and many interruptions. `make fuzz` and `make kill` run them.

``python -m tests.campaigns fuzz --kind calls --seed 0 --case 7`` repeats one case.
"""
