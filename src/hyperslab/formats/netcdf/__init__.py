"""netCDF classic files, MINC images, and images as variables of netCDF."""
