"""What `./dev` and the tests need to set up a cluster on one machine; no daemon imports it."""
