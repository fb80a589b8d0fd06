"""Programs that trials run beside hyperslab, to compare with."""
