"""Pages with plots: what stands on a page as values, made into one HTML file that needs nothing else."""
