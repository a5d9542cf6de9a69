"""The lab: the experiments of the papers on this machine, one file each, as tables and plots."""
