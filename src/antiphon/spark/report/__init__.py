"""What traces tell about a cluster: latency, throughput, views and links, on one page."""
