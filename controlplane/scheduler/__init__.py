"""The scheduler: finds a node for each pending pod, has it stored, and can say why."""
