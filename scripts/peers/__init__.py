"""The toolkits that bench_peers.py compares with nmt: environments, data, settings, and what runs
inside them."""
