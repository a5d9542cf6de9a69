"""Pages with plots: shapes, charts and tables as HTML and SVG, which need nothing from anywhere else."""
