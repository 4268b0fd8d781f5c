"""What every long computation shares: the session, threads, and files that are written whole or not at all."""
