"""What runs on the control hosts: apiserver, scheduler, controllers. They meet only in the API."""
