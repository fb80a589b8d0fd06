"""What paths are made of: file systems, devices, and what they mean for those who write."""
