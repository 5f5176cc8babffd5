"""The cluster as a model: hosts, PEs, queues, replicas and failures, at any scale."""
