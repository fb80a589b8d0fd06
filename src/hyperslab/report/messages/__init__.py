"""What people look at of the messages of a cluster."""
