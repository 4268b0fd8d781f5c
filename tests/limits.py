"""The limits that tests lower so that small data take the way of large data: one place that knows their names."""

LIMITS = {
    "sample": "papilio.dictionary.signals._SAMPLE",
    "sample_per_atom": "papilio.dictionary.signals._SAMPLE_PER_ATOM",
    "passes": "papilio.dictionary.signals._PASSES",
    "refinement_rounds": "papilio.dictionary.fast._ROUNDS",
    "annealing_rounds": "papilio.search.methods.sparse_factors._ROUNDS",
    "rows_per_part": "papilio.samples.rows._PART_ROWS",
    "seconds_between_looks": "papilio.samples.dask._SECONDS_BETWEEN_LOOKS",
    "parts": "papilio.samples.rows._MOST_PARTS",
    "stream_batch": "papilio.dictionary.estimator._BATCH",
    "seconds_between_lines": "papilio.cli.console._SECONDS_BETWEEN_LINES",
    "seconds_between_checkpoints": "papilio.runtime.session._SECONDS_BETWEEN_CHECKPOINTS",
}


def lower(monkeypatch, **limits):
    """Set limits, such as ``parts=8``, until ``monkeypatch`` is undone."""
    for name, value in limits.items():
        monkeypatch.setattr(LIMITS[name], value)
