"""The zoo: programs of every kind that must run recorded as they run alone. See README.md."""
