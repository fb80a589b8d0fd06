"""What engines that send tasks in batches share."""
