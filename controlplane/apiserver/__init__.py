"""The apiserver: the one door to the cluster's state, over etcd. `server` puts it together, `chain` is its spine."""
