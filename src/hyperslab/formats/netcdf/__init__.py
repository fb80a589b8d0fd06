"""netCDF classic files, MINC images, and the attributes that say what stored numbers mean."""
