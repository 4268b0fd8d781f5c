"""Learning dictionaries: functions on arrays whose columns are signals."""
