"""Load and measurement: one sending process, any number of receiving ones, shared by `flood` and `bench`."""
