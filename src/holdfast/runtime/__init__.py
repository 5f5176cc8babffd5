"""An application that runs: PE replicas, checkpoints, sources, sinks, recovery, and what is seen of it all."""
