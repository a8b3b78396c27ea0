"""The controller-manager: one file a controller, and the manager that runs them."""
