"""Arrays of NumPy and CuPy: dtypes, devices, memory, and how their numbers are added up."""
