"""Networks: a laboratory of links, and what goes over them."""
